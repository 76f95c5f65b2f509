// A row for every latent: its slider or choice, what moving it does, what it follows.

import { breakable, make } from "./dom.js";
import { context, toImageData } from "./pixels.js";

/** @typedef {import("./model.js").Facts} Facts @typedef {import("./model.js").Latent} Latent */

export const TILES = 9;
const GAP = 2; // pixels between the tiles of a strip
const UNUSED = 0.1; // nats
const FOLLOWS = 0.05; // of a factor's entropy

/** Positions of the latents, those with the largest KL first. @param {Facts} facts */
export function byKl(facts) {
  return facts.latents.map((_, j) => j).sort((a, b) => facts.latents[b].kl - facts.latents[a].kl);
}

/** @param {Latent} latent */
export function isUsed(latent) {
  return latent.kl >= UNUSED;
}

/** The factor that a latent shares most with. @param {Facts} facts @param {number} j */
export function follows(facts, j) {
  const shares = facts.information[j] ?? [];
  const best = shares.indexOf(Math.max(...shares));
  if (best < 0 || shares[best] < FOLLOWS || !isUsed(facts.latents[j])) return "";
  return `${facts.factors[best]} ${Math.round(100 * shares[best])} %`;
}

/** The values that a strip or an animation walks through. @param {Latent} latent @param {number} num */
export function walk(latent, num) {
  if (latent.values) return Array.from({ length: latent.values }, (_, i) => i);
  return Array.from({ length: num }, (_, i) => latent.reach * (2 * i / (num - 1) - 1));
}

export class LatentRow {
  /**
   * @param {Facts} facts @param {number} j @param {string} side
   * @param {{move: (j: number, value: number, at: number) => void, swap: (j: number) => void,
   *          reset: (j: number) => void}} actions
   */
  constructor(facts, j, side, actions) {
    const latent = facts.latents[j];
    const id = `latent-${side}-${j}`;
    this.latent = latent;
    this.j = j;
    this.output = make("output", { for: id, class: "value" });
    this.follows = make("span", { class: "follows" });
    if (latent.values) {
      this.input = make("select", { id }, ...walk(latent, 0).map((v) =>
        make("option", { value: v }, `class ${v}`)));
    } else {
      this.input = make("input", { id, type: "range", min: -latent.reach, max: latent.reach,
        step: 0.05, value: 0 });
    }
    this.input.addEventListener("input", (/** @type {Event} */ event) =>
      actions.move(j, Number(this.input.value), event.timeStamp));
    this.input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "r") actions.reset(j);
      else if (event.key === "0" && !latent.values) actions.move(j, 0, event.timeStamp);
      else if (event.key === "s") actions.swap(j);
      else return;
      event.preventDefault();
    });
    this.input.addEventListener("dblclick", () => actions.reset(j));
    const tiles = walk(latent, TILES);
    this.strip = make("canvas", { class: "strip", role: "img",
      "aria-label": `what ${latent.name} does to the picture` });
    const [height, width] = facts.shape;
    Object.assign(this.strip, { width: (width + GAP) * tiles.length - GAP, height });
    this.strip.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const box = this.strip.getBoundingClientRect();
      const i = Math.floor((event.clientX - box.left) / box.width * tiles.length);
      actions.move(j, tiles[Math.min(Math.max(i, 0), tiles.length - 1)], event.timeStamp);
    });
    this.swap = make("button", { type: "button", class: "swap", "aria-pressed": "false",
      "aria-label": `swap ${latent.name} with image 2`, title: "swap with image 2",
      onclick: () => actions.swap(j) }, "⇄");
    this.root = make("li", { class: latent.values ? "latent choice" : "latent", "data-latent": j },
      make("div", { class: "about" },
        make("label", { for: id }, latent.name),
        this.follows,
        make("span", { class: "kl" }, `${facts.measure} ${latent.kl.toFixed(2)}`)),
      make("div", { class: "move" }, this.input, this.strip),
      make("div", { class: "now" }, this.output, this.swap));
    this.root.style.setProperty("--tiles", String(tiles.length));
    this.tell(facts);
  }

  /** What the latent follows, as far as it is known. @param {Facts} facts */
  tell(facts) {
    const { name, kl } = this.latent;
    const said = follows(facts, this.j);
    this.follows.textContent = said || (isUsed(this.latent) ? "" : "unused");
    this.input.setAttribute("aria-label",
      `latent ${name}${said ? `, follows ${said}` : ""}, ${facts.measure} ${kl.toFixed(2)} nats`);
  }

  /** @param {number} value @param {boolean} isSwapped */
  show(value, isSwapped) {
    this.input.value = String(value);
    const text = this.latent.values ? `class ${value}` : value.toFixed(2);
    this.output.value = this.latent.values ? "" : text;
    this.input.setAttribute("aria-valuetext", text);
    this.swap.setAttribute("aria-pressed", String(isSwapped));
  }

  /** Draw tiles from `first` on. @param {Float32Array} images @param {[number, number, number]} shape */
  drawTiles(images, shape, first = 0) {
    const [height, width, channels] = shape;
    const size = height * width * channels;
    const pen = context(this.strip);
    for (let i = 0; i * size < images.length; i++) {
      pen.putImageData(toImageData(images, shape, 255, i * size), (first + i) * (width + GAP), 0);
    }
  }
}

/** Which latent follows which factor. @param {Facts} facts @param {(j: number) => void} go */
export function heatMap(facts, go) {
  if (!facts.factors.length || !facts.information.length) return null;
  const order = byKl(facts);
  const rows = order.map((j) => make("tr", {},
    make("th", { scope: "row" }, make("button", { type: "button", title: "go to its slider",
      onclick: () => go(j) }, facts.latents[j].name)),
    ...facts.information[j].map((share) => {
      const percent = Math.round(100 * share);
      // Where letters must turn to stay legible: sooner on the light shades of the dark theme.
      const shade = percent > 80 ? "full" : percent > 55 ? "strong" : null;
      const cell = make("td", { class: shade }, String(percent));
      cell.style.setProperty("--share", `${percent}%`);
      return cell;
    })));
  return make("details", { class: "heat", open: facts.factors.length <= 12 },
    make("summary", {}, "Which latent follows which factor"),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "shared information" },
      make("table", {},
        make("caption", {}, "Mutual information of latent and factor, in percent of the factor's entropy"),
        make("thead", {}, make("tr", {}, make("td"), ...facts.factors.map((name) =>
          make("th", { scope: "col" }, ...breakable(name))))),
        make("tbody", {}, ...rows))));
}
