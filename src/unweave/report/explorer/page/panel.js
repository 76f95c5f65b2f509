// A run on show: its picture, its latents, the two images as it sees them, what can be saved.

import { attempt, later, make, pause, say } from "./dom.js";
import { encodeGif } from "./gif.js";
import { LatentRow, byKl, follows, heatMap, isUsed, walk, TILES } from "./latents.js";
import { context, reshaped, save, savePng, show, toImageData, toInput } from "./pixels.js";

/** @typedef {import("./model.js").Facts} Facts @typedef {import("./model.js").Model} Model */
/** @typedef {import("./pixels.js").Picture} Picture */

const AT_ONCE = 3; // tiles of a strip decoded together: a moved slider waits no longer than this
const FRAMES = 20;
const PERIOD = 3000; // milliseconds of a latent's way there and back, and of so many classes:
const CLASSES = 4;
const MEASURE = "slider-to-picture";

export class Panel {
  /**
   * @param {Facts} facts @param {Model} model @param {"a" | "b"} side
   * @param {{changed: () => void, close: () => void}} actions
   */
  constructor(facts, model, side, actions) {
    this.facts = facts;
    this.model = model;
    this.side = side;
    this.actions = actions;
    this.code = new Float32Array(facts.latents.length);
    this.resting = this.code; // where latents go back to when their turn in an animation ends
    /** @type {(Float32Array | null)[]} codes of the two images */
    this.own = [null, null];
    /** @type {Set<number>} */
    this.swapped = new Set();
    this.dirty = false;
    this.busy = false;
    /** @type {number | undefined} when the hand moved that the next picture answers */
    this.since = undefined;
    /** @type {HTMLCanvasElement[]} image 1, decoded, image 2, decoded */
    this.small = [];
    this.turn = 0;
    this.playing = 0;
    this.redrawStrips = later(() => attempt(() => this.drawStrips()));
    this.build();
  }

  build() {
    const { facts, side } = this;
    const letters = Object.entries(facts.letters).slice(0, 4)
      .map(([k, v]) => `${k}=${typeof v === "number" ? Number(v.toPrecision(4)) : v}`).join(" ");
    const [height, width] = facts.shape;
    const canvas = (/** @type {string} */ role, /** @type {string} */ label) => make("canvas", {
      width, height, role: "img", "data-role": role, "aria-label": label });
    this.picture = canvas("picture", "the picture of these latents");
    this.small = ["image 1", "decoded", "image 2", "decoded"].map((label, i) =>
      canvas(["image-1", "decoded-1", "image-2", "decoded-2"][i],
        i % 2 ? `image ${i < 2 ? 1 : 2}, decoded from its code` : label));
    this.partnerLabel = make("span", {}, "decoded");
    const figures = this.small.map((c, i) => make("figure", {}, c, make("figcaption", {},
      i === 3 ? this.partnerLabel : ["image 1", "decoded", "image 2"][i])));
    const order = byKl(facts);
    const actions = {
      move: (/** @type {number} */ j, /** @type {number} */ value, /** @type {number} */ at) => {
        this.stop();
        this.move(j, value, at);
      },
      swap: (/** @type {number} */ j) => {
        this.stop();
        this.swap(j);
      },
      reset: (/** @type {number} */ j) => {
        this.stop();
        if (this.swapped.has(j)) this.swap(j); // image 1 has its own again, and so has image 2
        else this.move(j, this.own[0]?.[j] ?? 0);
      },
    };
    /** @type {LatentRow[]} */
    this.rows = facts.latents.map((_, j) => new LatentRow(facts, j, side, actions));
    const used = order.filter((j) => isUsed(facts.latents[j]));
    const unused = order.filter((j) => !isUsed(facts.latents[j]));
    this.more = make("details", { class: "unused", open: !used.length,
      ontoggle: () => this.redrawStrips() },
    make("summary", {}, `${unused.length} unused ${unused.length === 1 ? "latent" : "latents"}`),
    make("ul", { class: "latents" }, ...unused.map((j) => this.rows[j].root)));
    this.which = make("select", { "aria-label": "latent to animate" },
      ...order.map((j) => make("option", { value: j }, facts.latents[j].name)),
      ...(used.length > 1 ? [make("option", { value: "all" }, "all in turn")] : []));
    const button = (/** @type {string} */ label, /** @type {() => unknown} */ work, role = "") =>
      make("button", { type: "button", onclick: work, "data-role": role || null }, label);
    this.playButton = make("button", { type: "button", "data-role": "play", "aria-pressed": "false",
      onclick: () => (this.playing ? this.stop() : this.play()) }, "Play");
    const letter = side.toUpperCase();
    this.root = make("section", { class: `panel panel-${side}`, "data-side": side,
      "aria-label": `run ${letter}: ${facts.id}` },
    make("header", {},
      make("h2", {}, make("span", { class: "letter" }, letter), facts.method),
      ...(side === "b" ? [button("Close", this.actions.close, "close")] : []),
      make("p", {}, [letters, `seed ${facts.seed}`, facts.data, ""].filter((w, i) => w || i === 3)
        .join(" · "), make("code", {}, facts.id))),
    make("div", { class: "view" },
      make("div", { class: "stage" },
        make("figure", { class: "large" }, this.picture,
          make("figcaption", {}, "decoded from the sliders")),
        make("div", { class: "small" }, ...figures)),
      make("div", { class: "tools" },
        button("Back to image 1", () => this.reset(), "reset"),
        button("All zero", () => this.zero(), "zero"),
        button("Draw from prior", () => this.draw(), "prior"),
        button("Save picture", () => savePng(this.picture, `${facts.id}.png`), "save"),
        make("span", { class: "group" }, this.which, this.playButton,
          button("Save GIF", () => attempt(() => this.saveGif()), "gif")))),
    make("div", { class: "moves" },
      make("h3", {}, "Latents", make("small", {}, ` largest ${facts.measure} first`)),
      make("p", { class: "faint" }, "On a slider: r goes back to image 1, 0 to zero, s swaps with image 2."),
      make("ul", { class: "latents" }, ...used.map((j) => this.rows[j].root)),
      ...(unused.length ? [this.more] : [])));
    this.show();
  }

