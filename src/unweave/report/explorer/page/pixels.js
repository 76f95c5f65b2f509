// Pictures as bytes, height by width by channel, and what is done with them on canvases.

import { post } from "./net.js";

/**
 * @typedef {[number, number, number]} Shape  height, width, channels
 *
 * @typedef {object} Picture
 * @property {Shape} shape
 * @property {Uint8Array} data
 * @property {string} label
 * @property {number} [index]    its number in the data set
 * @property {string} [dataset]
 */

const MOST_BYTES = 8e6;

/** @param {ArrayLike<number>} data @param {Shape} shape @param {number} scale @param {number} [start] */
export function toImageData(data, [height, width, channels], scale, start = 0) {
  const image = new ImageData(width, height);
  const out = image.data;
  for (let i = 0, k = start; i < out.length; i += 4, k += channels) {
    // Uint8ClampedArray rounds half to even and clamps, as we do in Python.
    out[i] = data[k] * scale;
    out[i + 1] = data[channels === 1 ? k : k + 1] * scale;
    out[i + 2] = data[channels === 1 ? k : k + 2] * scale;
    out[i + 3] = 255;
  }
  return image;
}

/** @param {HTMLCanvasElement} canvas @returns {CanvasRenderingContext2D} */
export function context(canvas) {
  const found = canvas.getContext("2d", { willReadFrequently: true });
  if (!found) throw new Error("this browser cannot draw on a canvas");
  return found;
}

/** @param {HTMLCanvasElement} canvas @param {Picture | null} picture */
export function show(canvas, picture) {
  if (!picture) {
    context(canvas).clearRect(0, 0, canvas.width, canvas.height);
    return;
  }
  const [height, width] = picture.shape;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  context(canvas).putImageData(toImageData(picture.data, picture.shape, 1), 0, 0);
}

/** @param {ImageData} image @param {Shape} shape @returns {Uint8Array} */
function fromImageData({ data: source }, [height, width, channels]) {
  const data = new Uint8Array(height * width * channels);
  for (let i = 0, k = 0; i < source.length; i += 4, k += channels) {
    if (channels === 1) {
      data[k] = Math.round(0.299 * source[i] + 0.587 * source[i + 1] + 0.114 * source[i + 2]);
    } else {
      for (let c = 0; c < 3; c++) data[k + c] = source[i + c];
    }
  }
  return data;
}

/** The tiles of a sheet. @param {Blob} blob @param {any} record @returns {Promise<Picture[]>} */
export async function readSheet(blob, record, /** @type {string} */ dataset) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none" });
  const canvas = Object.assign(document.createElement("canvas"), {
    width: bitmap.width, height: bitmap.height });
  const pen = context(canvas);
  pen.drawImage(bitmap, 0, 0);
  const [height, width] = record.shape;
  return record.index.map((/** @type {number} */ index, /** @type {number} */ i) => {
    const left = (i % record.columns) * width;
    const top = Math.floor(i / record.columns) * height;
    const tile = pen.getImageData(left, top, width, height);
    return { shape: record.shape, data: fromImageData(tile, record.shape), index, dataset,
      label: describe(record, i), row: record.rows[i] };
  });
}

/** @param {any} record @param {number} i */
function describe(record, i) {
  const parts = record.factors.map((/** @type {string} */ name, /** @type {number} */ k) => {
    const value = record.rows[i][k];
    return value < 0 ? "" : `${name} ${record.values[k][value] ?? value}`;
  });
  const said = parts.filter(Boolean).slice(0, 8).join(", ");
  return said || `image ${record.index[i]}`;
}

/** A file framed as a model sees it: by the server, or here. @returns {Promise<Picture>} */
export async function readFile(/** @type {File} */ file, /** @type {Shape} */ shape,
  /** @type {string} */ dataset, /** @type {boolean} */ hasServer) {
  if (file.size > MOST_BYTES) throw new Error("the picture is larger than 8 MB: choose a smaller one");
  if (hasServer) {
    const bytes = await post(`api/frame/${dataset}`, "the picture", file);
    return { shape, data: new Uint8Array(bytes), label: file.name };
  }
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error("this is not a picture that can be read: choose a PNG, JPEG, WEBP, BMP or GIF");
  }
  const canvas = document.createElement("canvas");
  return { shape, data: fit(bitmap, bitmap.width, bitmap.height, shape, canvas), label: file.name };
}

/** The largest centred part, on white. */
function fit(/** @type {CanvasImageSource} */ source, /** @type {number} */ width,
  /** @type {number} */ height, /** @type {Shape} */ shape, /** @type {HTMLCanvasElement} */ canvas) {
  const [toHeight, toWidth] = shape;
  Object.assign(canvas, { width: toWidth, height: toHeight });
  const pen = context(canvas);
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, toWidth, toHeight);
  pen.imageSmoothingQuality = "high";
  const part = Math.min(width / toWidth, height / toHeight);
  const [w, h] = [part * toWidth, part * toHeight];
  pen.drawImage(source, (width - w) / 2, (height - h) / 2, w, h, 0, 0, toWidth, toHeight);
  return fromImageData(pen.getImageData(0, 0, toWidth, toHeight), shape);
}

/** A picture in the shape of another data set. @param {Picture} picture @param {Shape} shape */
export function reshaped(picture, shape) {
  if (picture.shape.every((n, i) => n === shape[i])) return picture;
  const canvas = document.createElement("canvas");
  show(canvas, picture);
  const target = document.createElement("canvas");
  return { ...picture, shape, data: fit(canvas, canvas.width, canvas.height, shape, target) };
}

/** @param {Picture} picture @returns {Float32Array} */
export function toInput(picture) {
  return Float32Array.from(picture.data, (v) => v / 255);
}

/** @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The canvas, each pixel a square, as a PNG file. @param {HTMLCanvasElement} canvas */
export function savePng(canvas, /** @type {string} */ name, zoom = 8) {
  const large = Object.assign(document.createElement("canvas"), {
    width: canvas.width * zoom, height: canvas.height * zoom });
  const pen = context(large);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvas, 0, 0, large.width, large.height);
  return new Promise((done) => large.toBlob((blob) => {
    if (blob) save(blob, name);
    done(undefined);
  }, "image/png"));
}
