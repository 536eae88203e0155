// Opens a page of `onnx-cast report` in headless Chromium as scripts/check_report.sh says: sorts, filters and selects by the
// keyboard, in light and dark, at the widths of a desktop and a phone; any message on the console is a failure.
import { createRequire } from "node:module";

const [page, folder, modules] = process.argv.slice(2);
const { chromium } = createRequire(modules + "/")("playwright-core");

const fail = (text) => { throw new Error(text); };
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  for (const [name, width, height, colorScheme] of [["desktop", 1200, 1000, "light"], ["dark", 1200, 1000, "dark"], ["phone", 390, 844, "light"]]) {
    const tab = await browser.newPage({ viewport: { width, height }, colorScheme });
    tab.on("console", (message) => fail(`${name}: console: ${message.text()}`));
    tab.on("pageerror", (error) => fail(`${name}: ${error}`));
    tab.on("request", (request) => request.url().startsWith("http") && fail(`${name}: asks for ${request.url()}`));
    const began = Date.now();
    await tab.goto("file://" + page);
    console.log(`${name}: shown after ${Date.now() - began} ms`);
    if (await tab.evaluate(() => document.documentElement.scrollWidth > innerWidth)) fail(`${name}: wider than the window`);
    const cells = (column) => tab.locator(`#rows td:nth-child(${column})`).allTextContents();
    const grades = ["poor", "care", "fine", "exact"];
    const places = (await cells(3)).map((grade) => grades.indexOf(grade));
    if (!places.length || places.some((place, index) => index && place < places[index - 1])) fail(`${name}: not the worst first`);
    if (width < 640) await tab.locator("#detail").evaluate((detail) => detail.scrollIntoView());
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
    await tab.locator("#theme").click();
    await tab.locator("#filter").fill("no such tensor");
    if ((await cells(1)).length) fail(`${name}: rows that do not match`);
    await tab.locator("#filter").fill("");
    await tab.screenshot({ path: `${folder}/${name}-selected.png`, fullPage: true });
    const start = Date.now();
    await tab.locator("#head button").first().click();
    console.log(`${name}: sorted in ${Date.now() - start} ms`);
    await tab.close();
  }
} finally {
  await browser.close();
}
