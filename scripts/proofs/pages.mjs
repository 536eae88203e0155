// Opens the pages that scripts/proofs/pages.sh has written in headless Chromium: the report is sorted, filtered and its
// tensors selected by the keyboard, in light and dark, at the widths of a desktop and a phone; then the one of 5,000
// tensors, whose times the page itself takes, what a notebook shows, and the pages of convert and explain. Any message
// on the console is a failure.
import { createRequire } from "node:module";

const [folder, types] = process.argv.slice(2);
const { chromium } = createRequire(folder + "/")("playwright-core");
const DESKTOP = { width: 1200, height: 1000 };
const PHONE = { width: 390, height: 844 };

const fail = (text) => { throw new Error(text); };
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens a page; whatever it says, asks for or does wrong is a failure. */
async function open(file, name, viewport, colorScheme) {
  const tab = await browser.newPage({ viewport, colorScheme, locale: "en-US" });
  tab.on("console", (message) => fail(`${name}: console: ${message.text()}`));
  tab.on("pageerror", (error) => fail(`${name}: ${error}`));
  tab.on("request", (request) => request.url().startsWith("http") && fail(`${name}: asks for ${request.url()}`));
  await tab.goto(`file://${folder}/${file}.html`);
  if (await tab.evaluate(() => document.documentElement.scrollWidth > innerWidth)) fail(`${name}: wider than the window`);
  return tab;
}

/** Milliseconds, as the page takes them, from something that is done to an element until what comes of it is on the screen. */
const timed = (tab, selector, value) => tab.evaluate(async ([selector, value]) => {
  const element = document.querySelector(selector);
  const began = performance.now();
  if (value === null) element.click();
  else {
    element.value = value;
    element.dispatchEvent(new Event("input"));
  }
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return Math.round(performance.now() - began);
}, [selector, value ?? null]);

async function report() {
  for (const [name, viewport, colorScheme] of [["desktop", DESKTOP, "light"], ["dark", DESKTOP, "dark"], ["phone", PHONE, "light"]]) {
    const tab = await open("report", name, viewport, colorScheme);
    const cells = (column) => tab.locator(`#rows td:nth-child(${column})`).allTextContents();
    const grades = ["poor", "care", "fine", "exact"];
    const places = (await cells(3)).map((grade) => grades.indexOf(grade));
    if (!places.length || places.some((place, index) => index && place < places[index - 1])) fail(`${name}: not the worst first`);
    if (viewport === PHONE) await tab.locator("#detail").evaluate((detail) => detail.scrollIntoView());
    await tab.screenshot({ path: `${folder}/${name}.png` });

    const total = (await tab.locator("#count").textContent()).split(" ").at(-2);
    await tab.locator("#head button", { hasText: "To zero" }).press("Enter");
    const shares = (await cells(6)).map((text) => (text.startsWith("<") ? 0.005 : parseFloat(text)));
    if (shares.some((share, index) => index && share > shares[index - 1])) fail(`${name}: not sorted: ${shares}`);
    await tab.locator("#filter").fill("BIAS");
    if ((await cells(1)).some((text) => !text.includes("bias"))) fail(`${name}: not filtered`);
    await tab.locator("#type").selectOption({ index: 1 });
    const types = new Set(await cells(2));
    if (types.size !== 1) fail(`${name}: types ${[...types]}`);
    if ((await tab.locator("#count").textContent()).startsWith(total + " ")) fail(`${name}: nothing is left out`);
    const second = tab.locator("#rows tr:nth-child(2) button");
    const wanted = await second.textContent();
    await second.focus();
    await tab.keyboard.press("Enter");
    if ((await tab.locator("#name").textContent()) !== wanted) fail(`${name}: ${wanted} is not shown`);
    if ((await tab.evaluate(() => document.activeElement.textContent)) !== wanted) fail(`${name}: the focus is lost`);
    await tab.locator("#log").check();
    await tab.locator("#zones button").last().press("Enter");
    // The last candidate has blocks, the first has not.
    if ((await tab.locator("#blocks canvas").count()) !== 2) fail(`${name}: the blocks are not drawn`);
    await tab.locator("#zones button").first().press("Enter");
    if (await tab.locator("#blocks").isVisible()) fail(`${name}: blocks without scales`);
    await tab.locator("#zones button").last().press("Enter");
    await tab.locator("#theme").click();
    await tab.locator("#filter").fill("no such tensor");
    if ((await cells(1)).length) fail(`${name}: rows that do not match`);
    await tab.locator("#filter").fill("");
    await tab.screenshot({ path: `${folder}/${name}-selected.png`, fullPage: true });
    await tab.close();
  }
}

