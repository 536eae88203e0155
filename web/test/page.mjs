// Drives the page in Chromium as a person would:
//
//   node web/test/page.mjs PAGE.html MODULES FILES [SCREENSHOTS]
//
// MODULES has playwright-core and axe-core, FILES the files that are dropped (web/test/files.py makes them). Every
// request that is not the page itself is an error.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [page, modules, files, screenshots] = process.argv.slice(2);
if (!files) throw new Error("usage: node web/test/page.mjs PAGE.html MODULES FILES [SCREENSHOTS]");
const require = createRequire(join(resolve(modules), "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core"), "utf8");
const address = pathToFileURL(resolve(page)).href;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

/** A tab whose requests and errors are watched. `script` runs in it before the page's own; `from` is the page. */
async function open(hash = "", { script, from = address, ...more } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1100, height: 900 },
    // Under the C locale, Chromium's headless shell reports a language that Intl refuses.
    locale: "en-US",
    acceptDownloads: true,
    ...more,
  });
  if (from !== address) await context.route(from, (route) => route.fulfill({ path: page }));
  if (script) await context.addInitScript(script);
  const tab = await context.newPage();
  const troubles = [];
  tab.on(
    "request",
    (request) =>
      /^(file|blob|data):/.test(request.url()) ||
      request.url() === from ||
      troubles.push(`request to ${request.url()}`),
  );
  tab.on("pageerror", (error) => troubles.push(error.message));
  tab.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
  await tab.goto(from + hash);
  await tab.waitForFunction(() => performance.getEntriesByName("ready").length > 0);
  tab.end = async () => {
    assert.deepEqual(troubles, []);
    await context.close();
  };
  return tab;
}

async function accessible(tab, where) {
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => axe.run(document, { iframes: false }));
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${where}: ${id}: ${nodes[0].html}`),
    [],
  );
}

const shoot = async (tab, name, options = {}) =>
  screenshots && tab.screenshot({ path: join(screenshots, `${name}.png`), ...options });
const row = (tab, type) => tab.locator("#v-types summary", { has: tab.getByText(type, { exact: true }) });
const step = async (name, run) => {
  const start = performance.now();
  await run();
  console.log(`${name}: ${((performance.now() - start) / 1000).toFixed(1)} s`);
};

await step("the first value is shown", async () => {
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    const tab = await open();
    times.push(await tab.evaluate(() => performance.getEntriesByName("shown")[0].startTime));
    await tab.end();
  }
  const [least, , median, , most] = times.sort((a, b) => a - b).map((time) => time.toFixed(0));
  console.log(`first value after ${median} ms, from the start of the navigation (of 5, ${least} to ${most})`);
});

await step("a value is typed, flipped and linked", async () => {
  const tab = await open();
  assert.match(await row(tab, "float16").innerText(), /0x34cd/);
  await shoot(tab, "value");
  await accessible(tab, "value");
  await tab.fill("#v-value", "1");
  assert.match(await row(tab, "bfloat16").innerText(), /0x3f80/);
  assert.equal(await tab.locator("#v-bits button").count(), 32);
  await tab.locator('#v-bits [data-bit="22"]').click();
  assert.equal(await tab.inputValue("#v-value"), "0x3fc00000");
  assert.match(await tab.locator("#v-facts").innerText(), /exactly\s+1\.5/);
  await tab.keyboard.press("Enter");
  assert.equal(await tab.inputValue("#v-value"), "0x3f800000", "the bit that was flipped keeps the focus");
  await tab.click("#v-after");
  assert.equal(await tab.inputValue("#v-value"), "0x3f800001");
  await tab.click("#v-before");
  await tab.click("#v-before");
  assert.equal(await tab.inputValue("#v-value"), "0x3f7fffff");
  await tab.fill("#v-value", "0");
  await tab.click("#v-before");
  assert.equal(await tab.inputValue("#v-value"), "0x80000001", "below zero is the negative subnormal");
  await tab.click("#v-after");
  assert.equal(await tab.inputValue("#v-value"), "0x80000000");
  await tab.click("#v-after");
  assert.equal(await tab.inputValue("#v-value"), "0x00000001");
  await tab.selectOption("#v-special", { label: "largest" });
  assert.equal(await tab.inputValue("#v-value"), "0x7f7fffff");
  await row(tab, "float8e5m2").click();
  await tab.locator("#v-types details[open]", { hasText: "saturate is true" }).waitFor();
  await tab.locator("#v-more summary").click();
  await tab.selectOption("#v-saturate", "false");
  assert.match(await row(tab, "float8e5m2").innerText(), /INF/);
  await tab.fill("#v-value", "nonsense");
  assert.match(await tab.locator("#v-error").innerText(), /nonsense/);
  await tab.fill("#v-value", "2.5");
  await tab.fill("#v-scale", "0.05");
  assert.match(await row(tab, "int8").innerText(), /50/);
  const hash = new URL(tab.url()).hash;
  const other = await open(hash);
  assert.equal(await other.inputValue("#v-scale"), "0.05");
  assert.match(await row(other, "int8").innerText(), /50/);
  await other.fill("#v-scale", "");
  await other.selectOption("#v-block", "nvfp4");
  await other.fill("#v-others", "-1.7 0.01 5");
  assert.equal(await other.locator("#v-in-block tbody tr").count(), 4);
  await accessible(other, "block");
  await shoot(other, "value-block");
  await other.end();
  await tab.end();
});

await step("the keyboard, a phone, and the dark", async () => {
  const tab = await open("#value?value=0.1", {
    viewport: { width: 390, height: 844 },
    colorScheme: "dark",
    isMobile: true,
  });
  assert.match(await row(tab, "float8e4m3fn").innerText(), /0x1d/);
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} pixels`);
  await accessible(tab, "phone");
  await shoot(tab, "phone");
  await tab.locator("#tab-value").focus();
  await tab.keyboard.press("ArrowRight");
  assert.ok(await tab.locator("#format").isVisible());
  await tab.end();
});

