// @ts-check
"use strict";
/* The report: sections from the data in the page. Nothing is fetched, nothing is sent. */

const MANY_PANELS = 12;

(() => {
  const data = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent || "{}");
  /** @type {Table} */ const runs = data.runs;
  const scores = runs.columns.filter((c) => c.role === "score");
  const column = (/** @type {string} */ name) => runs.columns.find((c) => c.name === name);
  const main = make("main", { id: "main" });
  /** @type {[string, string][]} */ const places = [];

  /** @param {string} id @param {string} title @param {...(Node | string | null)} inside */
  function section(id, title, ...inside) {
    places.push([id, title]);
    main.append(make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...inside));
  }

  /** @param {string[][]} lines */
  const facts = (lines) => make("dl", { class: "facts" }, ...lines.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

  // -- runs ------------------------------------------------------------------------------------

  const card = make("div", { "aria-live": "polite" });
  /** @type {(rows: number[]) => void} */ let follow = () => {};

  /** @param {number} row */
  function open(row) {
    listing.choose(row);
    const id = column("run_id");
    const name = id ? String(cell(id, row)) : "";
    const known = runs.columns.filter((c) => c.role !== "score" && c.role !== "hidden" && cell(c, row) !== null);
    const own = scores.filter((c) => cell(c, row) !== null);
    const inside = make("div", { class: "card", tabindex: "-1" },
      make("button", { type: "button", class: "close", onclick: () => card.replaceChildren() }, "Close"),
      make("h3", {}, name), facts(known.map((c) => [c.name, said(cell(c, row))])));
    if (own.length) {
      const percentile = (/** @type {Column} */ c) => {
        const all = (c.values || []).filter((v) => v !== null), value = cell(c, row);
        return Math.round(100 * all.filter((v) => v < value).length / Math.max(1, all.length - 1));
      };
      inside.append(make("h4", {}, "Scores"), sortable({ num: own.length, columns: [
        { name: "score", kind: "text", values: own.map((c) => c.name) },
        { name: "value", kind: "number", values: own.map((c) => cell(c, row)) },
        { name: "low", kind: "number", values: own.map((c) => c.low ? c.low[row] : null) },
        { name: "high", kind: "number", values: own.map((c) => c.high ? c.high[row] : null) },
        { name: "percentile here", kind: "number", values: own.map(percentile) },
        { name: "better", kind: "text", values: own.map((c) => c.better || "") },
      ] }, { label: "scores of the run", filter: false }).element);
    }
    const curve = data.curves[name];
    if (curve) inside.append(curves(curve));
    const look = data.looks.find((/** @type {any} */ l) => l.run_id === name);
    if (look) inside.append(make("h4", {}, "Traversals"), looked(look));
    const command = column("command");
    if (command && cell(command, row)) inside.append(make("h4", {}, "To train it again"), make("pre", { tabindex: "0" }, cell(command, row)));
    card.replaceChildren(inside);
    inside.focus({ preventScroll: true });
    inside.scrollIntoView({ block: "nearest" });
  }

  /** @param {{step: number[], terms: Record<string, number[]>}} curve */
  function curves(curve) {
    const own = Object.entries(curve.terms), latent = own.filter(([term]) => /^kl\.\d+$/.test(term));
    /** @type {Panel[]} */ const panels = own.filter(([term]) => !/\.\d+$/.test(term)).map(([term, y]) => ({
      kind: "lines", title: term, x: "step", y: "", lines: [line(term, y)] }));
    function line(/** @type {string} */ name, /** @type {number[]} */ y) {
      const kept = y.map((v, i) => i).filter((i) => y[i] !== null);
      return { name, x: kept.map((i) => curve.step[i]), y: kept.map((i) => y[i]) };
    }
    const found = make("div", {}, figure({ title: "Curves of the training, nats per image", panels, apart: true }));
    if (latent.length) found.append(figure({ title: "KL of each latent", panels: [{ kind: "lines", title: "", x: "step", y: "nats",
      lines: latent.map(([term, y]) => line(term.replace("kl.", "z"), y)) }] }));
    return found;
  }

  const source = column("source");
  const isOwn = (/** @type {number} */ row) => !source || cell(source, row) !== "published";
  const ranking = scores.filter((c) => c.better === "higher");
  const best = ranking.find((c) => (c.values || []).some((v, row) => v !== null && isOwn(row))) || ranking[0];
  const listing = sortable(runs, { label: "runs", choices: ["data", "method", "setting", "status", "source", "study"], open,
    shown: (rows) => follow(rows), sort: best ? [best.name, -1] : undefined });
  const more = runs.columns.filter((c) => c.role === "more");
  const box = make("input", { type: "checkbox", onchange: () => listing.also(box.checked ? more : []) });
  section("runs", "Runs", make("p", { class: "faint" }, `Scores in the convention ${data.convention}` +
    (scores.some((c) => c.low) ? "; small figures are 95 % intervals of a score" : "") +
    ". Choose a run to see all of it; click a heading to sort."), listing.element,
    more.length ? make("label", { class: "faint" }, box, " more columns") : null, card);

  // -- a figure of the filtered runs -----------------------------------------------------------

  if (scores.length && runs.num > 2) {
    const holder = make("div", { class: "panel lone" }), keys = make("div");
    const pick = (/** @type {string} */ label, /** @type {string[]} */ names, /** @type {number} */ at) => {
      const select = make("select", { onchange: () => draw() }, ...names.map((n, i) => make("option", { value: i, selected: i === at }, n)));
      return { label: make("label", {}, label, select), value: () => names[Number(select.value)] };
    };
    const names = scores.map((c) => c.name), facets = ["method", "setting", "data", "seed", "source"].filter((n) => column(n));
    const kind = pick("figure", scores.length > 1 ? ["scatter", "boxes"] : ["boxes"], 0);
    const across = pick("across", names, 0), up = pick("up", names, Math.min(1, names.length - 1)), by = pick("by", facets, 0);
    /** @type {number[]} */ let shown = [...Array(runs.num).keys()];
    function groups() {
      const facet = /** @type {Column} */ (column(by.value()));
      /** @type {Map<string, number[]>} */ const found = new Map();
      const own = by.value() === "setting" ? column("method") : undefined;
      for (const row of shown) {
        const name = own ? `${cell(own, row)} ${cell(facet, row) ?? ""}` : said(cell(facet, row));
        const held = found.get(name);
        if (held) held.push(row); else found.set(name, [row]);
      }
      return [...found].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
    }
    function draw() {
      const scatter = kind.value() === "scatter";
      up.label.hidden = !scatter;
      const x = /** @type {Column} */ (column(across.value())), y = /** @type {Column} */ (column(up.value()));
      const found = groups(), id = column("run_id");
      keys.replaceChildren();
      if (!scatter) {
        const boxes = found.map(([name, rows]) => ({ name, ...five(rows.map((r) => cell(x, r)).filter((v) => v !== null)) })).filter((b) => b.num);
        drawPanel(holder, { kind: "boxes", title: "", x: "", y: x.name, boxes }, []);
        return;
      }
      const lines = found.map(([name, rows]) => {
        const kept = rows.filter((r) => cell(x, r) !== null && cell(y, r) !== null);
        return { name, joined: false, x: kept.map((r) => cell(x, r)), y: kept.map((r) => cell(y, r)),
          labels: id ? kept.map((r) => String(cell(id, r))) : undefined, go: (/** @type {number} */ i) => open(kept[i]) };
      }).filter((l) => l.x.length);
      if (lines.length <= NUM_COLOURS) keys.append(legend(lines.map((l) => l.name)));
      drawPanel(holder, { kind: "lines", title: "", x: x.name, y: y.name, lines }, lines.map((l) => l.name));
    }
    section("figure", "Runs in a figure", make("p", { class: "faint" }, "Shows the runs that the filter above leaves; click a point to open its run."),
      make("div", { class: "controls" }, kind.label, across.label, up.label, by.label), keys, holder);
    let ready = false;
    holder.style.minHeight = "300px";
    whenSeen(holder, () => { ready = true; holder.style.minHeight = "0"; draw(); });
    follow = (rows) => { shown = rows; if (ready) draw(); };
  }

  /** @param {number[]} values */
  function five(values) {
    if (!values.length) return { num: 0 };
    const s = [...values].sort((a, b) => a - b);
    const at = (/** @type {number} */ q) => { const p = q * (s.length - 1), i = Math.floor(p); return s[i] + (p - i) * ((s[i + 1] ?? s[i]) - s[i]); };
    const [a, m, b] = [at(0.25), at(0.5), at(0.75)], reach = 1.5 * (b - a);
    const inside = s.filter((v) => v >= a - reach && v <= b + reach);
    return { num: s.length, five: [inside[0], a, m, b, inside[inside.length - 1]], outside: s.filter((v) => v < a - reach || v > b + reach) };
  }

  // -- traversals ------------------------------------------------------------------------------

  /** @param {any} look */
  function looked(look) {
    const strip = (/** @type {string} */ name, /** @type {string} */ remark, /** @type {string} */ address, /** @type {string} */ alt) =>
      make("div", { class: "strip" }, make("span", {}, make("b", {}, name), remark ? make("br") : null, remark), make("img", { src: address, alt, loading: "lazy" }));
    return make("div", { class: "look" }, make("h4", {}, look.title), make("p", { class: "faint" }, `${look.run_id}. Each row moves one latent ${look.extent}; the others stay at ${look.where}.`),
      ...look.images.map((/** @type {any} */ i) => strip(i.name, "", i.strip, i.name)),
      ...look.rows.map((/** @type {any} */ r) => strip(r.name, `${look.measure} ${r.kl.toFixed(2)}${r.follows ? ", " + r.follows : ""}`, r.strip, `traversal of ${r.name}${r.follows ? ", which follows " + r.follows : ""}`)));
  }
  if (data.looks.length) section("traversals", "Traversals", make("p", {}, "Latents sorted by their KL in nats, those of a generator by the information (MI) that made images hold about them; the percentage is the information a latent shares with the factor it follows best, of the factor's entropy."),
    make("div", { class: "looks" }, ...data.looks.map(looked)));
  if (data.not_shown.length) main.append(...data.not_shown.map((/** @type {string} */ line) => make("p", { class: "faint" }, line)));
  if (runs.num <= 3 && !data.answers.length) {
    const id = column("run_id");
    const own = Object.keys(data.curves).filter((name) => name);
    if (id && own.length) section("curves", "Curves", ...own.flatMap((name) => [make("h3", {}, name), curves(data.curves[name])]));
  }

  // -- answers and published runs --------------------------------------------------------------

  /** @param {any[]} tables */
  const tabled = (tables) => tables.map((t, i) => make("details", { open: i === 0 && t.num <= 12 },
    make("summary", {}, `Table: ${t.name}, ${t.num.toLocaleString("en")} rows`), later(() => sortable(t, { label: t.name, choices: ["data", "score", "method"] }).element)));

  /** Build what is inside of details when it is first opened. @param {() => HTMLElement} build */
  function later(build) {
    const holder = make("div");
    new IntersectionObserver((entries, watcher) => {
      if (entries.some((entry) => entry.isIntersecting)) { watcher.disconnect(); holder.replaceChildren(build()); }
    }, { rootMargin: "200px" }).observe(holder);
    holder.style.minHeight = "20px";
    return holder;
  }

  if (data.answers.length) {
    section("answers", "What the rows say", make("p", { class: "faint" }, data.answers_about + "."),
      make("ul", { class: "questions" }, ...data.answers.filter((/** @type {any} */ a) => !a.missing).map((/** @type {any} */ a) =>
        make("li", {}, make("a", { href: `#answer-${a.name}` }, a.asks)))),
      ...data.answers.filter((/** @type {any} */ a) => !a.missing).map((/** @type {any} */ a) => make("article", { id: `answer-${a.name}` },
        make("h3", {}, a.asks), make("p", { class: "source" }, a.source), make("p", {}, a.sentence),
        ...a.figures.map(folded), ...tabled(a.tables))),
      ...unanswered());
  }
  /** A figure; one of many panels waits until it is asked for. @param {any} given */
  function folded(given) {
    if (given.panels.length <= MANY_PANELS) return figure(given);
    return make("details", {}, make("summary", {}, `Figure: ${given.title}, ${given.panels.length} panels`), figure(given));
  }
  function unanswered() {
    const missing = data.answers.filter((/** @type {any} */ a) => a.missing);
    return missing.length ? [make("h3", {}, "Not answered by these rows"), make("ul", {}, ...missing.map((/** @type {any} */ a) => make("li", {}, make("b", {}, a.asks), " ", a.missing + ".")))] : [];
  }
  if (data.published) section("published", "Beside the published runs", make("p", {}, data.published.sentence),
    sortable(data.published.table, { label: "percentiles", choices: ["data", "score"] }).element, ...data.published.figures.map(figure));

  section("again", "How to do it again", ...data.commands.flatMap((/** @type {string[]} */ c) => [make("h4", {}, c[0]), make("pre", { tabindex: "0" }, c[1])]),
    make("h3", {}, "Versions"), facts(data.versions));

  const header = make("header", {}, make("h1", {}, data.title), make("p", { class: "faint" }, `Made by unweave, ${data.made}`), facts(data.about),
    make("nav", { "aria-label": "Sections" }, make("ul", {}, ...places.map(([id, title]) => make("li", {}, make("a", { href: `#${id}` }, title))))));
  const page = /** @type {HTMLElement} */ (document.getElementById("page"));
  page.replaceChildren(header, main, make("footer", {}, "One file: it opens offline and loads nothing."));
})();
