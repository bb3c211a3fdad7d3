// Drives the page in Debian's Chromium: testbed/page starts this with a forsd to ask.
import { test as limited, before, after, afterEach } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { PAGE, CONTROL, SHOTS, LEAVES, SPINES } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const leaf = "Leaf002", port = Number(SPINES) + 1 + 3; // to the spine of lane 3
const hosts = Number(SPINES);

const test = (name, f) => limited(name, { timeout: 90_000 }, f);

let browser, page, errors, elsewhere;

const control = async (q) => {
  const r = await fetch(CONTROL + "/?" + new URLSearchParams(q));
  assert.ok(r.ok, await r.clone().text());
  return r.json();
};

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  const p = await context.newPage();
  p.on("console", (m) => { if (m.type() === "error") errors.push(m.text()); });
  p.on("pageerror", (e) => errors.push(String(e)));
  p.on("request", (r) => { if (!r.url().startsWith(PAGE)) elsewhere.push(r.url()); });
  return p;
}

const go = async (p, view) => {
  await p.goto(`${PAGE}/#/${view}`);
  await p.waitForFunction((name) => document.querySelector("main h1")?.textContent.toLowerCase() === name, view);
};

const shot = async (p, name) => { if (SHOTS) await p.screenshot({ path: `${SHOTS}/${name}.png` }); };

