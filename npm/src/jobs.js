// A job on files, in a worker: one request, and the outputs that it leaves.
import { Host } from "./lend.js";
import { Module } from "./module.js";

/** Milliseconds between two notes of the progress. */
const PAUSE = 60;

/** Answers a request over files. `note` hears of the progress, not too often. */
export async function run(compiled, files, request, note) {
  let last = 0;
  const host = new Host(files, (done, total) => {
    const now = performance.now();
    if (now - last > PAUSE) {
      last = now;
      note(done, total);
    }
  });
  const module = await Module.of(compiled, (memory) => host.imports(memory));
  try {
    return { answer: module.ask(request), outputs: [...host.outputs] };
  } catch (error) {
    // What the host could not do is told by itself.
    throw host.error ?? error;
  }
}

/** The reader of a blob in a worker of a browser, which may wait for it. */
export function readerOf(blob) {
  const reader = new FileReaderSync();
  return {
    size: blob.size,
    read: (at, length) => new Uint8Array(reader.readAsArrayBuffer(blob.slice(at, at + length))),
  };
}
