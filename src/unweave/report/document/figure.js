// @ts-check
"use strict";
/* Figures: panels of lines, points, boxes or shades as SVG, drawn when they come into view. The
   nearest point says its values under the pointer, and arrow keys walk from point to point. */

/** @typedef {{name: string, joined?: boolean, x: number[], y: number[], low?: number[],
 *   high?: number[], labels?: string[]}} Line */
/** @typedef {{name: string, num: number, five?: number[], outside?: number[],
 *   points?: {name: string, value: number}[]}} Box */
/** @typedef {{kind: string, title: string, x: string, y: string, log?: boolean, lines?: Line[],
 *   ticks?: string[] | null, boxes?: Box[], rows?: string[], columns?: string[],
 *   values?: (number | null)[][], signed?: boolean}} Panel */
/** @typedef {{x: number, y: number, text: string, go?: () => void}} Spot */

const SVG = "http://www.w3.org/2000/svg";
const NUM_COLOURS = 10;

/** An element with attributes and children; text is only ever text.
 * @param {string} name @param {Record<string, any>} [given] @param {...(Node | string | null)} inside
 * @returns {any} */
function make(name, given = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...inside.filter((part) => part !== null).map((part) => /** @type {any} */(part)));
  return element;
}

/** @param {SVGElement} parent @param {string} name @param {Record<string, any>} given
 * @param {string} [text] @returns {SVGElement} */
function mark(parent, name, given, text) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(given)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

/** A number as people read it. @param {any} value @returns {string} */
function said(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return Math.abs(value) < 1e6 ? String(value) : value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 1000 ? value.toFixed(1) : size >= 0.001 ? String(+value.toPrecision(4)) : value.toExponential(2);
}

/** @param {number} i */
const colour = (i) => `var(--s${i % NUM_COLOURS})`;

/** Round numbers between two ends. @param {number} low @param {number} high @param {number} num */
function ticksOf(low, high, num) {
  const rough = (high - low) / num, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 2.5, 5, 10].find((k) => k * unit >= rough) || 10);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(+v.toPrecision(12));
  return found;
}

/** From values to places. @param {number[]} values @param {boolean} log @param {number} from
 * @param {number} to @param {number} num
 * @returns {{at: (v: number) => number, ticks: number[]}} */
function scaleOf(values, log, from, to, num) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v) && (!log || v > 0)) { low = Math.min(low, v); high = Math.max(high, v); }
  if (low === Infinity) { low = log ? 0.1 : 0; high = 1; }
  if (log) {
    let a = Math.log10(low), b = Math.log10(high);
    if (b - a < 1e-9) { a -= 0.5; b += 0.5; }
    const edge = (b - a) * 0.05; a -= edge; b += edge;
    const ticks = [];
    for (let e = Math.floor(a); e <= Math.ceil(b); e++)
      for (const k of b - a < 1.5 ? [1, 2, 5] : [1]) {
        const v = k * 10 ** e;
        if (Math.log10(v) >= a && Math.log10(v) <= b) ticks.push(v);
      }
    return { at: (v) => from + (Math.log10(v) - a) / (b - a) * (to - from), ticks };
  }
  if (high - low < 1e-12) { const d = Math.abs(low) * 0.1 || 0.5; low -= d; high += d; }
  const edge = (high - low) * 0.05; low -= edge; high += edge;
  return { at: (v) => from + (v - low) / (high - low) * (to - from), ticks: ticksOf(low, high, num) };
}

const tip = /** @type {HTMLElement} */ (document.getElementById("tip"));