  /** Which latent follows which factor, once it is known. @param {number[][]} information */
  setInformation(information) {
    const { facts } = this;
    facts.information = information;
    for (const row of this.rows) row.tell(facts);
    for (const option of this.which.options) {
      const said = option.value === "all" ? "" : follows(facts, Number(option.value));
      if (said) option.textContent = `${facts.latents[option.value].name} (${said})`;
    }
    this.root.querySelector(".heat")?.remove();
    const table = heatMap(facts, (j) => {
      this.more.open ||= this.more.contains(this.rows[j].root);
      this.rows[j].input.focus();
      this.rows[j].root.scrollIntoView({ block: "center" });
    });
    if (table) this.root.append(table);
  }

  /** Encode the images; sliders go to the code of the first. @param {(Picture | null)[]} pictures */
  async setImages(pictures) {
    const fitting = pictures.map((p) => (p ? reshaped(p, this.facts.shape) : null));
    for (const [i, picture] of fitting.entries()) {
      show(this.small[2 * i], picture);
      this.own[i] = picture ? (await this.model.encode(toInput(picture))).slice() : null;
    }
    for (const row of this.rows) row.swap.disabled = !this.own[0] || !this.own[1];
    this.swapped.clear();
    if (this.own[0]) this.code.set(this.own[0]);
    await this.drawOwn();
    this.update();
  }

  /** A code that a link brought. @param {number[]} code @param {number[]} swapped */
  setCode(code, swapped) {
    if (code.length === this.code.length) {
      this.code.set(code.map((v, j) => this.allowed(j, v)));
    }
    this.swapped = new Set(this.own[1] ? swapped.filter((j) => j < this.code.length) : []);
    attempt(() => this.drawOwn());
    this.update();
  }

  /** @param {number} j @param {number} value */
  allowed(j, value) {
    const { values } = this.facts.latents[j];
    return values ? Math.min(Math.max(Math.round(value), 0), values - 1) : value;
  }

  /** @param {number} j @param {number} value @param {number} [at]  when the hand moved */
  move(j, value, at) {
    this.code[j] = this.allowed(j, value);
    this.which.value = this.which.value === "all" ? "all" : String(j);
    this.rows[j].show(this.code[j], this.swapped.has(j));
    this.refresh(at);
    this.redrawStrips();
    this.actions.changed();
  }

  /** Image 1 gets this latent of image 2, and the other way round. @param {number} j */
  swap(j) {
    const [first, second] = this.own;
    if (!first || !second) return;
    if (!this.swapped.delete(j)) this.swapped.add(j);
    this.move(j, (this.swapped.has(j) ? second : first)[j]);
    attempt(() => this.drawOwn());
  }

  reset() {
    this.stop();
    this.swapped.clear();
    this.code.set(this.own[0] ?? new Float32Array(this.code.length));
    attempt(() => this.drawOwn());
    this.update();
  }

  zero() {
    this.stop();
    this.code.fill(0);
    this.update();
  }

  /** One of the draws that came with the run. */
  draw() {
    this.stop();
    const { prior } = this.facts;
    this.code.set(prior[Math.floor(Math.random() * prior.length)]);
    this.update();
  }

  /** Everything from the code. */
  update() {
    this.resting = this.code.slice();
    this.show();
    this.refresh();
    this.redrawStrips();
    this.actions.changed();
  }

  said() {
    return Array.from(this.code, (v) => v.toFixed(4)).join(" ");
  }

