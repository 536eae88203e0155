// onnx-cast: ONNX's casts between all element types, in the browser and in node. Loads the module once.
import { makeApi } from "./api.js";
import { names } from "./elements.js";
import { browserStart, makeJobs, nodeStart } from "./files.js";
import { Module, hasVectors } from "./module.js";

const isNode = globalThis.process?.versions?.node !== undefined;
const address = new URL(hasVectors() ? "../wasm/simd.wasm" : "../wasm/plain.wasm", import.meta.url);

async function load() {
  if (isNode) return (await import("node:fs/promises")).readFile(address);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} cannot be loaded: ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}

const bytes = await load();
const start = isNode
  ? await nodeStart(bytes, new URL("./worker-node.js", import.meta.url))
  : browserStart(bytes, () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));

export const { cast, bitCast, quantize, dequantize, pack, unpack, explain, explainAll, explainBlock, types, about } =
  makeApi(await Module.of(bytes));
export const { info, report, castFile, quantizeFile } = makeJobs(start);
export { names };
