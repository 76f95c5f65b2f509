// A run's encoder and decoder. In the browser they are ONNX graphs run by onnxruntime-web; where it
// is not there, the server is asked instead.

import { getBytes, post } from "./net.js";

/**
 * @typedef {object} Latent
 * @property {string} name
 * @property {number} values  0 if continuous, else the number of classes
 * @property {number} kl      nats
 * @property {number} reach   a slider goes from -reach to reach
 *
 * @typedef {object} Facts
 * @property {string} id
 * @property {string} method
 * @property {string} data
 * @property {string} dataset
 * @property {number} seed
 * @property {Object<string, number|string>} letters
 * @property {[number, number, number]} shape
 * @property {Latent[]} latents
 * @property {string} measure  what `kl` of a latent is: KL, or MI for a generator
 * @property {string[]} factors
 * @property {number[][]} prior  codes drawn from it
 * @property {number[][]} information  latent, factor; empty until it has arrived
 *
 * @typedef {object} Model
 * @property {(codes: Float32Array) => Promise<Float32Array>} decode  images, one after another
 * @property {(images: Float32Array) => Promise<Float32Array>} encode  codes, one after another
 * @property {string} where
 */

/** @type {Promise<any> | undefined} */
let runtime;

function loadRuntime() {
  // @ts-ignore: it comes from npm, and is not here when types are checked
  runtime ??= import("./vendor/ort.js").then((/** @type {any} */ ort) => {
    const at = (/** @type {string} */ name) => new URL(`./vendor/${name}`, import.meta.url).href;
    ort.env.wasm.wasmPaths = { mjs: at("ort-wasm.js"), wasm: at("ort-wasm.wasm") };
    ort.env.wasm.numThreads = 1; // a picture takes milliseconds; threads need special headers
    ort.env.logLevel = "error";
    return ort;
  });
  return runtime;
}

/** Runs one call at a time: a session refuses a second one. */
class Turns {
  constructor() {
    /** @type {Promise<unknown>} */
    this.last = Promise.resolve();
  }

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  take(work) {
    const mine = this.last.then(work, work);
    this.last = mine.catch(() => {});
    return mine;
  }
}

/** @param {Facts} facts @returns {Promise<Model>} */
async function inBrowser(facts) {
  const ort = await loadRuntime();
  const folder = `data/runs/${encodeURIComponent(facts.id)}`;
  const open = async (/** @type {string} */ side) => {
    const bytes = await getBytes(`${folder}/${side}.onnx`, `the ${side} of ${facts.id}`);
    try {
      return await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
    } catch {
      throw new Error(`the ${side} of ${facts.id} is damaged: its file is not a graph`);
    }
  };
  const decoder = await open("decoder");
  const turns = new Turns();
  /** @type {Promise<any> | undefined} */
  let encoder;
  const [height, width, channels] = facts.shape;
  const size = height * width * channels;
  const codeSize = facts.latents.length;
  return {
    where: "browser",
    decode: (codes) => turns.take(async () => {
      const input = new ort.Tensor("float32", codes, [codes.length / codeSize, codeSize]);
      return (await decoder.run({ codes: input })).images.data;
    }),
    encode: (images) => turns.take(async () => {
      encoder ??= open("encoder");
      const session = await encoder;
      const shape = [images.length / size, height, width, channels];
      const found = await session.run({ images: new ort.Tensor("float32", images, shape) }, ["codes"]);
      return found.codes.data;
    }),
  };
}

/** @param {Facts} facts @returns {Model} */
function onServer(facts) {
  const folder = `api/runs/${encodeURIComponent(facts.id)}`;
  const turns = new Turns();
  const ask = (/** @type {string} */ what, /** @type {Float32Array} */ values) =>
    turns.take(async () => new Float32Array(await post(`${folder}/${what}`, facts.id, values.slice())));
  return {
    where: "server",
    decode: (codes) => ask("decode", codes),
    encode: (images) => ask("encode", images),
  };
}

/**
 * @param {Facts} facts @param {{runtime: string, static: boolean}} options
 * @returns {Promise<Model>}
 */
export async function openModel(facts, options) {
  if (options.runtime !== "browser") return onServer(facts);
  try {
    await loadRuntime();
  } catch (error) {
    if (options.static) throw new Error("this browser cannot run the models: it lacks WebAssembly");
    return onServer(facts);
  }
  return inBrowser(facts);
}
