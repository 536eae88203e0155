// The worker of node. Blobs can only be read by waiting for a promise, which a job cannot do: the main thread reads,
// and this one sleeps until the bytes are in the shared buffer.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { told } from "./errors.js";
import { run } from "./jobs.js";

const { compiled, files, request, signal, shared } = workerData;
const state = new Int32Array(signal);

/** The reader of a blob that the main thread reads. */
const remote = (index, size) => ({
  size,
  read(at, length) {
    const all = new Uint8Array(length);
    for (let done = 0; done < length;) {
      const count = Math.min(shared.byteLength, length - done);
      Atomics.store(state, 0, 0);
      parentPort.postMessage({ want: index, at: at + done, length: count });
      Atomics.wait(state, 0, 0);
      if (Atomics.load(state, 0) < 0) throw new Error("the blob cannot be read");
      all.set(new Uint8Array(shared, 0, count), done);
      done += count;
    }
    return all;
  },
});

const opened = [];

/** The reader of a file of the system. */
function local(path) {
  const file = openSync(path, "r");
  opened.push(file);
  return {
    size: fstatSync(file).size,
    read(at, length) {
      const all = new Uint8Array(length);
      for (let done = 0; done < length;) {
        const count = readSync(file, all, done, length - done, at + done);
        if (count === 0) throw new Error(`${path} ends at byte ${at + done}`);
        done += count;
      }
      return all;
    },
  };
}

try {
  const readers = files.map(([name, { path, size }], index) => [
    name,
    path === undefined ? remote(index, size) : local(path),
  ]);
  parentPort.postMessage(
    await run(compiled, readers, request, (done, total) => parentPort.postMessage({ done, total })),
  );
} catch (error) {
  parentPort.postMessage({ error: told(error) });
} finally {
  opened.forEach((file) => closeSync(file));
}
