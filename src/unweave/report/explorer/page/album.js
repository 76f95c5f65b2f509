// Images to look at: of the data set, picked by their factors, or the visitor's own. There are two
// places: image 1 is what panels encode, image 2 is what latents are swapped with.

import { attempt, byId, make, pause, say } from "./dom.js";
import { getBytes, getJson } from "./net.js";
import { readFile, readSheet, show } from "./pixels.js";

/** @typedef {import("./pixels.js").Picture & {row?: number[]}} Picture */

const SHOWN = 24;

export class Album {
  /**
   * @param {{static: boolean}} options
   * @param {() => void} changed
   */
  constructor(options, changed) {
    this.options = options;
    this.changed = changed;
    /** @type {(Picture | null)[]} */
    this.pictures = [null, null];
    this.dataset = "";
    /** @type {any} */
    this.record = null;
    /** @type {Picture[]} */
    this.sample = [];
    this.asked = 0;
    this.opening = 0;
    for (const slot of [0, 1]) {
      const area = byId(`slot-${slot}`);
      byId(`file-${slot}`).addEventListener("change", (/** @type {any} */ event) => {
        const [file] = event.target.files;
        if (file) attempt(() => this.take(file, slot));
        event.target.value = "";
      });
      area.addEventListener("dragover", (/** @type {DragEvent} */ event) => {
        event.preventDefault();
        area.classList.add("over");
      });
      area.addEventListener("dragleave", () => area.classList.remove("over"));
      area.addEventListener("drop", (/** @type {DragEvent} */ event) => {
        event.preventDefault();
        area.classList.remove("over");
        const file = event.dataTransfer?.files[0];
        if (file) attempt(() => this.take(file, slot));
      });
      byId(`random-${slot}`).addEventListener("click", () => attempt(() => this.random(slot)));
    }
    byId("filters").addEventListener("change", () => attempt(() => this.pick()));
    byId("other-images").addEventListener("click", () => attempt(() => this.pick()));
  }

  /** The data set of the run on show. @param {string} dataset */
  async open(dataset) {
    const mine = ++this.opening;
    if (dataset === this.dataset) return;
    const record = await getJson(`data/images/${dataset}.json`, "the list of images");
    const sheet = await getBytes(`data/images/${dataset}.png`, "the sheet of images");
    const sample = await readSheet(new Blob([sheet]), record, dataset);
    if (mine !== this.opening) return; // a run of other data was chosen meanwhile
    Object.assign(this, { record, sample, dataset });
    this.pictures = [this.sample[0] ?? null, this.sample[1] ?? null];
    this.drawFilters();
    this.drawSlots();
    this.drawThumbnails(this.sample.slice(0, SHOWN));
  }

  /** An image by its number, as links name it. @param {number} index @param {number} slot */
  async at(index, slot) {
    let found = this.sample.find((picture) => picture.index === index);
    if (!found && !this.options.static) {
      found = (await this.ask(`index=${index}`))[0];
    }
    if (!found) throw new Error(`image ${index} is not among those of this page`);
    this.put(found, slot);
  }

  /** @param {string} question @returns {Promise<Picture[]>} */
  async ask(question) {
    const record = await getJson(`api/images/${this.dataset}?${question}`, "images");
    if (!record.index.length) return [];
    const bytes = Uint8Array.from(atob(record.sheet), (c) => c.charCodeAt(0));
    return readSheet(new Blob([bytes]), record, this.dataset);
  }

  /** @param {File} file @param {number} slot */
  async take(file, slot) {
    const picture = await readFile(file, this.record.shape, this.dataset, !this.options.static);
    this.put(picture, slot);
    say(`${file.name} is image ${slot + 1}`);
  }

  /** @param {number} slot */
  async random(slot) {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const found = this.options.static
      ? this.sample[seed % this.sample.length] : (await this.ask(`seed=${seed}`))[0];
    this.put(found, slot);
  }

  /** @param {Picture} picture @param {number} slot */
  put(picture, slot) {
    this.pictures[slot] = picture;
    this.drawSlots();
    this.changed();
  }

  /** Images that have what the filters say. */
  async pick() {
    const wanted = this.wanted();
    const mine = ++this.asked;
    await pause();
    let found;
    if (this.options.static) {
      const fits = this.sample.filter((p) => wanted.every(([k, value]) => p.row?.[k] === value));
      const start = fits.length > SHOWN ? Math.floor(Math.random() * fits.length) : 0;
      found = [...fits.slice(start), ...fits.slice(0, start)].slice(0, SHOWN);
    } else {
      const words = wanted.map(([k, value]) => `f${k}=${value}`);
      found = await this.ask([...words, `seed=${Math.floor(Math.random() * 2 ** 31)}`].join("&"));
    }
    if (mine === this.asked) this.drawThumbnails(found);
  }

  /** @returns {[number, number][]} */
  wanted() {
    return [...byId("filters").querySelectorAll("select")].filter((select) => select.value)
      .map((select) => [Number(select.dataset.factor), Number(select.value)]);
  }

  drawFilters() {
    const { factors, values } = this.record;
    const selects = factors.map((/** @type {string} */ name, /** @type {number} */ k) => {
      if (values[k].length < 2) return null;
      const options = values[k].map((/** @type {string} */ said, /** @type {number} */ value) =>
        make("option", { value }, said));
      return make("label", {}, make("span", {}, name), make("select", { "data-factor": k },
        make("option", { value: "" }, "any"), ...options));
    });
    byId("filters").replaceChildren(...selects.filter(Boolean));
    byId("filters").hidden = !selects.some(Boolean);
  }

  drawSlots() {
    this.pictures.forEach((picture, slot) => {
      show(byId(`image-${slot}`), picture);
      byId(`label-${slot}`).textContent = picture?.label ?? "none";
      byId(`image-${slot}`).setAttribute("aria-label", `image ${slot + 1}: ${picture?.label ?? "none"}`);
    });
  }

  /** @param {Picture[]} pictures */
  drawThumbnails(pictures) {
    const tiles = pictures.map((picture) => {
      const canvas = make("canvas", { "aria-hidden": "true" });
      show(canvas, picture);
      return make("button", { type: "button", class: "tile", title: picture.label,
        "aria-label": picture.label, "data-index": picture.index,
        onclick: () => this.put(picture, byId("into-1").checked ? 1 : 0) }, canvas);
    });
    byId("tiles").replaceChildren(...tiles);
    byId("no-tiles").hidden = tiles.length > 0;
    byId("no-tiles").textContent = this.options.static
      ? `None of the ${this.sample.length} images on this page has these factors.`
      : "No image has these factors.";
  }
}
