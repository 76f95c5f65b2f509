// @ts-check
"use strict";
/* Tables that sort and filter: a page of rows at a time, so that thousands stay quick. */

/** @typedef {{name: string, kind: string, values?: any[], words?: string[], at?: number[],
 *   role?: string, better?: string, low?: (number | null)[], high?: (number | null)[]}} Column */
/** @typedef {{num: number, columns: Column[], name?: string, cut?: number}} Table */

const ROWS_OF_A_PAGE = 25;
const FEW_ROWS = 12; // need no filter

/** The value of a cell. @param {Column} column @param {number} row @returns {any} */
function cell(column, row) {
  if (column.words && column.at) return column.at[row] < 0 ? null : column.words[column.at[row]];
  return column.values ? column.values[row] : null;
}

/** Decimals that make a column of numbers one that can be read down.
 * @param {Column} column @returns {number | null} null for whole numbers, or a wide range */
function decimalsOf(column) {
  let high = 0, low = Infinity, whole = true;
  for (const v of column.values || []) if (typeof v === "number") {
    high = Math.max(high, Math.abs(v));
    if (v !== 0) low = Math.min(low, Math.abs(v));
    whole &&= Number.isInteger(v);
  }
  if (whole || low < 1e-4) return null;
  return high >= 1000 ? 1 : high >= 10 ? 2 : high >= 1.5 ? 3 : 4;
}

/** Rows that a text asks for: words anywhere in text, or comparisons such as mig>0.3.
 * @param {Table} table @param {string} text @returns {(row: number) => boolean} */
function filterOf(table, text) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const match = /^([^<>=!]+)(<=|>=|!=|<|>|=)(.+)$/.exec(word);
    const column = match && table.columns.find((c) => c.name.toLowerCase() === match[1].toLowerCase());
    if (match && column) {
      const wanted = Number(match[3]), sign = match[2];
      return (/** @type {number} */ row) => {
        const value = cell(column, row);
        if (column.kind !== "number" || Number.isNaN(wanted)) {
          const same = String(value ?? "").toLowerCase() === match[3].toLowerCase();
          return sign === "!=" ? !same : same;
        }
        if (value === null) return false;
        return { "<": value < wanted, ">": value > wanted, "<=": value <= wanted, ">=": value >= wanted,
          "=": value === wanted, "!=": value !== wanted }[sign] ?? false;
      };
    }
    const lower = word.toLowerCase();
    const texts = table.columns.filter((c) => c.kind === "text");
    /** @type {Map<Column, boolean[]>} */
    const known = new Map(texts.filter((c) => c.words).map((c) => [c, (c.words || []).map((w) => w.toLowerCase().includes(lower))]));
    return (/** @type {number} */ row) => texts.some((c) => {
      const found = known.get(c);
      if (found && c.at) return c.at[row] >= 0 && found[c.at[row]];
      const value = cell(c, row);
      return value !== null && String(value).toLowerCase().includes(lower);
    });
  });
  return (row) => tests.every((test) => test(row));
}

/** @param {Column} column @param {number} way @returns {(a: number, b: number) => number} */
function orderOf(column, way) {
  const collator = new Intl.Collator("en", { numeric: true });
  return (a, b) => {
    const x = cell(column, a), y = cell(column, b);
    if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1; // unknown comes last
    const found = column.kind === "number" ? x - y : collator.compare(x, y);
    return way * found || a - b;
  };
}

/** A table with its controls.
 * @param {Table} table
 * @param {{label: string, choices?: string[], open?: (row: number) => void, shown?: (rows: number[]) => void,
 *   sort?: [string, number], filter?: boolean}} options
 * @returns {{element: HTMLElement, choose: (row: number) => void, also: (columns: Column[]) => void}} */
