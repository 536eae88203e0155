// onnx-cast: ONNX's casts between all element types, in the browser and in node. An import loads nothing: `init` loads the
// module for values, and the first job on a file or a model that for these.
import { makeApi } from "./api.js";
import { names } from "./elements.js";
import { CastError, refuseOthers } from "./errors.js";
import { makeJobs } from "./files.js";
import { Module, hasVectors } from "./module.js";
import { answerOf, here, start } from "#platform";

/** Where the modules are, each written so that bundlers find it: without vector instructions, and with them. */
const ADDRESSES = {
  values: [
    new URL("../wasm/values-plain.wasm", import.meta.url),
    new URL("../wasm/values-simd.wasm", import.meta.url),
  ],
  files: [
    new URL("../wasm/files-plain.wasm", import.meta.url),
    new URL("../wasm/files-simd.wasm", import.meta.url),
  ],
  models: [
    new URL("../wasm/models-plain.wasm", import.meta.url),
    new URL("../wasm/models-simd.wasm", import.meta.url),
  ],
};

const TEMPLATE = new URL("../wasm/report.html", import.meta.url);

/** The folder with the modules, where a caller named it. */
let folder;

/** What the package holds. */
async function stored(own) {
  const address = folder === undefined ? own : new URL(own.pathname.split("/").at(-1), folder);
  const answer = await answerOf(address);
  if (!answer.ok) throw new Error(`${address} cannot be loaded: ${answer.status} ${answer.statusText}`);
  return answer;
}

/** A module, compiled; workers get it as it is. */
async function load(part) {
  const answer = await stored(ADDRESSES[part][Number(hasVectors())]);
  // While it comes where the server says what it is, else when it is there.
  const isNamed = answer.headers.get("content-type") === "application/wasm";
  return isNamed ? WebAssembly.compileStreaming(answer) : WebAssembly.compile(await answer.arrayBuffer());
}

const template = async () => (await stored(TEMPLATE)).text();

let loading;
let api;

/** Loads the module for arrays and values; once, however often it is called. */
export async function init({ wasm, ...others } = {}) {
  refuseOthers("init", others, ["wasm"]);
  if (wasm !== undefined) {
    folder = new URL(String(wasm).replace(/\/?$/, "/"), here());
  }
  const begun = (loading ??= load("values").then(Module.of).then(makeApi));
  try {
    api = await begun;
  } catch (error) {
    // Another try may find the module.
    if (loading === begun) loading = undefined;
    throw error;
  }
}

/** A function on arrays or values, which needs the module. */
const loaded = (name) =>
  function (...given) {
    if (api === undefined) throw new Error(`${name} needs the module: \`await init()\` first`);
    return api[name](...given);
  };

export const cast = loaded("cast");
export const bitCast = loaded("bitCast");
export const quantize = loaded("quantize");
export const dequantize = loaded("dequantize");
export const pack = loaded("pack");
export const unpack = loaded("unpack");
export const explain = loaded("explain");
export const explainAll = loaded("explainAll");
export const explainBlock = loaded("explainBlock");
export const types = loaded("types");
export const about = loaded("about");
export const { info, report, castFile, quantizeFile } = makeJobs(load, start, template);
export { CastError, names };
