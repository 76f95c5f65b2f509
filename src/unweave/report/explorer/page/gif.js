// An animated GIF (GIF89a) from frames of bytes: a palette by median cut, LZW by the book.

/** @typedef {{palette: Uint8Array, symbol: (frame: Uint8Array, i: number) => number}} Colours */

/** All 256 greys for frames without colour, else the best 256. @returns {Colours} */
function colours(/** @type {Uint8Array[]} */ frames) {
  const isGrey = frames.every((frame) => {
    for (let i = 0; i < frame.length; i += 3) {
      if (frame[i] !== frame[i + 1] || frame[i] !== frame[i + 2]) return false;
    }
    return true;
  });
  if (isGrey) {
    const palette = Uint8Array.from({ length: 768 }, (_, i) => Math.floor(i / 3));
    return { palette, symbol: (frame, i) => frame[i] };
  }
  return quantise(frames);
}

/** @param {Uint8Array[]} frames  pixels, 3 bytes each @returns {Colours} */
function quantise(frames) {
  // Colours are counted at 5 bits a channel; 256 boxes of about equal count become the palette.
  const counts = new Float64Array(32768);
  for (const frame of frames) {
    for (let i = 0; i < frame.length; i += 3) {
      counts[(frame[i] >> 3 << 10) | (frame[i + 1] >> 3 << 5) | (frame[i + 2] >> 3)]++;
    }
  }
  const used = [];
  for (let key = 0; key < 32768; key++) if (counts[key]) used.push(key);
  const channel = (/** @type {number} */ key, /** @type {number} */ c) => (key >> (10 - 5 * c)) & 31;
  const weigh = (/** @type {number[]} */ keys) => {
    const spans = [0, 1, 2].map((c) => {
      let [low, high] = [31, 0];
      for (const key of keys) {
        low = Math.min(low, channel(key, c));
        high = Math.max(high, channel(key, c));
      }
      return high - low;
    });
    const widest = spans.indexOf(Math.max(...spans));
    const total = keys.reduce((sum, key) => sum + counts[key], 0);
    return { keys, widest, total, worth: spans[widest] * Math.sqrt(total) };
  };
  const boxes = [weigh(used)];
  while (boxes.length < 256) {
    boxes.sort((a, b) => b.worth - a.worth);
    const box = boxes[0];
    if (!box.worth) break;
    box.keys.sort((a, b) => channel(a, box.widest) - channel(b, box.widest));
    let [sum, cut] = [0, 0];
    while (cut < box.keys.length - 1 && sum + counts[box.keys[cut]] <= box.total / 2) {
      sum += counts[box.keys[cut++]];
    }
    cut = Math.max(1, cut);
    boxes.splice(0, 1, weigh(box.keys.slice(0, cut)), weigh(box.keys.slice(cut)));
  }
  const palette = new Uint8Array(768);
  const nearest = new Uint8Array(32768);
  boxes.forEach((box, b) => {
    for (let c = 0; c < 3; c++) {
      const sum = box.keys.reduce((s, key) => s + counts[key] * channel(key, c), 0);
      palette[3 * b + c] = Math.round(sum / box.total * 255 / 31);
    }
    for (const key of box.keys) nearest[key] = b;
  });
  return { palette, symbol: (frame, i) => nearest[
    (frame[i] >> 3 << 10) | (frame[i + 1] >> 3 << 5) | (frame[i + 2] >> 3)] };
}

/** LZW with 8-bit symbols, in the blocks of a GIF. @param {Uint8Array} symbols @param {number[]} out */
function compress(symbols, out) {
  const clear = 256, end = 257;
  let size = 9, next = 258, bits = 0, held = 0;
  /** @type {number[]} */
  let block = [];
  let table = new Map();
  const put = (/** @type {number} */ code) => {
    held |= code << bits;
    bits += size;
    while (bits >= 8) {
      block.push(held & 255);
      held >>>= 8;
      bits -= 8;
      if (block.length === 255) {
        out.push(255, ...block);
        block = [];
      }
    }
  };
  out.push(8);
  put(clear);
  let prefix = symbols[0];
  for (let i = 1; i < symbols.length; i++) {
    const key = prefix << 8 | symbols[i];
    const known = table.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    put(prefix);
    if (next < 4096) {
      if (next === 1 << size) size++;
      table.set(key, next++);
    } else {
      put(clear);
      table = new Map();
      [size, next] = [9, 258];
    }
    prefix = symbols[i];
  }
  put(prefix);
  put(end);
  if (bits) block.push(held & 255);
  if (block.length) out.push(block.length, ...block);
  out.push(0);
}

/**
 * @param {Uint8Array[]} frames  3 bytes a pixel
 * @param {number} width @param {number} height
 * @param {{delay?: number, zoom?: number}} [options]  delay in hundredths of a second
 * @returns {Blob}
 */
export function encodeGif(frames, width, height, { delay = 6, zoom = 4 } = {}) {
  const { palette, symbol } = colours(frames);
  const [w, h] = [width * zoom, height * zoom];
  const short = (/** @type {number} */ n) => [n & 255, n >> 8];
  const text = (/** @type {string} */ s) => Array.from(s, (c) => c.charCodeAt(0));
  const out = [...text("GIF89a"), ...short(w), ...short(h), 0xf7, 0, 0, ...palette,
    0x21, 0xff, 11, ...text("NETSCAPE2.0"), 3, 1, 0, 0, 0]; // for ever
  const symbols = new Uint8Array(w * h);
  for (const frame of frames) {
    for (let y = 0; y < h; y++) {
      for (let x = 0; x < w; x++) {
        const i = 3 * (Math.floor(y / zoom) * width + Math.floor(x / zoom));
        symbols[y * w + x] = symbol(frame, i);
      }
    }
    out.push(0x21, 0xf9, 4, 0, ...short(delay), 0, 0, 0x2c, 0, 0, 0, 0, ...short(w), ...short(h), 0);
    compress(symbols, out);
  }
  out.push(0x3b);
  return new Blob([new Uint8Array(out)], { type: "image/gif" });
}
