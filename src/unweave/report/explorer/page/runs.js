// The list of runs: sorted by any column, filtered by words and by scores.

import { byId, make } from "./dom.js";

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {string} status
 * @property {string} problem
 * @property {Object<string, number>} scores
 * @property {string} [method]
 * @property {string} [data]
 * @property {number} [seed]
 * @property {Object<string, number|string>} [letters]
 */

const PIECE = 100;
const MAIN_SCORES = 5;

/** @param {Row} row @param {string} key @returns {number | string | undefined} */
export function valueOf(row, key) {
  if (key in row.scores) return row.scores[key];
  const own = /** @type {any} */ (row)[key];
  return typeof own === "number" || typeof own === "string" ? own : row.letters?.[key];
}

/** `beta_vae mig>0.2 seed=1`: every word must fit. @param {string} text @returns {(row: Row) => boolean} */
export function filterOf(text) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const found = /^([\w.]+)(<=|>=|<|>|=)(.+)$/.exec(word);
    if (!found) {
      const wanted = word.toLowerCase();
      return (/** @type {Row} */ row) =>
        [row.id, row.method, row.data, row.status].some((v) => v?.toLowerCase().includes(wanted));
    }
    const [, key, sign, said] = found;
    const number = Number(said);
    return (/** @type {Row} */ row) => {
      const value = valueOf(row, key);
      if (value === undefined) return false;
      if (sign === "=") return String(value) === said || value === number;
      if (typeof value !== "number") return false;
      if (sign[0] === "<") return sign === "<" ? value < number : value <= number;
      return sign === ">" ? value > number : value >= number;
    };
  });
  return (row) => tests.every((test) => test(row));
}

/** Missing values last, whichever way. @param {string} key @param {boolean} down */
export function orderOf(key, down) {
  return (/** @type {Row} */ a, /** @type {Row} */ b) => {
    const [x, y] = [valueOf(a, key), valueOf(b, key)];
    if (x === undefined || y === undefined) return Number(x === undefined) - Number(y === undefined);
    const order = typeof x === "number" && typeof y === "number" ? x - y
      : String(x).localeCompare(String(y), undefined, { numeric: true });
    return down ? -order : order;
  };
}

export class RunList {
  /**
   * @param {{runs: Row[], higher: Object<string, boolean>}} listing
   * @param {(id: string, side: number) => void} choose
   */
  constructor(listing, choose) {
    this.rows = listing.runs;
    this.higher = listing.higher;
    this.choose = choose;
    /** @type {string[]} */
    this.chosen = [];
    this.shown = PIECE;
    const keys = [...new Set(this.rows.flatMap((row) => Object.keys(row.scores)))].sort();
    const main = keys.filter((key) => !key.includes(".")).slice(0, MAIN_SCORES);
    this.mainKeys = main.length ? main : keys.slice(0, MAIN_SCORES);
    this.allKeys = keys;
    this.sortKey = this.mainKeys.includes("mig") ? "mig" : this.mainKeys[0] ?? "method";
    this.down = this.higher[this.sortKey] ?? false;
    byId("filter").addEventListener("input", () => {
      this.shown = PIECE;
      this.draw();
    });
    byId("more-runs").addEventListener("click", () => {
      this.shown += PIECE;
      this.draw();
    });
    const all = byId("all-scores");
    all.parentElement.hidden = this.allKeys.length <= this.mainKeys.length;
    all.addEventListener("change", () => this.draw());
  }

  /** The run to begin with. @returns {Row | undefined} */
  best() {
    return this.rows.filter((row) => !row.problem).sort(orderOf(this.sortKey, this.down))[0];
  }

  /** @param {string[]} chosen  ids of A and B */
  mark(chosen) {
    this.chosen = chosen;
    this.draw();
  }

  draw() {
    const keys = byId("all-scores").checked ? this.allKeys : this.mainKeys;
    const found = this.rows.filter(filterOf(byId("filter").value));
    found.sort(orderOf(this.sortKey, this.down));
    byId("count").textContent = found.length === this.rows.length
      ? `${found.length} ${found.length === 1 ? "run" : "runs"}`
      : `${found.length} of ${this.rows.length} runs`;
    const columns = [["method", "method"], ["letters", "letters"], ["seed", "seed"], ["data", "data"],
      ...keys.map((key) => [key, key])];
    const head = make("tr", {}, make("th", { scope: "col" }, "show"),
      ...columns.map(([key, title]) => this.header(key, title, keys.includes(key) || key === "seed")));
    const body = found.slice(0, this.shown).map((row) => this.line(row, keys));
    if (!body.length) {
      body.push(make("tr", {}, make("td", { colspan: columns.length + 1, class: "none" },
        "No run fits this filter. Words match names; scores are written mig>0.2, letters beta=4.")));
    }
    byId("runs").replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
    byId("more-runs").hidden = found.length <= this.shown;
  }

  /** @param {string} key @param {string} title @param {boolean} isNumber */
  header(key, title, isNumber) {
    if (key === "letters") return make("th", { scope: "col" }, title);
    const isSorted = key === this.sortKey;
    const better = this.higher[key];
    const sort = isSorted ? (this.down ? "descending" : "ascending") : null;
    const hint = better === undefined ? null : better ? "higher is better" : "lower is better";
    return make("th", { scope: "col", "aria-sort": sort, class: isNumber ? "number" : null },
      make("button", { type: "button", title: hint, onclick: () => {
        this.down = isSorted ? !this.down : better ?? false;
        this.sortKey = key;
        this.draw();
        byId("runs").querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
      }, "data-key": key }, title, make("span", { "aria-hidden": "true" },
        isSorted ? (this.down ? " ↓" : " ↑") : "")));
  }

  /** @param {Row} row @param {string[]} keys */
  line(row, keys) {
    const buttons = ["A", "B"].map((letter, side) => make("button", {
      type: "button", class: `side side-${letter.toLowerCase()}`, disabled: Boolean(row.problem),
      "aria-pressed": this.chosen[side] === row.id, title: row.problem || null,
      "aria-label": side ? `compare with ${row.id}` : `show ${row.id}`,
      onclick: () => this.choose(row.id, side),
    }, letter));
    const letters = Object.entries(row.letters ?? {}).slice(0, 3)
      .map(([k, v]) => `${k}=${typeof v === "number" ? Number(v.toPrecision(4)) : v}`).join(" ");
    return make("tr", { "data-run": row.id, class: row.problem ? "problem" : null },
      make("td", { class: "sides" }, ...buttons),
      make("th", { scope: "row", title: row.id }, row.method ?? row.id,
        ...(row.status === "done" ? [] : [make("small", { title: row.problem || null }, ` ${row.status}`)])),
      make("td", { class: "letters" }, letters),
      make("td", { class: "number" }, String(row.seed ?? "")),
      make("td", {}, row.data ?? ""),
      ...keys.map((key) => make("td", { class: "number" }, row.scores[key]?.toFixed(3) ?? "–")));
  }
}