await step("formats are compared", async () => {
  const tab = await open("#format");
  assert.equal(await tab.locator(".format-line").count(), 3);
  await tab.getByLabel("float8e5m2", { exact: true }).check();
  assert.equal(await tab.locator(".format-line").count(), 4);
  assert.match(
    await tab.locator(".format-line", { hasText: "float8e4m3fn" }).first().innerText(),
    /largest\s+448 0x7e/,
  );
  await shoot(tab, "format");
  await accessible(tab, "format");
  await tab.selectOption("#f-axis", "linear");
  assert.match(tab.url(), /axis=linear/);
  await tab.locator(".format-line summary").first().click();
  await tab.locator(".format-line tbody tr").first().waitFor();
  assert.equal(await tab.locator(".format-line tbody tr").count(), 16);
  await tab.end();
});

await step("files of each format are dropped and reported", async () => {
  const tab = await open("#file");
  for (const [name, tensor] of [
    ["w.npy", "(no name)"],
    ["w.npz", "first"],
    ["w.onnx", "weight"],
    ["w.safetensors", "layer.weight"],
  ]) {
    await tab.setInputFiles("#d-files", join(files, name));
    await tab.getByRole("cell", { name: tensor, exact: true }).first().waitFor();
    assert.equal(await tab.locator("#d-error").innerText(), "", name);
  }
  await accessible(tab, "file");
  await tab.click("#d-report");
  const report = tab.frameLocator("#d-shown");
  await report.locator("#rows tr").first().waitFor();
  assert.ok((await report.locator("#rows tr").count()) >= 4);
  await report.locator("#histogram canvas").waitFor();
  await tab.waitForFunction(() => document.getElementById("d-shown").clientHeight > 800);
  await shoot(tab, "file", { fullPage: true, clip: { x: 0, y: 0, width: 1100, height: 1560 } });
  await tab.setInputFiles("#d-files", join(files, "broken.safetensors"));
  await tab.waitForFunction(() => document.getElementById("d-error").textContent.includes("broken.safetensors"));
  await tab.setInputFiles("#d-folder", join(files, "folder"));
  await tab.getByRole("cell", { name: "b", exact: true }).waitFor();
  await tab.end();
});

/** Drops files as the browser's own interface does, on the middle of the field for them. */
async function drop(tab, paths) {
  const box = await tab.locator("#drop").boundingBox();
  const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const session = await tab.context().newCDPSession(tab);
  const data = { items: [], files: paths.map((path) => resolve(path)), dragOperationsMask: 1 };
  await session.send("Input.dispatchDragEvent", { type: "dragEnter", ...at, data });
  await session.send("Input.dispatchDragEvent", { type: "dragOver", ...at, data });
  assert.equal(await tab.locator("#drop.over").count(), 1, "the field shows that files are over it");
  await session.send("Input.dispatchDragEvent", { type: "drop", ...at, data });
}

