// Drives the page on a large fabric: what is drawn and asked for stays bounded, search,
// names, zoom and keyboard work, and a change shows as soon.
import assert from "node:assert/strict";
import { test, open, go, shot, look, control, accessible, narrow, text, find, state, watched, pulled, LEAVES, SPINES } from "./lib.mjs";

const leaves = Number(LEAVES), spines = Number(SPINES), leaf = `Leaf0${leaves - 3}`, lane = spines - 2, port = spines + 1 + lane;
const cable = `${leaf} port ${port} – Spine0${lane} port ${leaves - 2}`;

const elements = (p) => p.evaluate(() => document.querySelectorAll("*").length);

// frames has something done at each of so many frames, and says how long these were, and
// how long the matrix took of them.
async function frames(p, marks, what, body) {
  marks.length = 0;
  const gaps = await p.evaluate(async (source) => {
    const step = new Function("i", `return (${source})(i)`), out = [];
    let last = await new Promise(requestAnimationFrame);
    for (let i = 0; i < 60; i++) {
      step(i);
      const t = await new Promise(requestAnimationFrame);
      out.push(t - last);
      last = t;
    }
    return out;
  }, body);
  await p.waitForTimeout(100);
  const drawn = marks.filter((m) => m.name === "forsd-matrix").map((m) => m.took), at = (list, q) => [...list].sort((a, b) => a - b)[Math.floor(q * (list.length - 1))].toFixed(1);
  assert.ok(drawn.length > 5, `${what} drew ${drawn.length} times`);
  console.log(`${leaves} × ${spines}, ${what}: frames ${at(gaps, 0.5)} ms (median), ${at(gaps, 0.95)} ms (95 %); drawing the matrix ${at(drawn, 0.5)} ms, ${at(drawn, 0.95)} ms`);
}

test("a large fabric is drawn whole, with few elements, and scrolls and zooms", async () => {
  const page = await open(), marks = [];
  await watched(page, marks);
  const begun = Date.now();
  await go(page, "fabric");
  await text(page, "#legend", new RegExp(`${leaves * spines} up`));
  const shown = Date.now() - begun, first = await elements(page);
  assert.ok(first < 300, `${first} elements for ${leaves * spines} cables`);
  await accessible(page, "a large fabric");
  await look(page, "large");
  const inside = await page.evaluate(() => { const b = document.querySelector(".matrix"); return b.scrollWidth - b.clientWidth; });
  assert.ok(inside <= 0, "fitted, it is seen whole");
  await page.evaluate(() => document.querySelector(".cursor").focus());
  for (let i = 0; i < 8; i++) await page.keyboard.press("+");
  // The policy forbids code of text, the debugger's is beside it.
  await frames(page, marks, "scrolled", "(i) => document.querySelector('.matrix').scrollTo(i * 20, i * 30)");
  await frames(page, marks, "zoomed", "(i) => [...document.querySelectorAll('.together button')][i % 2].click()");
  const many = await elements(page);
  assert.ok(many < 300, `${many} elements after zooming`);
  console.log(`${leaves} × ${spines}: shown ${shown} ms after it was opened, ${first} elements`);
  const phone = await open({ viewport: { width: 390, height: 800 } });
  await go(phone, "fabric");
  await narrow(phone, "a large fabric on a phone");
  await page.context().close();
  await phone.context().close();
});

test("search, names and keyboard on a large fabric", async () => {
  const page = await open();
  await go(page, "fabric");
  const host = `Hca${leaves * spines - 3}`;
  await find(page, host);
  await text(page, "#about h2", new RegExp(`^Host ${host}`));
  await text(page, "#cost", /^Without this host/, 60_000);
  await find(page, `Spine0${lane}`);
  await text(page, "#about h2", new RegExp(`^Spine Spine0${lane}`));
  await page.evaluate(() => document.querySelector(".cursor").focus());
  const said = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  // More leaves than spines are across, and the spines down.
  const across = leaves > spines, [last, first] = across ? [`spine Spine0${spines - 1}`, "leaf Leaf000"] : [`leaf Leaf0${leaves - 1}`, "spine Spine000"];
  for (const key of ["ArrowRight", "ArrowDown", "Control+End", "Home"]) await page.keyboard.press(key);
  assert.equal(await said(), last);
  await page.keyboard.press("End");
  assert.equal(await said(), `Leaf0${leaves - 1} port ${2 * spines} – Spine0${spines - 1} port ${leaves}: up`);
  await page.keyboard.press("PageUp");
  assert.match(await said(), /^Leaf0\d\d port \d+ – Spine0\d\d port \d+: up$/);
  for (const key of ["Control+Home", "ArrowUp"]) await page.keyboard.press(key);
  assert.equal(await said(), first);
  await page.keyboard.press("ArrowDown");
  const box = await page.evaluate(() => { const b = document.activeElement.getBoundingClientRect(), m = document.querySelector(".matrix").getBoundingClientRect(); return b.right <= m.right + 1 && b.bottom <= m.bottom + 1 && b.top >= m.top; });
  assert.ok(box, "the cell that the keyboard is at is seen");
  await page.context().close();
});

test("a cable that is pulled on a large fabric", async () => {
  const fabric = await open(), now = await open(), marks = [];
  for (const p of [fabric, now]) await watched(p, marks);
  await go(now, "now");
  await go(fabric, "fabric");
  await find(fabric, `${leaf}/${port}`);
  await text(fabric, "#cost", /^Without this cable/, 60_000);
  await pulled(fabric, now, marks, leaf, port, cable);
  await shot(fabric, "large");
  await control({ do: "plug", node: leaf, port });
  await state(fabric, "up");
  await control({ do: "rest" });
  await now.context().close();
  await fabric.context().close();
});

test("the plan of a large fabric is played", async () => {
  const page = await open(), marks = [];
  await watched(page, marks);
  await go(page, "plan");
  await text(page, "#pinned-text", new RegExp(`^Phase 0 of \\d+: ${leaves * spines} transfers, .* busiest carries 1\\.`));
  await page.locator("#speed").selectOption("100");
  await page.getByRole("button", { name: "Play" }).click();
  const begun = Date.now();
  await text(page, "#pinned-text", /^Phase 1\d of/);
  console.log(`${leaves} × ${spines}: ten phases played in ${Date.now() - begun} ms`);
  const n = await elements(page);
  assert.ok(n < 300 + leaves * spines, `${n} elements`);
  await look(page, "large-plan");
  await page.context().close();
});