async function many() {
  const tab = await open("many", "many", DESKTOP, "light");
  const shown = await tab.evaluate(() => Math.round(performance.getEntriesByType("navigation")[0].loadEventEnd));
  const rows = await tab.locator("#count").textContent();
  const sorted = [await timed(tab, "#head th:first-child button"), await timed(tab, "#head th:nth-child(4) button")];
  const filtered = [await timed(tab, "#filter", "layer.49"), await timed(tab, "#filter", "")];
  const next = await timed(tab, "#after");
  const chosen = await timed(tab, "#rows tr:nth-child(9) button");
  console.log(`${rows}: shown after ${shown} ms, sorted in ${sorted}, filtered in ${filtered}, next page in ${next}, a tensor in ${chosen}`);
  await tab.close();
}

async function convert() {
  for (const [name, viewport, colorScheme] of [["desktop", DESKTOP, "light"], ["dark", DESKTOP, "dark"], ["phone", PHONE, "light"]]) {
    const tab = await open("convert", `convert ${name}`, viewport, colorScheme);
    const cells = (column) => tab.locator(`#rows td:nth-child(${column})`).allTextContents();
    if ((await cells(1)).length !== 100) fail(`convert ${name}: ${(await cells(1)).length} rows, want 100`);
    await tab.screenshot({ path: `${folder}/convert-${name}.png` });
    await tab.locator("#filter").fill("LAYER7/matmul");
    if ((await cells(1)).join() !== "/layer7/MatMul" || (await cells(2)).join() !== "MatMul") fail(`convert ${name}: not filtered`);
    await tab.locator("#filter").fill("");
    await tab.locator("#show").selectOption({ label: "with a Cast behind" });
    if ((await cells(5)).some((text) => !text.includes("Cast "))) fail(`convert ${name}: rows without a Cast`);
    await tab.locator("#show").selectOption({ label: "all" });
    await tab.locator("#map").focus();
    await tab.keyboard.press("ArrowRight");
    await tab.keyboard.press("PageDown");
    if (!(await tab.locator("#page").textContent()).startsWith("page 2 of")) fail(`convert ${name}: the keyboard does not turn the page`);
    if ((await tab.locator("tr.chosen").count()) !== 1) fail(`convert ${name}: no row is chosen`);
    await tab.locator("#theme").click();
    const [filtered, next] = [await timed(tab, "#filter", "layer49"), await timed(tab, "#after")];
    console.log(`convert ${name}: ${await tab.locator("#count").textContent()}: filtered in ${filtered} ms, next page in ${next}`);
    await tab.close();
  }
}

async function notebook() {
  const tab = await open("notebook", "notebook", DESKTOP, "light");
  const page = tab.frameLocator("iframe");
  await page.locator("#filter").fill("bias");
  if ((await page.locator("#rows td:first-child").allTextContents()).some((text) => !text.includes("bias"))) fail("notebook: not filtered");
  await page.locator("#theme").click();
  if (!(await page.locator("#histogram canvas").count())) fail("notebook: no plot");
  await tab.screenshot({ path: `${folder}/notebook.png` });
  await tab.close();
}

async function explain() {
  for (const [name, viewport, colorScheme] of [["desktop", DESKTOP, "light"], ["dark", DESKTOP, "dark"], ["phone", PHONE, "light"]]) {
    for (const [file, sides] of [["explain", 2], ["explain-scaled", 6], ["explain-block", 4]]) {
      const one = await open(file, `${file} ${name}`, viewport, colorScheme);
      const shown = await one.locator("section.side").count();
      if (shown !== sides) fail(`${file} ${name}: ${shown} values, want ${sides}`);
      await one.screenshot({ path: `${folder}/${file}-${name}.png`, fullPage: true });
      await one.close();
    }
    const all = await open("explain-all", `explain --all ${name}`, viewport, colorScheme);
    const summaries = all.locator("summary");
    if ((await summaries.count()) !== Number(types)) fail(`explain --all ${name}: ${await summaries.count()} types, want ${types}`);
    await all.locator("#theme").focus();
    for (let step = 0; step < 5; step += 1) await all.keyboard.press("Tab");
    await all.keyboard.press("Enter");
    if ((await all.locator("details[open]").count()) !== 1) fail(`explain --all ${name}: the keyboard opens nothing`);
    if (await all.evaluate(() => document.documentElement.scrollWidth > innerWidth)) fail(`explain --all ${name}: too wide`);
    await all.screenshot({ path: `${folder}/explain-all-${name}.png`, fullPage: true });
    await all.close();
  }
}

try {
  await report();
  await many();
  await convert();
  await notebook();
  await explain();
} finally {
  await browser.close();
}
