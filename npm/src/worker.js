// The worker of a browser.
import { told } from "./errors.js";
import { readerOf, run } from "./jobs.js";

/** A port to nobody. */
const { port1: sink, port2: closed } = new MessageChannel();
closed.close();

/**
 * Frees bytes that were copied. A worker that never waits leaves garbage for long: with a file of gigabytes a browser
 * would take hundreds of megabytes. A buffer that is sent to a closed port is gone at once. Node would keep it.
 */
const release = ({ buffer }) => buffer.byteLength && sink.postMessage(null, [buffer]);

onmessage = async ({ data: { compiled, files, request } }) => {
  try {
    const readers = files.map(([path, blob]) => [path, { ...readerOf(blob), release }]);
    postMessage(await run(compiled, readers, request, (done, total) => postMessage({ done, total })));
  } catch (error) {
    postMessage({ error: told(error) });
  }
};
