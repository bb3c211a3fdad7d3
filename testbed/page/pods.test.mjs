// Drives the page on a fat tree of three levels: 4 pods of 3 leaves and 2 mids, 2 planes of
// 2 tops.
import assert from "node:assert/strict";
import { test, open, go, shot, look, control, accessible, narrow, cell, text, find, state, choose, watched, pulled, noise } from "./lib.mjs";

let page;

test("pods by planes: what a cell stands for, and what losing it would cost", async () => {
  page = await open();
  await go(page, "fabric");
  assert.equal(await page.locator("#matrix .inner").getAttribute("aria-label"), "Cables: pods by planes");
  assert.deepEqual(await page.locator("#matrix .inner").evaluate((e) => [e.ariaRowCount, e.ariaColCount]), ["5", "3"]);
  await page.evaluate(() => document.querySelector(".cursor").focus());
  await page.keyboard.press("ArrowDown");
  assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^pod 1, plane 0: Mid002: 3 of 3 cables to leaves up, 2 of 2 to tops$/);
  await page.keyboard.press("Enter");
  await text(page, "#about h2", /^Pod 1, plane 0/);
  await text(page, "#cost", /^Without Mid002: \d+ phases/);
  await accessible(page, "pods by planes");
  await shot(page, "pods");
  for (const [which, rows] of [["leaves", 13], ["mids", 9]]) {
    await page.locator("#which").selectOption(which);
    await page.waitForFunction((n) => document.querySelector("#matrix .inner").ariaRowCount === String(n), rows);
  }
  for (const options of [{ viewport: { width: 390, height: 800 } }, { viewport: { width: 3840, height: 2160 } }]) {
    const p = await open(options);
    for (const view of ["fabric", "plan"]) { await go(p, view); await narrow(p, view); }
    await p.context().close();
  }
});

test("cables of leaves and of mids that are pulled show in their cells, and in those of their pods", async () => {
  const now = await open(), fabric = await open(), marks = [];
  for (const p of [now, fabric]) await watched(p, marks);
  await go(now, "now");
  await go(fabric, "fabric");
  for (const [node, port, cable, row] of [["Leaf004", 6, "Leaf004 port 6 – Mid003 port 2", 1], ["Mid005", 4, "Mid005 port 4 – Top002 port 3", 2]]) {
    await find(fabric, `${node}/${port}`);
    await text(fabric, "#about h2", new RegExp(cable));
    await text(fabric, "#cost", /^Without this cable/);
    await pulled(fabric, now, marks, node, port, cable);
    await fabric.locator("#which").selectOption("pods");
    const healthy = await cell(fabric, 0, 0), hurt = await cell(fabric, row, 1);
    assert.notEqual(hurt.colour, healthy.colour, cable);
    await choose(fabric, row, 1);
    await text(fabric, "#about", /1 of 5 cables/);
    await text(fabric, "#cost", /^Without Mid00\d: |share no lane/); // what is left may be too little to plan on
    noise.errors = noise.errors.filter((e) => !/409 .*whatif/.test(e));
    await find(fabric, `${node}/${port}`);
    await control({ do: "plug", node, port });
    await state(fabric, "up");
    await control({ do: "rest" });
  }
  await now.context().close();
  await fabric.context().close();
});

test("a top is drained with a preview, and given back", async () => {
  await go(page, "fabric");
  await find(page, "Top001");
  await text(page, "#about h2", /^Top Top001/);
  for (const [order, yes, said] of [["Drain …", "Drain", /is being drained/], ["Undrain …", "Undrain", /goes back/]]) {
    await page.getByRole("button", { name: order, exact: true }).click();
    await text(page, "dialog", /The plan would have \d+ phases/);
    await page.getByRole("button", { name: yes, exact: true }).click();
    await text(page, "dialog", said);
    await page.getByRole("button", { name: "Close", exact: true }).click();
    if (yes === "Drain") await text(page, "#drain", /safe to pull since/);
    await control({ do: "rest" });
  }
  await text(page, "#legend", /40 up/);
});

test("the plan: load of the leaves' cables by plane, and the way over a top", async () => {
  await go(page, "plan");
  for (const plan of ["pinned", "base"]) await text(page, `#${plan}-text`, /Phase \d+ of \d+: \d+ transfers, \d+ within a leaf; \d+ links in use, the busiest carries \d/);
  await page.locator("[name=src]").fill("Hca0000");
  await page.locator("[name=dst]").fill("Hca0040");
  await page.getByRole("button", { name: "Show the way" }).click();
  await page.waitForSelector("#way table");
  assert.equal(await page.locator("#way tbody tr").count(), 5);
  await accessible(page, "the plan of three levels");
  await look(page, "pods-plan");
});
