// The page: one run or two, the images, and a link that brings all of it back.

import { Album } from "./album.js";
import { attempt, byId, later, say } from "./dom.js";
import { fromHash, toHash } from "./link.js";
import { openModel } from "./model.js";
import { getJson } from "./net.js";
import { Panel } from "./panel.js";
import { RunList } from "./runs.js";

class Explorer {
  /** @param {any} listing  data/runs.json */
  constructor(listing) {
    this.listing = listing;
    /** @type {(Panel | null)[]} */
    this.panels = [null, null];
    this.asked = [0, 0];
    this.isRestoring = false;
    this.writeHash = later(() => this.remember(), 200);
    this.list = new RunList(listing, (id, side) => attempt(() => this.choose(id, side)));
    this.album = new Album(listing, () => attempt(() => this.showImages()));
    /** @type {Map<string, Promise<{facts: any, model: any}>>} */
    this.opened = new Map();
    byId("title").textContent = listing.title;
    byId("runs-section").open = listing.runs.length > 1;
    byId("copy-link").addEventListener("click", () => attempt(() => this.copyLink()));
    window.addEventListener("hashchange", () => attempt(() => this.restore()));
    document.addEventListener("keydown", (event) => {
      const inText = event.target instanceof HTMLElement && event.target.matches("input[type=search]");
      if (event.key === "/" && !inText) {
        event.preventDefault();
        byId("runs-section").open = true;
        byId("filter").focus();
      }
    });
  }

  /** Facts and model of a run, read once. @param {string} id */
  open(id) {
    let found = this.opened.get(id);
    if (!found) {
      found = this.read(id);
      this.opened.set(id, found);
      found.catch(() => this.opened.delete(id)); // the next click tries again
    }
    return found;
  }

  /** @param {string} id */
  async read(id) {
    if (!this.listing.runs.some((/** @type {any} */ row) => row.id === id)) {
      throw new Error(`there is no run ${id} in this list`);
    }
    const facts = await getJson(`data/runs/${encodeURIComponent(id)}/run.json`, `the run ${id}`);
    facts.information = [];
    return { facts, model: await openModel(facts, this.listing) };
  }

  /** @param {string} id @param {number} side */
  async choose(id, side) {
    if (side === 1 && this.panels[1]?.facts.id === id) {
      this.close();
      return;
    }
    const mine = ++this.asked[side];
    document.body.setAttribute("aria-busy", "true");
    try {
      say(`Reading ${id} …`);
      const { facts, model } = await this.open(id);
      if (side === 0 || !this.album.dataset) await this.album.open(facts.dataset);
      if (mine !== this.asked[side]) return;
      const panel = new Panel(facts, model, side ? "b" : "a",
        { changed: this.writeHash, close: () => this.close() });
      this.panels[side] = panel;
      this.layOut();
      await panel.setImages(this.album.pictures);
      attempt(() => this.inform(panel));
      if (model.where === "server") say(`${id} is shown; the server makes its pictures`);
      else say(`${id} is shown`);
    } finally {
      document.body.removeAttribute("aria-busy");
    }
    const other = this.panels[1 - side];
    // Another data set brought other images: the run beside must see them too.
    if (other && side === 0) await other.setImages(this.album.pictures);
  }

  /** The table takes thousands of images: it comes when the run is on show already. */
  async inform(/** @type {Panel} */ panel) {
    const { facts } = panel;
    if (!facts.factors.length) return;
    const known = facts.information.length ? facts.information : await getJson(
      `data/runs/${encodeURIComponent(facts.id)}/information.json`, `the table of ${facts.id}`);
    panel.setInformation(known);
  }

  close() {
    this.panels[1] = null;
    this.asked[1]++;
    this.layOut();
    this.writeHash();
  }

  layOut() {
    const shown = this.panels.filter((panel) => panel !== null);
    byId("panels").replaceChildren(...shown.map((panel) => panel.root));
    byId("panels").dataset.count = String(shown.length);
    this.list.mark(this.panels.map((panel) => panel?.facts.id ?? ""));
  }

  async showImages() {
    await Promise.all(this.panels.map((panel) => panel?.setImages(this.album.pictures)));
  }

  remember() {
    if (this.isRestoring) return;
    const sides = this.panels.filter((panel) => panel !== null).map((panel) => ({
      run: panel.facts.id, code: Array.from(panel.code), swapped: [...panel.swapped] }));
    const images = this.album.pictures.map((picture) => picture?.index ?? null);
    history.replaceState(null, "", toHash({ sides, images }));
  }

  async copyLink() {
    this.remember();
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is copied: it brings back runs, latents and images of the data set");
    } catch {
      say(`This browser does not let a page copy: the link is in the address bar`);
    }
  }

  /** What the address asks for; without a word about runs, the best one. */
  async restore() {
    const state = fromHash(location.hash);
    const known = state.sides.length ? state.sides : [];
    if (!known.length) {
      const best = this.list.best();
      if (best) await this.choose(best.id, 0);
      return;
    }
    this.isRestoring = true;
    try {
      for (const [side, wanted] of known.entries()) await this.choose(wanted.run, side);
      if (known.length === 1 && this.panels[1]) this.close();
      for (const [slot, index] of state.images.entries()) {
        if (index !== null && this.album.pictures[slot]?.index !== index) await this.album.at(index, slot);
      }
      await this.showImages();
      known.forEach((wanted, side) => {
        if (wanted.code) this.panels[side]?.setCode(wanted.code, wanted.swapped);
      });
    } finally {
      this.isRestoring = false;
    }
  }
}

attempt(async () => {
  const explorer = new Explorer(await getJson("data/runs.json", "the list of runs"));
  explorer.list.draw();
  try {
    await explorer.restore();
  } catch (error) {
    if (!explorer.panels[0]) {
      const best = explorer.list.best();
      if (best) await explorer.choose(best.id, 0);
    }
    throw error;
  }
  document.body.dataset.ready = "yes";
}).then(() => {
  document.body.dataset.ready ??= "with a problem";
});