await step("files and a folder are dropped by the mouse", async () => {
  const tab = await open("#file");
  await drop(tab, [join(files, "w.safetensors")]);
  await tab.getByRole("cell", { name: "layer.weight", exact: true }).waitFor();
  assert.equal(await tab.locator("#drop.over").count(), 0);
  await drop(tab, [join(files, "folder")]);
  await tab.getByRole("cell", { name: "b", exact: true }).waitFor();
  assert.match(await tab.locator("#d-name").innerText(), /^folder\/one\.safetensors, /);
  await drop(tab, [join(files, "broken.safetensors")]);
  await tab.waitForFunction(() => document.getElementById("d-error").textContent.includes("broken.safetensors"));
  await tab.end();
});

/** In the tab: the most memory that the module of a worker has. The worker's script is lengthened by a few lines. */
const watchMemory = () => {
  const lines = `
    const instantiate = WebAssembly.instantiate, post = postMessage;
    let held;
    WebAssembly.instantiate = async (...given) => {
      const made = await instantiate(...given);
      held = made.exports.memory;
      return made;
    };
    postMessage = (message) => post({ ...message, memory: held?.buffer.byteLength });`;
  const [OwnBlob, OwnWorker] = [Blob, Worker];
  globalThis.mostMemory = 0;
  globalThis.Blob = function (parts, options) {
    return new OwnBlob(options?.type === "text/javascript" ? [lines, ...parts] : parts, options);
  };
  globalThis.Worker = function (...given) {
    const worker = new OwnWorker(...given);
    worker.addEventListener("message", ({ data }) => {
      globalThis.mostMemory = Math.max(globalThis.mostMemory, data.memory ?? 0);
    });
    return worker;
  };
};

/** Bytes of memory of the tab's process that no file backs; nothing where the system does not say. */
async function processMemory() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const sizes = processInfo
    .filter(({ type }) => type === "renderer")
    .map(({ id }) => {
      try {
        return 1024 * Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/status`, "utf8"))[1]);
      } catch {
        return 0;
      }
    });
  return Math.max(0, ...sizes);
}

await step("a sparse file of 20 GB is listed, read in a few MB, and its report cancelled", async () => {
  const tab = await open("#file", { script: watchMemory });
  const before = await processMemory();
  await tab.setInputFiles("#d-files", join(files, "large.safetensors"));
  await tab.getByRole("cell", { name: "large", exact: true }).waitFor();
  assert.match(await tab.locator("#d-name").innerText(), /20\.0 GiB/);
  await tab.click("#d-report");
  let most = 0;
  const isRead = () => document.getElementById("d-progress").value > 0.05;
  while (!(await tab.evaluate(isRead))) {
    most = Math.max(most, await processMemory());
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await tab.click("#d-cancel");
  await tab.waitForFunction(() => document.getElementById("d-error").textContent === "cancelled");
  const held = await tab.evaluate(() => globalThis.mostMemory);
  const megabytes = (bytes) => (bytes / 2 ** 20).toFixed(1);
  console.log(`the module took ${megabytes(held)} MiB, the tab's process ${megabytes(most - before)} MiB more`);
  assert.ok(held > 0 && held <= 64 << 20, `${held} bytes of memory`);
  await tab.end();
});

await step("a file is cast and saved", async () => {
  const tab = await open("#file");
  await tab.setInputFiles("#d-files", join(files, "w.safetensors"));
  await tab.getByRole("cell", { name: "layer.weight", exact: true }).waitFor();
  await tab.click("#tab-cast");
  await tab.selectOption("#c-to", "bfloat16");
  await accessible(tab, "cast");
  await tab.click("#c-run");
  const saved = tab.waitForEvent("download");
  await tab.getByRole("button", { name: /^Save w\.bfloat16\.safetensors/ }).click();
  const bytes = readFileSync(await (await saved).path());
  const size = Number(bytes.readBigUInt64LE());
  assert.match(bytes.subarray(8, 8 + size).toString(), /BF16/);
  assert.deepEqual(
    bytes.subarray(8 + size),
    readFileSync(join(files, "w.bfloat16.safetensors")).subarray(8 + size),
    "as the command casts it",
  );
  await tab.selectOption("#c-job", "quantize");
  await tab.click("#c-run");
  await tab.getByRole("button", { name: /^Save w\.int8/ }).waitFor();
  await shoot(tab, "cast");
  await tab.end();
});

await step("a model is cast and saved", async () => {
  const tab = await open("#cast");
  await tab.setInputFiles("#d-files", join(files, "w.onnx"));
  await tab.waitForFunction(() => !document.getElementById("c-run").disabled);
  await tab.selectOption("#c-to", "bfloat16");
  await tab.click("#c-run");
  const saved = tab.waitForEvent("download");
  await tab.getByRole("button", { name: /^Save w\.bfloat16\.onnx/ }).click();
  const bytes = readFileSync(await (await saved).path());
  assert.deepEqual(bytes, readFileSync(join(files, "w.bfloat16.onnx")), "as the command casts it");
  // The model's opset, 21, is raised for a type that is newer.
  await tab.selectOption("#c-to", "float8e8m0");
  await tab.click("#c-run");
  await tab.getByRole("button", { name: /^Save w\.float8e8m0\.onnx/ }).waitFor();
  await tab.end();
});

// Headless Chromium has no window to choose a file in. This stands for it: the page then writes to the handle that it
// gets, of a file that the browser keeps for a site. A page from the disk has no such files, so this one has an address.
const chooseInPrivate = () => {
  globalThis.asked = [];
  globalThis.showSaveFilePicker = async ({ suggestedName }) => {
    globalThis.asked.push(suggestedName);
    if (globalThis.asked.length === 1) throw new DOMException("nothing was chosen", "AbortError");
    return (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true });
  };
};