function sortable(table, options) {
  const element = make("div", { class: "sortable" });
  let columns = table.columns.filter((c) => c.role !== "hidden" && c.role !== "more");
  let page = 0, chosen = -1, text = "";
  let sorted = options.sort ? columns.find((c) => c.name === options.sort?.[0]) : undefined;
  let way = options.sort ? options.sort[1] : 1;
  /** @type {Map<Column, string>} */ const picked = new Map();
  /** @type {number[]} */ let rows = [];
  const decimals = new Map(table.columns.filter((c) => c.kind === "number").map((c) => [c, decimalsOf(c)]));
  const count = make("span", { role: "status", "aria-live": "polite" });
  const head = make("tr"), body = make("tbody");
  const before = make("button", { type: "button", onclick: () => { page--; fill(); } }, "← Previous");
  const after = make("button", { type: "button", onclick: () => { page++; fill(); } }, "Next →");
  const pages = make("div", { class: "pages" }, before, after, count);

  function find() {
    const test = filterOf(table, text);
    rows = [];
    for (let i = 0; i < table.num; i++)
      if (test(i) && [...picked].every(([column, wanted]) => cell(column, i) === wanted)) rows.push(i);
    if (sorted) rows.sort(orderOf(sorted, way));
    page = 0;
    if (options.shown) options.shown(rows);
    fill();
  }

  function fill() {
    const last = Math.max(0, Math.ceil(rows.length / ROWS_OF_A_PAGE) - 1);
    page = Math.min(Math.max(page, 0), last);
    const from = page * ROWS_OF_A_PAGE, some = rows.slice(from, from + ROWS_OF_A_PAGE);
    body.replaceChildren(...some.map((row) => make("tr", { class: row === chosen ? "chosen" : null },
      ...columns.map((column) => cellOf(column, row)))));
    before.disabled = page === 0;
    after.disabled = page === last;
    before.hidden = after.hidden = rows.length <= ROWS_OF_A_PAGE;
    count.textContent = rows.length
      ? `${from + 1} to ${from + some.length} of ${rows.length.toLocaleString("en")}` + (rows.length < table.num ? ` (${table.num.toLocaleString("en")} in all)` : "")
      : "Nothing fits this filter.";
  }

  /** @param {Column} column @param {number} row */
  function cellOf(column, row) {
    const value = cell(column, row), number = column.kind === "number";
    const open = options.open;
    if (column.name === "run_id" && open)
      return make("td", {}, make("button", { type: "button", class: "run", onclick: () => open(row) }, said(value)));
    const low = column.low && column.low[row], high = column.high && column.high[row];
    const interval = low !== null && low !== undefined && high !== null && high !== undefined
      ? make("span", { class: "interval" }, ` ${low.toFixed(3)}–${high.toFixed(3)}`) : null;
    const long = !number && String(value ?? "").length > 40;
    const digits = number ? decimals.get(column) ?? null : null;
    return make("td", { class: number ? "number" : long ? "long" : null },
      digits !== null && typeof value === "number" ? value.toFixed(digits) : said(value), interval);
  }

  function title() {
    head.replaceChildren(...columns.map((column) => {
      const is = column === sorted;
      const note = column.better && column.better !== "neither" ? `, ${column.better} is better` : "";
      return make("th", { scope: "col", class: column.kind === "number" ? "number" : null,
        "aria-sort": is ? (way > 0 ? "ascending" : "descending") : "none" },
        make("button", { type: "button", title: `Sort by ${column.name}${note}`, onclick: () => sortBy(column) },
          column.name + " ", make("span", { class: "arrow", "aria-hidden": "true" }, is ? (way > 0 ? "▲" : "▼") : "↕")));
    }));
  }

  /** @param {Column} column */
  function sortBy(column) {
    // Scores start with the best, everything else from the start of the alphabet.
    const first = column.better === "higher" ? -1 : 1;
    way = column === sorted ? -way : first;
    sorted = column;
    const place = columns.indexOf(column);
    title(); find();
    head.children[place]?.querySelector("button")?.focus();
  }

  if (options.filter !== false && table.num > FEW_ROWS) {
    const controls = make("div", { class: "controls" });
    for (const name of options.choices || []) {
      const column = table.columns.find((c) => c.name === name);
      const words = column && (column.words || [...new Set(column.values || [])].filter((v) => v !== null).map(String));
      if (!column || !words || words.length < 2 || words.length > 60) continue;
      const select = make("select", { onchange: () => {
        if (select.value === "") picked.delete(column); else picked.set(column, words[Number(select.value)]);
        find();
      } }, make("option", { value: "" }, "all"), ...words.map((word, i) => make("option", { value: i }, word)));
      controls.append(make("label", {}, name, select));
    }
    const number = columns.find((c) => c.kind === "number" && c.role === "score") || columns.find((c) => c.kind === "number");
    const search = make("input", { type: "search", placeholder: number ? `words, or ${number.name}>${number.role === "score" ? "0.3" : "1"}` : "words",
      oninput: () => { text = search.value; find(); } });
    controls.append(make("label", { class: "wide" }, `Filter ${options.label}`, search));
    element.append(controls);
  }
  element.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.label },
    make("table", {}, make("thead", {}, head), body)), pages);
  if (table.cut) element.append(make("p", { class: "faint" }, `${table.cut.toLocaleString("en")} more rows were left out of this page.`));
  title(); find();
  return {
    element,
    choose: (row) => { chosen = row; fill(); },
    also: (more) => { columns = [...table.columns.filter((c) => c.role !== "hidden" && c.role !== "more"), ...more]; title(); fill(); },
  };
}