/** @param {string} text @param {number} x @param {number} y */
function showTip(text, x, y) {
  if (tip.textContent !== text) tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(6, x + 14), innerWidth - width - 6);
  const top = y + 16 + height > innerHeight ? y - height - 12 : y + 16;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(4, top))}px)`;
}
const hideTip = () => { tip.hidden = true; };

/** Let the pointer and the arrow keys find spots.
 * @param {SVGSVGElement} svg @param {Spot[]} spots @param {number} width @param {number} height */
function findable(svg, spots, width, height) {
  if (!spots.length) return;
  const ring = mark(svg, "circle", { class: "here", r: 5, cx: -20, cy: -20 });
  let now = -1;
  const at = (/** @type {number} */ i) => {
    now = i;
    ring.setAttribute("cx", String(spots[i].x)); ring.setAttribute("cy", String(spots[i].y));
    const box = svg.getBoundingClientRect();
    showTip(spots[i].text, box.left + spots[i].x * box.width / width, box.top + spots[i].y * box.height / height);
  };
  const away = () => { hideTip(); ring.setAttribute("cx", "-20"); ring.setAttribute("cy", "-20"); };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * width / box.width, y = (event.clientY - box.top) * height / box.height;
    let best = -1, near = 900;
    for (let i = 0; i < spots.length; i++) {
      const d = (spots[i].x - x) ** 2 + (spots[i].y - y) ** 2;
      if (d < near) { near = d; best = i; }
    }
    if (best < 0) away(); else at(best);
  });
  svg.addEventListener("pointerleave", away);
  svg.addEventListener("blur", away);
  svg.addEventListener("click", () => { const go = now >= 0 && spots[now].go; if (go) go(); });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const go = event.key === "Enter" && now >= 0 && spots[now].go;
    if (go) { go(); return; }
    if (event.key === "Escape") { away(); return; }
    if (!step) return;
    event.preventDefault();
    at((now + step + spots.length) % spots.length);
  });
  svg.setAttribute("tabindex", "0");
}

/** @param {HTMLElement} holder @param {Panel} panel @param {string[]} names series of the figure */
function drawPanel(holder, panel, names) {
  const width = Math.max(240, Math.min(900, Math.round(holder.clientWidth || 320)));
  holder.replaceChildren();
  const svg = /** @type {SVGSVGElement} */ (document.createElementNS(SVG, "svg"));
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${panel.title || panel.y} ${panel.x ? "against " + panel.x : ""}. Arrow keys walk through the values.`);
  holder.append(svg);
  const draw = { shades: drawShades, boxes: drawBoxes, lines: drawLines }[panel.kind] || drawLines;
  const { height, spots } = draw(svg, panel, width, names);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (panel.title) mark(svg, "text", { x: 2, y: 13, class: "title" }, panel.title);
  findable(svg, spots, width, height);
}

/** Axes with ticks. @param {SVGElement} svg @param {any} x @param {any} y
 * @param {{left: number, right: number, top: number, bottom: number}} at @param {Panel} panel */
function axes(svg, x, y, at, panel) {
  for (const v of y.ticks) {
    mark(svg, "line", { class: "grid", x1: at.left, x2: at.right, y1: y.at(v), y2: y.at(v) });
    mark(svg, "text", { class: "soft", x: at.left - 5, y: y.at(v) + 4, "text-anchor": "end" }, said(v));
  }
  if (x) for (const v of x.ticks)
    mark(svg, "text", { class: "soft", x: x.at(v), y: at.bottom + 14, "text-anchor": "middle" }, said(v));
  mark(svg, "path", { class: "axis", d: `M${at.left} ${at.top}V${at.bottom}H${at.right}` });
  if (panel.x) mark(svg, "text", { x: (at.left + at.right) / 2, y: at.bottom + 29, "text-anchor": "middle" }, panel.x);
  if (panel.y) mark(svg, "text", { x: 0, y: 0, "text-anchor": "middle",
    transform: `translate(11 ${(at.top + at.bottom) / 2}) rotate(-90)` }, panel.y);
}

/** @param {SVGElement} svg @param {Panel} panel @param {number} width @param {string[]} names
 * @returns {{height: number, spots: Spot[]}} */