await step("a file is cast and streamed to the disk", async () => {
  const tab = await open("#file", { script: chooseInPrivate, from: "https://onnx-cast.test/onnx-cast.html" });
  await tab.setInputFiles("#d-files", join(files, "w.safetensors"));
  await tab.getByRole("cell", { name: "layer.weight", exact: true }).waitFor();
  await tab.click("#tab-cast");
  await tab.selectOption("#c-to", "bfloat16");
  await tab.click("#c-run");
  const button = tab.getByRole("button", { name: /^Save w\.bfloat16\.safetensors/ });
  await button.click();
  await tab.waitForFunction(() => globalThis.asked.length === 1);
  await button.click();
  const wanted = readFileSync(join(files, "w.bfloat16.safetensors"));
  const found = await tab.evaluate(async (size) => {
    const file = async () =>
      (await (await navigator.storage.getDirectory()).getFileHandle("w.bfloat16.safetensors")).getFile();
    // What is written appears when it is complete.
    while ((await file().catch(() => ({ size: 0 }))).size < size) await new Promise((done) => setTimeout(done, 20));
    return [...new Uint8Array(await (await file()).arrayBuffer())];
  }, wanted.length);
  const data = 8 + Number(wanted.readBigUInt64LE());
  assert.deepEqual(Buffer.from(found).subarray(data), wanted.subarray(data), "as the command casts it");
  assert.equal(await tab.locator("#c-error").innerText(), "", "what is not chosen is no error");
  await tab.end();
});

// An engine without vector instructions gets the other modules.
for (const [backend, script] of [["simd128"], ["portable", () => (WebAssembly.validate = () => false)]]) {
  await step(`the module ${backend} has the library's bits in this browser`, async () => {
    const tab = await open("#file", { script });
    assert.deepEqual(await tab.evaluate(() => globalThis.onnxCast.about().backends), [backend]);
    for (const [name, tensor] of [["w.safetensors", "layer.weight"], ["w.onnx", "weight"]]) {
      await tab.setInputFiles("#d-files", join(files, name));
      await tab.getByRole("cell", { name: tensor, exact: true }).waitFor();
    }
    const wanted = readFileSync(
      new URL("../../crates/onnx-cast-wasm/tests/data/bits.json", import.meta.url),
      "utf8",
    );
    const comparison = readFileSync(new URL("../../npm/test/bits.mjs", import.meta.url), "utf8");
    const compare = `${comparison.replace(/^export /gm, "")}\nglobalThis.compareBits = compare;`;
    await tab.evaluate(compare);
    const found = await tab.evaluate(
      (text) => globalThis.compareBits(globalThis.onnxCast, JSON.parse(text)),
      wanted,
    );
    assert.deepEqual(found.wrong, []);
    console.log(`${found.pairs} casts, ${found.values.toLocaleString("en")} values: the library's bits`);
    await tab.end();
  });
}

await browser.close();
