// What differs in a browser, and in what is like one.
import { browserStart } from "./files.js";

/** What is at an address. */
export const answerOf = (address) => fetch(address);

/** What relative addresses start from. */
export const here = () => globalThis.location.href;

/** Starts a worker. */
export const start = browserStart(() => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));