  show() {
    this.rows.forEach((row, j) => row.show(this.code[j], this.swapped.has(j)));
  }

  /** The picture of the newest code; codes that came while one was decoded are passed over. */
  async refresh(/** @type {number} */ at = performance.now()) {
    this.dirty = true;
    this.since ??= at;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.dirty) {
        this.dirty = false;
        const start = this.since ?? at;
        this.since = undefined;
        const image = await this.model.decode(this.code.slice());
        context(this.picture).putImageData(toImageData(image, this.facts.shape, 255), 0, 0);
        if (performance.getEntriesByName(MEASURE).length > 2000) performance.clearMeasures(MEASURE);
        performance.measure(MEASURE, { start, end: performance.now() });
      }
      this.picture.dataset.code = this.said();
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), "problem");
    } finally {
      this.busy = false;
    }
  }

  /** The two images decoded, the second with what was swapped into it. */
  async drawOwn() {
    const [first, second] = this.own;
    const shown = [first?.slice() ?? null, second?.slice() ?? null];
    const names = [...this.swapped].map((j) => this.facts.latents[j].name);
    for (const j of this.swapped) if (first && shown[1]) shown[1][j] = first[j];
    for (const i of [0, 1]) {
      const code = shown[i];
      if (!code) continue;
      const image = await this.model.decode(code);
      context(this.small[2 * i + 1]).putImageData(toImageData(image, this.facts.shape, 255), 0, 0);
    }
    this.partnerLabel.textContent = names.length ? `${names.join(", ")} of 1` : "decoded";
  }

  /** What each latent does to the picture: a few tiles at a time, given up when things change. */
  async drawStrips() {
    const mine = ++this.turn;
    for (const j of byKl(this.facts)) {
      const latent = this.facts.latents[j];
      if (!isUsed(latent) && !this.more.open) continue;
      const values = walk(latent, TILES);
      for (let first = 0; first < values.length; first += AT_ONCE) {
        const codes = this.codesWith(j, values.slice(first, first + AT_ONCE));
        this.rows[j].drawTiles(await this.model.decode(codes), this.facts.shape, first);
        await pause();
        if (mine !== this.turn || !this.root.isConnected) return;
      }
    }
    this.root.dataset.strips = this.said();
  }

  /** The code, once for each value of latent j. @param {number} j @param {number[]} values */
  codesWith(j, values) {
    const size = this.code.length;
    const codes = new Float32Array(values.length * size);
    values.forEach((value, i) => {
      codes.set(this.code, i * size);
      codes[i * size + j] = value;
    });
    return codes;
  }

  /** Which latents an animation moves, one after another. */
  chosen() {
    const { latents } = this.facts;
    return this.which.value === "all" ? byKl(this.facts).filter((j) => isUsed(latents[j]))
      : [Number(this.which.value)];
  }

  play() {
    const chosen = this.chosen();
    this.resting = this.code.slice();
    let turn = 0;
    let began = performance.now();
    const step = (/** @type {number} */ now) => {
      if (!this.playing || !this.root.isConnected) return;
      const values = () => this.facts.latents[chosen[turn]].values;
      const phase = () => (now - began) / PERIOD;
      if (chosen.length > 1 && phase() >= (values() ? values() / CLASSES : 1)) {
        this.move(chosen[turn], this.resting[chosen[turn]]);
        turn = (turn + 1) % chosen.length;
        began = now;
      }
      const j = chosen[turn];
      this.move(j, values() ? Math.floor(phase() * CLASSES) % values()
        : this.facts.latents[j].reach * Math.sin(2 * Math.PI * phase()));
      this.playing = requestAnimationFrame(step);
    };
    this.playing = requestAnimationFrame(step);
    this.playButton.textContent = "Stop";
    this.playButton.setAttribute("aria-pressed", "true");
  }

  stop() {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.playButton.textContent = "Play";
    this.playButton.setAttribute("aria-pressed", "false");
  }

  async saveGif() {
    this.stop();
    const { facts } = this;
    const chosen = this.chosen();
    const [height, width, channels] = facts.shape;
    const size = height * width * channels;
    const frames = [];
    for (const j of chosen) {
      const there = walk(facts.latents[j], FRAMES);
      const values = facts.latents[j].values ? there.flatMap((v) => Array(6).fill(v))
        : [...there, ...there.slice(1, -1).reverse()];
      for (const value of values) {
        const image = await this.model.decode(this.codesWith(j, [value]));
        const bytes = toImageData(image, facts.shape, 255).data;
        frames.push(Uint8Array.from({ length: size / channels * 3 }, (_, i) =>
          bytes[Math.floor(i / 3) * 4 + i % 3]));
      }
      await pause();
    }
    save(encodeGif(frames, width, height), `${facts.id}-${chosen.map((j) => facts.latents[j].name).join("-")}.gif`);
    say("The GIF is saved");
  }
}