function drawLines(svg, panel, width, names) {
  const lines = panel.lines || [], log = !!panel.log;
  const tall = width > 600 ? 380 : 230;
  const slanted = panel.ticks ? 12 + 5.2 * Math.max(...panel.ticks.map((t) => t.length)) * 0.72 : 0;
  const at = { left: panel.y ? 60 : 46, right: width - 10, top: panel.title ? 24 : 10, bottom: tall - (panel.ticks ? slanted : panel.x ? 38 : 22) };
  const bare = (/** @type {any} */ v) => v !== null && v !== undefined;
  const x = scaleOf(lines.flatMap((l) => l.x), log, at.left + 4, at.right - 4, width > 420 ? 6 : 4);
  const y = scaleOf(lines.flatMap((l) => [...l.y, ...(l.low || []).filter(bare), ...(l.high || []).filter(bare)]), log, at.bottom, at.top, 4);
  axes(svg, panel.ticks ? null : x, y, at, panel);
  if (panel.ticks) panel.ticks.forEach((tick, i) => mark(svg, "text", { class: "soft", "text-anchor": "end",
    transform: `translate(${x.at(i) + 4} ${at.bottom + 12}) rotate(-35)` }, tick));
  const many = lines.reduce((sum, line) => sum + line.x.length, 0) > 150;
  /** @type {Spot[]} */ const spots = [];
  lines.forEach((line, l) => {
    const paint = colour(names.indexOf(line.name) < 0 ? l : names.indexOf(line.name));
    const px = line.x.map(x.at), py = line.y.map(y.at);
    const { low, high } = line;
    if (low && high) {
      const up = px.map((v, i) => `${v.toFixed(1)} ${y.at(high[i] ?? line.y[i]).toFixed(1)}`);
      const down = px.map((v, i) => `${v.toFixed(1)} ${y.at(low[i] ?? line.y[i]).toFixed(1)}`).reverse();
      mark(svg, "path", { class: "band", d: `M${[...up, ...down].join("L")}Z`, fill: paint });
    }
    if (line.joined !== false && px.length > 1)
      mark(svg, "path", { class: "line", d: "M" + px.map((v, i) => `${v.toFixed(1)} ${py[i].toFixed(1)}`).join("L"), stroke: paint });
    if (line.joined === false || px.length < 40)
      mark(svg, "path", { class: "dots", "stroke-width": line.joined === false ? (many ? 4.5 : 8) : 5.5, stroke: paint,
        d: px.map((v, i) => `M${v.toFixed(1)} ${py[i].toFixed(1)}h0`).join("") });
    line.x.forEach((v, i) => {
      const interval = low && high && bare(low[i]) ? ` (${said(low[i])} to ${said(high[i])})` : "";
      const where = panel.ticks ? panel.ticks[v] : `${panel.x || "x"} ${said(v)}`;
      spots.push({ x: px[i], y: py[i], text: `${line.name}\n${line.labels ? line.labels[i] + "\n" : ""}${where}\n${panel.y || "y"} ${said(line.y[i])}${interval}`,
        go: /** @type {any} */ (line).go ? () => /** @type {any} */ (line).go(i) : undefined });
    });
  });
  return { height: tall, spots };
}

/** Boxes lie: names have room at the left, whatever their length.
 * @param {SVGElement} svg @param {Panel} panel @param {number} width
 * @returns {{height: number, spots: Spot[]}} */
function drawBoxes(svg, panel, width) {
  const boxes = panel.boxes || [], row = 20;
  const left = Math.min(width * 0.45, 14 + 6.1 * Math.max(4, ...boxes.map((b) => b.name.length)));
  const top = panel.title ? 24 : 8, bottom = top + row * boxes.length + 4;
  const all = boxes.flatMap((b) => [...(b.five || []), ...(b.outside || []), ...(b.points || []).map((p) => p.value)]);
  const x = scaleOf(all, !!panel.log, left, width - 10, width > 420 ? 6 : 4);
  for (const v of x.ticks) {
    mark(svg, "line", { class: "grid", x1: x.at(v), x2: x.at(v), y1: top, y2: bottom });
    mark(svg, "text", { class: "soft", x: x.at(v), y: bottom + 14, "text-anchor": "middle" }, said(v));
  }
  const label = panel.y || panel.x;
  if (label) mark(svg, "text", { x: (left + width) / 2, y: bottom + 29, "text-anchor": "middle" }, label);
  /** @type {Spot[]} */ const spots = [];
  const most = Math.floor((left - 8) / 5.6);
  boxes.forEach((box, i) => {
    const y = top + row * i + row / 2 + 2;
    const name = box.name.length > most ? box.name.slice(0, most - 1) + "…" : box.name;
    mark(svg, "text", { x: left - 6, y: y + 4, "text-anchor": "end" }, name);
    if (box.five) {
      const [a, b, c, d, e] = box.five.map(x.at);
      mark(svg, "path", { class: "axis", d: `M${a} ${y}H${b}M${d} ${y}H${e}` });
      mark(svg, "rect", { class: "box", x: b, y: y - 6, width: Math.max(0.5, d - b), height: 12 });
      mark(svg, "line", { class: "middle", x1: c, x2: c, y1: y - 6, y2: y + 6 });
      if (box.outside && box.outside.length) mark(svg, "path", { class: "dots", stroke: "var(--faint)", "stroke-width": 3,
        d: box.outside.map((v) => `M${x.at(v).toFixed(1)} ${y}h0`).join("") });
      spots.push({ x: c, y, text: `${box.name}\nmedian ${said(box.five[2])}, quartiles ${said(box.five[1])} and ${said(box.five[3])}\nwhiskers ${said(box.five[0])} to ${said(box.five[4])}, ${box.num} runs` });
    }
    for (const point of box.points || []) {
      mark(svg, "circle", { class: "own", cx: x.at(point.value), cy: y, r: 4 });
      spots.push({ x: x.at(point.value), y, text: `${point.name}\n${box.name}: ${said(point.value)}` });
    }
  });
  return { height: bottom + (label ? 36 : 22), spots };
}

