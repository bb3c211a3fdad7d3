// What the tests of the page have in common: a browser, and what it must not do.
import { test as limited, before, after, afterEach } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const { PAGE, CONTROL, SHOTS, LOOKS, LEAVES, SPINES } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const test = (name, f) => limited(name, { timeout: 120_000 }, f);

// noise is what the browser has complained about, and asked of others than forsd.
export const noise = { errors: [], elsewhere: [] };

let browser;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});

after(async () => { await browser?.close(); });

afterEach(() => {
  const heard = [...noise.errors.splice(0).map((e) => `the browser's console: ${e.slice(0, 300)}`), ...noise.elsewhere.splice(0).map((u) => `a request to elsewhere: ${u}`)];
  assert.ok(!heard.length, heard.join("\n"));
});

// control has the bench do something to the fabric or to forsd.
export async function control(q) {
  const r = await fetch(CONTROL + "/?" + new URLSearchParams(q));
  assert.ok(r.ok, await r.clone().text());
  return r.json();
}

export async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  const p = await context.newPage();
  p.on("console", (m) => { if (m.type() === "error") noise.errors.push(`${m.text()} ${m.location().url}`); });
  p.on("response", async (r) => { if (r.status() >= 400) console.log(`${r.request().method()} ${r.url()}: ${r.status()} ${await r.text().catch(() => "")}`); });
  p.on("pageerror", (e) => noise.errors.push(String(e)));
  p.on("request", (r) => { if (!r.url().startsWith(PAGE)) noise.elsewhere.push(r.url()); });
  return p;
}

export async function go(p, view) {
  await p.goto(`${PAGE}/#/${view}`);
  await p.waitForFunction((name) => document.querySelector("main h1")?.textContent.toLowerCase() === name, view.split("/")[0]);
}

// look is a picture of a view that no document shows.
export const look = async (p, name) => { if (LOOKS) await p.screenshot({ path: `${LOOKS}/${name}.png` }); };

// shot is a picture for the documents.
export const shot = async (p, name) => { await p.evaluate(() => scrollTo(0, 0)); if (SHOTS) await p.screenshot({ path: `${SHOTS}/page-${name}.png` }); };

// accessible has axe look at the page, beside the page's own policy.
export async function accessible(p, what) {
  await p.evaluate(axe + "; 0");
  const found = await p.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`));
  assert.deepEqual(found, [], what);
}

// narrow holds that nothing is wider than the window.
export async function narrow(p, what) {
  const wide = await p.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${what}: ${wide} pixels wider than the window`);
}

// cell is the place on the screen of a cell of a matrix, and its colour there.
export const cell = (p, row, col, id = "matrix") => p.evaluate(async ([row, col, id]) => {
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame); // what was asked for is drawn
  const box = document.querySelector(`#${id} .matrix`), canvas = box.querySelector("canvas"), at = canvas.getBoundingClientRect();
  const [turned, size, left, top] = box.dataset.cells.split(" ").map(Number); // without the gaps between groups
  if (turned) [row, col] = [col, row];
  const x = at.x + left + (col + 0.5) * size - box.scrollLeft, y = at.y + top + (row + 0.5) * size - box.scrollTop;
  const ratio = canvas.width / at.width, pixel = canvas.getContext("2d").getImageData((x - at.x - size * 0.35) * ratio, (y - at.y) * ratio, 1, 1).data;
  return { x, y, colour: `${pixel[0]},${pixel[1]},${pixel[2]}` };
}, [row, col, id]);

// tab goes on by Tab until the focus is on what is looked for.
export async function tab(p, found, most = 60) {
  const passed = [];
  for (let i = 0; i < most; i++) {
    await p.keyboard.press("Tab");
    if (await p.evaluate(found)) return;
    passed.push(await p.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.textContent.slice(0, 20)));
  }
  assert.fail(`${most} times Tab, and not there: ${found}: ${passed.join(", ")}`);
}

// text waits until an element has a text.
export const text = (p, selector, pattern, timeout = 30_000) => p.waitForFunction(([s, r]) => new RegExp(r).test(document.querySelector(s)?.textContent || ""), [selector, pattern.source], { timeout });

export const find = async (p, what) => { await p.locator("#find").fill(what); await p.keyboard.press("Enter"); };

export const state = (p, is) => text(p, "#about .state", new RegExp(` ${is}: `));

export async function choose(p, row, col) {
  const at = await cell(p, row, col);
  await p.mouse.click(at.x, at.y);
}

// watched hands on the marks and measures that a page makes, with the time of the machine.
export async function watched(p, marks) {
  await p.exposeFunction("marked", (list) => marks.push(...list));
  await p.addInitScript(() => new PerformanceObserver((l) => window.marked?.(l.getEntries().map((e) => ({ name: e.name, detail: e.detail, took: e.duration, at: performance.timeOrigin + e.startTime })))).observe({ entryTypes: ["mark", "measure"] }));
}

// pulled has a cable pulled while two pages are open, the fabric and the first view, and
// says where the time goes until both show it. The cable is chosen on the fabric's page.
export async function pulled(fabric, now, marks, node, port, cable) {
  marks.length = 0;
  for (const p of [fabric, now]) await p.evaluate(() => { window.loaded = "once"; });
  const begun = Date.now();
  await control({ do: "pull", node, port });
  const console_ = Date.now();
  await state(fabric, "missing");
  const shown = Date.now();
  await text(now, "#warnings [data-code=cable-down]", new RegExp(cable));
  await text(now, "#what", new RegExp(`${cable} went down`));
  const warned = Date.now();
  for (const p of [fabric, now]) assert.equal(await p.evaluate(() => window.loaded), "once", "it was loaded again");
  await control({ do: "rest" });
  const { last_event: e } = await (await fetch(PAGE + "/v1/status")).json(), seen = Date.parse(e.seen_at);
  const first = (name, detail) => marks.find((m) => m.name === name && (!detail || m.detail === detail))?.at;
  const at = (t) => `${Math.round(t - begun)} ms`;
  console.log(`after the cable was pulled (the simulation's console took ${at(console_)}): forsd saw it ${at(seen)}, published ${at(seen + 1000 * e.published_seconds)}, browser told ${at(first("forsd-event", "link"))}, cell ${at(shown)}, warning and last change ${at(warned)}, programmed ${at(seen + 1000 * e.programmed_seconds)}, read back ${at(seen + 1000 * e.read_back_seconds)}`);
  console.log(`of that the page: event to cell ${(first("forsd-told", "link") - first("forsd-event", "link")).toFixed(1)} ms of script, first event to all asked for and drawn anew ${Math.round(first("forsd-drawn") - first("forsd-event"))} ms`);
}
