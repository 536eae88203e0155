// onnx-cast: ONNX's casts between all element types, in the browser and in node. Loads the module for values once, and
// those for files and for models with the first job on one.
import { makeApi } from "./api.js";
import { names } from "./elements.js";
import { CastError } from "./errors.js";
import { browserStart, makeJobs, nodeStart } from "./files.js";
import { Module, hasVectors } from "./module.js";

const isNode = globalThis.process?.versions?.node !== undefined;

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

/** What the package holds at an address: an answer of the net, or of this system's files. */
async function stored(address) {
  if (isNode) return new Response(await (await import("node:fs/promises")).readFile(address));
  const answer = await fetch(address);
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
const start = isNode
  ? await nodeStart(new URL("./worker-node.js", import.meta.url))
  : browserStart(() => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));

export const { cast, bitCast, quantize, dequantize, pack, unpack, explain, explainAll, explainBlock, types, about } =
  makeApi(await Module.of(await load("values")));
export const { info, report, castFile, quantizeFile } = makeJobs(load, start, template);
export { CastError, names };
