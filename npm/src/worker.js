// The worker of a browser.
import { readerOf, run } from "./jobs.js";

onmessage = async ({ data: { bytes, files, request } }) => {
  try {
    const readers = files.map(([path, blob]) => [path, readerOf(blob)]);
    postMessage(await run(bytes, readers, request, (done, total) => postMessage({ done, total })));
  } catch (error) {
    postMessage({ error: error.message });
  }
};