async function accessible(p, what) {
  // The check is run by the debugger, beside the page's own policy.
  await p.evaluate(axe + "; 0");
  const found = await p.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`));
  assert.deepEqual(found, [], what);
}

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  errors = []; elsewhere = [];
  page = await open();
});

after(async () => { await browser?.close(); });

afterEach(() => {
  assert.deepEqual(errors, [], "errors in the browser's console");
  assert.deepEqual(elsewhere, [], "requests to elsewhere");
});

test("the policy lets nothing in from elsewhere, and no script or style of the page's own text", async () => {
  const r = await fetch(PAGE + "/");
  const policy = r.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  let bytes = 0;
  for (const name of ["", ...(await r.text()).matchAll(/"\/(page\/[^"]+)"/g)].map((m) => Array.isArray(m) ? m[1] : m)) bytes += (await (await fetch(`${PAGE}/${name}`)).arrayBuffer()).byteLength;
  assert.ok(bytes < 300_000);
});

for (const view of ["now", "fabric", "plan", "history", "jobs"]) {
  test(`${view}: is drawn, and axe finds nothing, light and dark and on a phone`, async () => {
    for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: "dark" }, phone: { viewport: { width: 390, height: 800 } }, wall: { viewport: { width: 2560, height: 1440 } } })) {
      const p = await open(options);
      await go(p, view);
      await p.waitForFunction(() => !document.querySelector("#phase-text") || document.querySelector("#phase-text").textContent !== "");
      await accessible(p, `${view}, ${name}`);
      if (name === "light" || view === "fabric" && name === "dark") await shot(p, name === "light" ? view : view + "-dark");
      const wide = await p.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1);
      assert.ok(!wide || name === "phone" && view !== "now", `${view} is wider than the window (${name})`);
      await p.context().close();
    }
  });
}

test("a cable that is pulled shows within a second, without a reload", async () => {
  const now = await open();
  await go(now, "now");
  await go(page, "fabric");
  const cell = page.locator(`[aria-label^="${leaf} port ${port} "]`);
  await cell.waitFor();
  assert.equal(await cell.getAttribute("data-state"), "up");
  const begun = performance.now();
  await control({ do: "pull", node: leaf, port });
  await page.waitForSelector(`[aria-label^="${leaf} port ${port} "][data-state="missing"]`, { timeout: 20_000 });
  const cellAfter = performance.now() - begun;
  await now.waitForSelector('[data-code="cable-down"]', { timeout: 20_000 });
  const warningAfter = performance.now() - begun;
  await now.waitForFunction((what) => document.querySelector("#waterfall")?.previousElementSibling.textContent.includes(what), `${leaf} port ${port}`, { timeout: 20_000 });
  console.log(`cell ${Math.round(cellAfter)} ms, warning ${Math.round(warningAfter)} ms, last change ${Math.round(performance.now() - begun)} ms after the cable was pulled`);
  assert.match(await now.locator('[data-code="cable-down"]').textContent(), /What to do: Replace it/);
  await control({ do: "rest" });
  await shot(page, "fabric-cable");
  await shot(now, "now-cable");
  await control({ do: "plug", node: leaf, port });
  await page.waitForSelector(`[aria-label^="${leaf} port ${port} "][data-state="up"]`, { timeout: 30_000 });
  await control({ do: "rest" });
  await now.context().close();
});

test("a click tells what losing a cable, and a spine, would cost", async () => {
  await go(page, "fabric");
  await page.locator("[data-cell]").nth(2).click();
  await page.getByRole("button", { name: "What would losing it cost?" }).click();
  await page.waitForFunction(() => /Without this cable: \d+ phases/.test(document.querySelector("#about").textContent), null, { timeout: 20_000 });
  await shot(page, "fabric-whatif");
  await page.getByRole("button", { name: "Spine003", exact: true }).click();
  await page.getByRole("button", { name: "What would losing it cost?" }).click();
  await page.waitForFunction(() => /Without this spine: \d+ phases/.test(document.querySelector("#about").textContent), null, { timeout: 20_000 });
});

test("an operator drains a cable with a preview, and gives it back", async () => {
  await go(page, "fabric");
  const cell = page.locator(`[aria-label^="${leaf} port ${port} "]`);
  await cell.click();
  await page.getByRole("button", { name: "Drain …" }).click();
  await page.waitForSelector("dialog[open]");
  assert.match(await page.locator("dialog").textContent(), /The plan has \d+ phases without it/);
  await shot(page, "drain");
  await page.getByRole("button", { name: "Drain", exact: true }).click();
  await page.waitForSelector(`[aria-label^="${leaf} port ${port} "][data-state="drained"]`, { timeout: 20_000 });
  await page.getByRole("button", { name: "Close" }).click();
  await control({ do: "rest" });
  await page.locator(`[aria-label^="${leaf} port ${port} "]`).click();
  await page.waitForSelector("#drain");
  await page.getByRole("button", { name: "Undrain" }).click();
  await page.waitForSelector(`[aria-label^="${leaf} port ${port} "][data-state="up"]`, { timeout: 30_000 });
  await page.getByRole("button", { name: "Close" }).click();
  await control({ do: "rest" });
});

test("the plan is played through, and the way of a transfer shown", async () => {
  await go(page, "plan");
  const text = () => page.locator("#phase-text").textContent();
  await page.waitForFunction(() => /busiest link carries 1\./.test(document.querySelector("#phase-text")?.textContent));
  const first = await text();
  await page.locator("#phase").fill("3");
  await page.waitForFunction((was) => document.querySelector("#phase-text").textContent !== was, first);
  assert.match(await text(), /Phase 3 of/);
  await page.locator('[name="src"]').fill("Hca0000");
  await page.locator('[name="dst"]').fill(`Hca${String(2 * hosts + 1).padStart(4, "0")}`);
  await page.getByRole("button", { name: "Show the way" }).click();
  await page.waitForSelector("#way table");
  assert.equal(await page.locator("#way tbody tr").count(), 3);
});

test("the history has what happened, and epochs are compared", async () => {
  await go(page, "history");
  await page.waitForSelector('#entries [data-kind="link"]');
  await page.locator("#kind").selectOption("order");
  await page.waitForFunction(() => [...document.querySelectorAll("#entries tr")].every((r) => r.dataset.kind === "order") && document.querySelector("#entries tr"));
  assert.match(await page.locator("#entries").textContent(), /drain/);
  await page.locator("#compare").click();
  await page.waitForFunction(() => /ordered pairs of servers another/.test(document.querySelector("#compared").textContent));
});

test("a viewer is shown no orders, and refused one", async () => {
  const secret = await control({ do: "token" });
  const p = await open();
  await p.addInitScript((t) => sessionStorage.setItem("token", t), secret);
  await go(p, "now");
  assert.match(await p.locator("#who").textContent(), /viewer/);
  assert.equal(await p.getByRole("button", { name: "Reroute …" }).count(), 0);
  const status = await p.evaluate(async () => (await fetch("/v1/reroute", { method: "POST", headers: { Authorization: "Bearer " + sessionStorage.getItem("token") } })).status);
  assert.equal(status, 403);
  errors = errors.filter((e) => !/403/.test(e)); // the browser reports the refusal that was asked for
  await p.context().close();
});

test("all of it works by the keyboard", async () => {
  const p = await open();
  await go(p, "now");
  await p.keyboard.press("Tab");
  assert.equal(await p.evaluate(() => document.activeElement.className), "skip");
  for (let i = 0; i < 10 && await p.evaluate(() => document.activeElement.hash) !== "#/fabric"; i++) await p.keyboard.press("Tab");
  await p.keyboard.press("Enter");
  await p.waitForSelector("#matrix");
  for (let i = 0; i < 200 && !await p.evaluate(() => document.activeElement.dataset.cell); i++) await p.keyboard.press("Tab");
  await p.keyboard.press("ArrowDown");
  await p.keyboard.press("ArrowRight");
  await p.keyboard.press("Enter");
  await p.waitForFunction(() => /Leaf001 port/.test(document.querySelector("#about").textContent));
  for (let i = 0; i < 20 && !/cost/.test(await p.evaluate(() => document.activeElement.textContent)); i++) await p.keyboard.press("Tab");
  await p.keyboard.press("Enter");
  await p.waitForFunction(() => /Without this cable: \d+ phases/.test(document.querySelector("#about").textContent), null, { timeout: 20_000 });
  await p.context().close();
});

test("a connection that is lost is said to be, and comes back", async () => {
  await go(page, "now");
  const was = errors;
  errors = [];
  await control({ do: "kill" });
  await page.waitForFunction(() => /No connection/.test(document.querySelector("#link").textContent), null, { timeout: 20_000 });
  await shot(page, "lost");
  await control({ do: "start" });
  await page.waitForFunction(() => /Connected again/.test(document.querySelector("#link").textContent), null, { timeout: 30_000 });
  await page.waitForFunction(() => !document.querySelector("main").classList.contains("stale"), null, { timeout: 30_000 });
  await control({ do: "rest" });
  errors = was.concat(errors.filter((e) => !/net::ERR_|Failed to fetch/.test(e))); // the browser reports each attempt
});
