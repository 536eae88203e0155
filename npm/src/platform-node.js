// What differs in node: files of the system, and workers that sleep while the main thread reads blobs for them.
import { readFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";

/** Bytes that go from thread to thread at once. */
const SHARED = 4 << 20;

const WORKER = new URL("./worker-node.js", import.meta.url);

/** What is at an address: this system's files, or an answer of the net. */
export async function answerOf(address) {
  return address.protocol === "file:" ? new Response(await readFile(address)) : fetch(address);
}

/** What relative addresses start from. */
export const here = () => `file://${process.cwd()}/`;

/** Starts a worker. */
export function start({ compiled, files, request }) {
  const [signal, shared] = [new SharedArrayBuffer(4), new SharedArrayBuffer(SHARED)];
  const about = files.map(([name, blob]) => [name, { path: blob.path, size: blob.size }]);
  // A worker has its parent's options, and refuses that of `node --input-type=module --eval`.
  const execArgv = process.execArgv.some((option) => option.startsWith("--input-type")) ? [] : undefined;
  const worker = new Worker(WORKER, { execArgv, workerData: { compiled, files: about, request, signal, shared } });
  async function serve({ want, at, length }) {
    let status = 1;
    try {
      new Uint8Array(shared).set(new Uint8Array(await files[want][1].slice(at, at + length).arrayBuffer()));
    } catch {
      status = -1;
    }
    Atomics.store(new Int32Array(signal), 0, status);
    Atomics.notify(new Int32Array(signal), 0);
  }
  return {
    listen(hear, fail) {
      worker.on("message", (message) => (message.want === undefined ? hear(message) : serve(message)));
      worker.on("error", fail);
    },
    stop: () => worker.terminate(),
  };
}
