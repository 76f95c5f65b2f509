// The state of the page as a link: runs, codes, swaps and images live in the part after #.

/**
 * @typedef {object} Side
 * @property {string} run
 * @property {number[]} [code]
 * @property {number[]} swapped
 *
 * @typedef {object} State
 * @property {Side[]} sides
 * @property {(number | null)[]} images  numbers in the data set
 */

/** @param {State} state @returns {string} */
export function toHash(state) {
  const words = new URLSearchParams();
  state.sides.forEach((side, i) => {
    const at = "ab"[i];
    words.set(at, side.run);
    if (side.code) words.set(`z${at}`, side.code.map((v) => String(Math.round(v * 1000) / 1000)).join(" "));
    if (side.swapped.length) words.set(`s${at}`, side.swapped.join(" "));
  });
  state.images.forEach((index, i) => {
    if (index !== null) words.set("xy"[i], String(index));
  });
  return `#${words}`;
}

/** Whatever somebody wrote there; nonsense is dropped. @param {string} hash @returns {State} */
export function fromHash(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const numbers = (/** @type {string} */ key) =>
    (words.get(key) ?? "").split(" ").filter(Boolean).map(Number).filter(Number.isFinite);
  const sides = [];
  for (const at of "ab") {
    const run = words.get(at);
    if (run) sides.push({ run, code: words.has(`z${at}`) ? numbers(`z${at}`) : undefined,
      swapped: numbers(`s${at}`).filter((j) => Number.isInteger(j) && j >= 0) });
  }
  const images = ["x", "y"].map((key) => {
    const index = Number(words.get(key) ?? NaN);
    return Number.isInteger(index) && index >= 0 ? index : null;
  });
  return { sides, images };
}
