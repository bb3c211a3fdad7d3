// Drives the page while cables are in every state that a cable can have, on a fat tree of two
// levels of which a cable is degraded from the start.
import assert from "node:assert/strict";
import { test, open, go, shot, look, control, accessible, cell, text, find, state, PAGE, SPINES } from "./lib.mjs";

const first = Number(SPINES) + 1; // port of lane 0
const button = (p, name) => p.getByRole("button", { name, exact: true });
const status = async () => (await fetch(PAGE + "/v1/status")).json();

// errors has a cable count symbol errors until it is in a state.
async function errors(p, leaf, lane, is) {
  await find(p, `Leaf00${leaf}/${first + lane}`);
  await control({ do: "count", node: `Leaf00${leaf}`, port: first + lane });
  await state(p, is);
}

test("every state of a cable is shown by colour, sign and words, with what can be ordered", async () => {
  const page = await open();
  await go(page, "fabric");
  const up = (await cell(page, 0, 0)).colour;
  await find(page, `Leaf000/${2 * Number(SPINES)}`);
  await state(page, "degraded");
  await text(page, "#about", /active below its width or speed/);

  // Errors take a cable out, which costs phases beside the other one of its leaf; the next one
  // there stays, and says why.
  const before = (await status()).phases;
  await errors(page, 0, 1, "isolated");
  await text(page, "#about", /link\s*active, and kept out of the plan.*why.*symbol errors/);
  await text(page, "#about", /Decisions.*isolated/);
  await errors(page, 0, 4, "suspect");
  await text(page, "#about", /stays in the plan.*1 cable.* of its leaf/);

  // A drained one elsewhere: what giving it back is said to lead to is what it leads to.
  await find(page, `Leaf003/${first + 3}`);
  await button(page, "Drain …").click();
  await text(page, "dialog", /The plan would have \d+ phases/);
  await button(page, "Drain").click();
  await text(page, "dialog", /is being drained/);
  await button(page, "Close").click();
  await state(page, "drained");
  await text(page, "#drain", /safe to pull since/);
  await text(page, "#about", /link\s*active, and kept out of the plan/);
  await control({ do: "rest" });
  await button(page, "Undrain …").click();
  await text(page, "dialog", /The plan would have \d+ phases/);
  const said = Number((await page.locator("dialog").textContent()).match(/would have (\d+) phases/)[1]);
  await look(page, "undrain");
  await button(page, "Undrain").click();
  await text(page, "dialog", /goes back/);
  await button(page, "Close").click();
  await state(page, "up");
  await control({ do: "rest" });
  assert.equal((await status()).phases, said);
  assert.ok(said > before, `${said} phases after ${before}: the isolated cable costs some`);
  await find(page, `Leaf000/${first + 1}`);
  await state(page, "isolated");

  // One is put back by an operator, and is on probation then.
  await errors(page, 2, 2, "isolated");
  await button(page, "Put it back …").click();
  await text(page, "dialog", /carries traffic again, and is watched. It was taken out: .*symbol errors/);
  await button(page, "Put it back").click();
  await text(page, "dialog", /Done|probation/);
  await button(page, "Close").click();
  await state(page, "probation");

  // One bounces, and one stays down.
  await find(page, `Leaf004/${first + 5}`);
  for (let n = 0; n < 2; n++) {
    await text(page, "#cost", /^Without this cable/);
    await control({ do: "pull", node: "Leaf004", port: first + 5 });
    await state(page, "missing");
    await control({ do: "plug", node: "Leaf004", port: first + 5 });
    await state(page, n ? "held" : "up");
  }
  await find(page, `Leaf003/${first + 3}`);
  await button(page, "Drain …").click();
  await text(page, "dialog", /The plan would have/);
  await button(page, "Drain").click();
  await text(page, "dialog", /is being drained/);
  await button(page, "Close").click();
  await state(page, "drained");
  await find(page, `Leaf005/${first + 6}`);
  await text(page, "#cost", /^Without this cable/);
  await control({ do: "pull", node: "Leaf005", port: first + 6 });
  await state(page, "missing");
  await control({ do: "rest" });
  await page.locator("#find").fill("");
  const colours = new Set([up]);
  for (const [is, leaf, lane] of [["degraded", 0, 7], ["isolated", 0, 1], ["suspect", 0, 4], ["probation", 2, 2], ["drained", 3, 3], ["held", 4, 5], ["missing", 5, 6]]) {
    await text(page, `#legend [data-count=${is}]`, new RegExp(` 1 ${is}$`));
    colours.add((await cell(page, leaf, lane)).colour);
  }
  assert.equal(colours.size, 8, "two states have the same colour");
  assert.equal(await page.locator("#bad tbody tr").count(), 7);
  await accessible(page, "cables in every state");
  await shot(page, "states");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "cables in every state, dark");
  await look(page, "states-dark");
  await page.context().close();
});
