// Elements made in one line. Text is always text: nothing here parses HTML.

/**
 * @param {string} tag
 * @param {Object<string, any>} [attributes]  `onX` become listeners, false and null are left out
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (value === false && !name.startsWith("aria-")) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** A name that may break after its underscores. @param {string} name */
export function breakable(name) {
  const parts = name.split("_");
  return parts.flatMap((part, i) => (i < parts.length - 1 ? [`${part}_`, make("wbr")] : [part]));
}

/** @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

let timer = 0;

/** Say something to everybody: shown at the foot of the page, and read out. */
export function say(/** @type {string} */ sentence, /** @type {"" | "problem"} */ kind = "") {
  const place = byId("said");
  place.textContent = sentence;
  place.dataset.kind = kind;
  clearTimeout(timer);
  timer = setTimeout(() => { place.textContent = ""; }, kind ? 15000 : 4000);
}

/** Run work whose failure is told. @param {() => Promise<unknown>} work */
export async function attempt(work) {
  try {
    await work();
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), "problem");
  }
}

/** The last call within `ms` is the one that counts. @param {() => void} work */
export function later(work, ms = 150) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(work, ms);
  };
}

/** Let the browser draw and answer before going on. */
export function pause() {
  return new Promise((done) => setTimeout(done, 0));
}
