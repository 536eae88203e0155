// The worker of a browser.
import { told } from "./errors.js";
import { readerOf, run } from "./jobs.js";

onmessage = async ({ data: { compiled, files, request } }) => {
  try {
    const readers = files.map(([path, blob]) => [path, readerOf(blob)]);
    postMessage(await run(compiled, readers, request, (done, total) => postMessage({ done, total })));
  } catch (error) {
    postMessage({ error: told(error) });
  }
};