/** @param {SVGElement} svg @param {Panel} panel @param {number} width
 * @returns {{height: number, spots: Spot[]}} */
function drawShades(svg, panel, width) {
  const rows = panel.rows || [], columns = panel.columns || [], values = panel.values || [];
  const left = Math.min(width * 0.42, 12 + 5.9 * Math.max(1, ...rows.map((r) => r.length)));
  const wide = (width - left - 8) / Math.max(1, columns.length), high = Math.min(30, Math.max(18, wide));
  const top = panel.title ? 24 : 8, bottom = top + high * rows.length;
  /** @type {Spot[]} */ const spots = [];
  values.forEach((row, i) => {
    mark(svg, "text", { x: left - 6, y: top + high * (i + 0.5) + 4, "text-anchor": "end" }, rows[i]);
    row.forEach((value, j) => {
      const x = left + wide * j, y = top + high * i;
      if (value === null) return;
      const strength = Math.min(1, Math.abs(value));
      mark(svg, "rect", { x, y, width: wide - 1, height: high - 1, fill: `rgba(var(${value < 0 ? "--warm" : "--shade"}), ${(0.06 + 0.8 * strength).toFixed(3)})` });
      if (wide > 22) mark(svg, "text", { x: x + wide / 2, y: y + high / 2 + 4, "text-anchor": "middle",
        class: strength > 0.55 ? "on" : "off" }, String(Math.round(100 * value)));
      spots.push({ x: x + wide / 2, y: y + high / 2, text: `${rows[i]}, ${columns[j]}: ${said(value)}` });
    });
  });
  const long = Math.max(1, ...columns.map((c) => c.length));
  columns.forEach((name, j) => mark(svg, "text", { "text-anchor": "end",
    transform: `translate(${left + wide * (j + 0.5) + 4} ${bottom + 12}) rotate(-35)` }, name));
  return { height: bottom + 18 + long * 3.6, spots };
}

/** Draw when in view, and again when the width changes.
 * @param {HTMLElement} holder @param {() => void} draw */
function whenSeen(holder, draw) {
  let width = 0, seen = false;
  new IntersectionObserver((entries, watcher) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect(); seen = true; width = holder.clientWidth; draw();
  }, { rootMargin: "300px" }).observe(holder);
  new ResizeObserver(() => {
    if (seen && holder.clientWidth && Math.abs(holder.clientWidth - width) > 12) { width = holder.clientWidth; draw(); }
  }).observe(holder);
}

/** A figure of panels with one legend; `apart`: each panel has colours of its own and none is needed.
 * @param {{title: string, panels: Panel[], apart?: boolean}} given @returns {HTMLElement} */
function figure(given) {
  const names = given.apart ? [] : [...new Set(given.panels.flatMap((p) => (p.lines || []).map((l) => l.name)))];
  const element = make("figure", {}, make("figcaption", {}, given.title));
  if (names.length > 1 && names.length <= NUM_COLOURS) element.append(legend(names));
  const panels = make("div", { class: "panels" });
  for (const panel of given.panels) {
    const holder = make("div", { class: given.panels.length === 1 ? "panel lone" : "panel" });
    holder.style.minHeight = "180px";
    panels.append(holder);
    whenSeen(holder, () => { holder.style.minHeight = "0"; drawPanel(holder, panel, names); });
  }
  element.append(panels);
  return element;
}

/** @param {string[]} names */
function legend(names) {
  return make("ul", { class: "legend" }, ...names.map((name, i) => {
    const dot = make("i");
    dot.style.background = colour(i);
    return make("li", {}, dot, name);
  }));
}
