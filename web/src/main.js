// Starts the page: the module, the tabs, and the address that keeps what is shown.
import { makeApi } from "./api.js";
import { byId, isDark } from "./dom.js";
import { startFile } from "./file.js";
import { browserStart, makeJobs } from "./files.js";
import { startFormat } from "./format.js";
import { Module, hasVectors } from "./module.js";
import { startValue } from "./value.js";

const TABS = ["value", "format", "file", "cast"];

/** Bytes of base64. */
function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** The whole page is there. */
const complete = () =>
  document.readyState === "loading"
    ? new Promise((resolve) => addEventListener("DOMContentLoaded", resolve))
    : Promise.resolve();

/** What stands in the page, compressed, as text: an answer that is decompressed while it is read. */
function stored(name, type) {
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  writer.write(decoded(byId(name).textContent));
  writer.close();
  return new Response(readable, { headers: { "content-type": type } });
}

/** A module, compiled. */
async function compileHere(part) {
  const name = `${part}-${hasVectors() ? "simd" : "plain"}`;
  // What the first value needs stands before this script, the other modules behind it.
  if (name !== "values-simd") await complete();
  return WebAssembly.compileStreaming(stored(name, "application/wasm"));
}

const api = makeApi(await Module.of(await compileHere("values")));
// For the console of the browser, and its tests.
globalThis.onnxCast = api;
const workerAddress = URL.createObjectURL(new Blob([byId("worker").textContent], { type: "text/javascript" }));
const start = browserStart(() => new Worker(workerAddress));
const template = async () => (await complete(), stored("report", "text/html").text());
const jobs = makeJobs(compileHere, start, template);

let tab = "value";
const inAddress = {};
const note = (name) => {
  const change = () => {
    const state = new URLSearchParams(change.state()).toString();
    history.replaceState(null, "", `#${name}${state ? `?${state}` : ""}`);
  };
  inAddress[name] = change;
  return change;
};

function open(name, focus) {
  tab = name;
  TABS.forEach((one) => {
    byId(one).hidden = one !== name;
    const button = byId(`tab-${one}`);
    button.setAttribute("aria-selected", String(one === name));
    button.tabIndex = one === name ? 0 : -1;
    if (focus && one === name) button.focus();
  });
  if (inAddress[name]) inAddress[name].redraw?.();
}

/** Shows what the address says. */
function follow() {
  const [name, query] = location.hash.slice(1).split("?");
  open(TABS.includes(name) ? name : "value");
  inAddress[tab]?.restore(Object.fromEntries(new URLSearchParams(query ?? "")));
}

TABS.forEach((name, index) => {
  byId(`tab-${name}`).addEventListener("click", () => {
    open(name);
    if (inAddress[name]) inAddress[name]();
    else history.replaceState(null, "", `#${name}`);
  });
  byId(`tab-${name}`).addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      open(TABS[(index + by + TABS.length) % TABS.length], true);
      event.preventDefault();
    }
  });
});
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  inAddress[tab]?.redraw?.();
});
addEventListener("hashchange", follow);
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) inAddress[tab]?.redraw?.();
  width = innerWidth;
});

startValue(api, note("value"));
follow();
performance.mark("shown");
// The other tabs are made when the value is on the screen.
await new Promise((resolve) => setTimeout(resolve));
if (tab !== "value") inAddress.value.restore({});
startFormat(api, note("format"));
startFile(api, jobs, isDark);
inAddress.format.restore({});
if (tab !== "value") follow();
performance.mark("ready");
