// Drives the page in Debian's Chromium: testbed/page starts this with a forsd to ask, beside
// OpenSM on a fat tree of two levels.
import assert from "node:assert/strict";
import { test, open, go, shot, look, control, accessible, narrow, cell, tab, text, find, state, choose, watched, pulled, noise, PAGE, SPINES } from "./lib.mjs";

const views = ["now", "fabric", "plan", "history", "jobs"];
const leaf = "Leaf002", lane = 3, port = Number(SPINES) + 1 + lane, cable = `${leaf} port ${port} – Spine003 port 3`;
const host = (n) => `Hca${String(n).padStart(4, "0")}`;
const hosts = Number(SPINES); // on a leaf

const looks = { light: {}, dark: { colorScheme: "dark" }, phone: { viewport: { width: 390, height: 800 } }, wall: { viewport: { width: 3840, height: 2160 } } };

const button = (p, name) => p.getByRole("button", { name, exact: true });

let page;

test("the policy lets in no script or style of the page's own text, and all of it is small", async () => {
  page = await open();
  let bytes = 0, files = 0;
  const seen = await page.context().newCDPSession(page);
  await seen.send("Network.enable");
  const names = new Map();
  seen.on("Network.responseReceived", (e) => names.set(e.requestId, e.response.url));
  seen.on("Network.loadingFinished", (e) => { if (!names.get(e.requestId).includes("/v1/")) { bytes += e.encodedDataLength; files++; } });
  const r = await page.goto(PAGE + "/");
  await page.waitForSelector("main h1");
  const policy = r.headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  await page.waitForTimeout(200);
  console.log(`${files} files, ${bytes} bytes over the wire`);
  assert.ok(files >= 12 && bytes < 300_000, `${files} files, ${bytes} bytes`);
});

for (const view of views) {
  test(`${view}: axe finds nothing and nothing is too wide, light and dark, on a phone and on a wall`, async () => {
    for (const [name, options] of Object.entries(looks)) {
      const p = await open(options);
      await go(p, view);
      assert.match(await p.title(), /– plane-3$/);
      if (view === "plan") await text(p, "#pinned-text", /busiest carries/);
      if (view === "fabric") { await find(p, `${leaf}/${port}`); if (name !== "wall") await text(p, "#cost", /^Without/); }
      if (name !== "wall") await accessible(p, `${view}, ${name}`);
      await narrow(p, `${view}, ${name}`);
      await look(p, `${view}-${name}`);
      await p.context().close();
    }
  });
}

test("a cable that is pulled shows within a second, without a reload", async () => {
  const now = await open(), marks = [];
  for (const p of [now, page]) await watched(p, marks);
  await go(now, "now");
  await page.reload();
  await go(page, "fabric");
  await find(page, `${leaf}/${port}`);
  await text(page, "#cost", /^Without this cable/);
  const before = await cell(page, 2, lane);
  await pulled(page, now, marks, leaf, port, cable);
  assert.notEqual((await cell(page, 2, lane)).colour, before.colour, "the cell has the colour of a cable that is up");
  await page.locator(`#bad button:text-is("${cable}")`).waitFor();
  assert.match(await now.locator("[data-code=cable-down]").textContent(), /What to do: Replace it/);
  await text(now, "#waterfall", /read back.*ms/);
  await shot(now, "now");
  await now.locator("[data-code=cable-down] a", { hasText: leaf }).click();
  await state(now, "missing");
  await control({ do: "plug", node: leaf, port });
  await state(page, "up");
  await control({ do: "rest" });
  await now.context().close();
});

test("a click tells what losing a cable, a switch, a host would cost", async () => {
  await go(page, "fabric");
  await choose(page, 1, 2);
  await text(page, "#about h2", /^Cable Leaf001 port \d+ – Spine002/);
  await text(page, "#cost", /^Without this cable: \d+ phases \(bound \d+\)/);
  await shot(page, "fabric-whatif");
  await find(page, "Spine003");
  await text(page, "#about h2", /^Spine Spine003/);
  await text(page, "#cost", /^Without this spine: \d+ phases/);
  await find(page, "Leaf004");
  await text(page, "#about h3", /Hosts \(\d+\)/);
  await button(page, host(4 * hosts + 1)).click();
  await text(page, "#about h2", new RegExp(`^Host ${host(4 * hosts + 1)}`));
  await text(page, "#cost", /^Without this host: \d+ phases.* 1 server is lost/);
});

test("errors and load are shown by colour, and a key says what it means", async () => {
  await go(page, "fabric");
  await page.locator("#find").fill("");
  await page.locator("#show").selectOption("load");
  await text(page, "#legend", /packets sent a second/);
  await page.locator("#show").selectOption("errors");
  await text(page, "#legend", /errors counted lately/);
  const before = await cell(page, 5, 1);
  await control({ do: "count", node: "Leaf005", port: Number(SPINES) + 2 });
  for (let n = 0; n < 40; n++) {
    const { cables } = await (await fetch(PAGE + "/v1/cables")).json();
    if (cables.some((c) => c.leaf.counted.symbol_errors >= 40)) break;
    await page.waitForTimeout(250);
  }
  await go(page, "now");
  await go(page, "fabric");
  await text(page, "#legend", /0 to 40 on a cable/);
  for (let n = 0; n < 40 && (await cell(page, 5, 1)).colour === before.colour; n++) await page.waitForTimeout(50);
  assert.notEqual((await cell(page, 5, 1)).colour, before.colour);
  await choose(page, 5, 1);
  await text(page, "#about", /symbol errors\s*40\s*0/);
  await page.locator("#show").selectOption("state");
  await text(page, "#legend", /\d+ up/);
});

test("an operator drains a cable with a preview, and gives it back with one", async () => {
  await go(page, "fabric");
  await find(page, `${leaf}/${port}`);
  await button(page, "Drain …").click();
  await text(page, "dialog", /The plan would have \d+ phases \(bound \d+\)/);
  await accessible(page, "preview of a drain");
  await page.locator("#reason").fill("to be cleaned");
  await shot(page, "drain");
  await button(page, "Drain").click();
  await text(page, "dialog", /is being drained/);
  await button(page, "Close").click();
  await state(page, "drained");
  await text(page, "#drain", /safe to pull since.*to be cleaned/);
  await control({ do: "rest" });
  await button(page, "Undrain …").click();
  await text(page, "dialog", /The plan would have \d+ phases \(bound \d+\)/);
  await button(page, "Undrain").click();
  await text(page, "dialog", /goes back/);
  await button(page, "Close").click();
  await state(page, "up");
  await control({ do: "rest" });
});

test("the plan is played through beside the one for base LIDs, and the way of a transfer shown", async () => {
  await go(page, "plan");
  await text(page, "#pinned-text", /busiest carries 1\./);
  await text(page, "#base-text", /Phase \d+ of \d+/);
  await page.locator("#phase").fill("3");
  await text(page, "#pinned-text", /^Phase 3 of/);
  await page.locator("#speed").selectOption("100");
  await button(page, "Play").click();
  await text(page, "#pinned-text", /^Phase 6 of/);
  await button(page, "Play").click();
  await page.locator("#phase").fill("6");
  const played = await page.locator("#phase").inputValue();
  assert.ok(Number(played) >= 6);
  const at = await cell(page, 1, 1, "pinned-loads");
  await page.mouse.move(at.x, at.y);
  await text(page, "#load", /Leaf001, Spine001: \d up, \d down/);
  await page.locator("[name=src]").fill(host(0));
  await page.locator("[name=dst]").fill(host(2 * hosts + 1));
  await button(page, "Show the way").click();
  await page.waitForSelector("#way table");
  assert.equal(await page.locator("#way tbody tr").count(), 3);
  assert.match(await page.locator("#way").textContent(), /phase\d+.*lane\d.*sends to LID\d+.*by base LIDsphase \d+/);
  await shot(page, "plan");
});

test("the history has what happened; epochs are compared; a rollback has a preview", async () => {
  await go(page, "history");
  await page.waitForSelector('#entries [data-kind="link"]');
  assert.ok(await page.locator(".timeline .mark").count() > 5);
  await shot(page, "history");
  await page.locator(".timeline .mark.link").first().click({ force: true });
  await page.waitForSelector("#entries tr.marked");
  await page.locator("#kind").selectOption("order");
  await page.waitForFunction(() => document.querySelector("#entries tr") && [...document.querySelectorAll("#entries tr")].every((r) => r.dataset.kind === "order"));
  await text(page, "#entries", /drain .*by /);
  await page.locator("#kind").selectOption("");
  await page.locator("#compare").click();
  await text(page, "#compared", /gives \d+ of \d+ ordered pairs of servers another/);
  const old = page.getByRole("button", { name: /^Roll back to epoch/ }).last();
  await old.click();
  await text(page, "dialog", /Its plan of \d+ phases.*ordered pairs of servers/);
  await button(page, "Roll back").click();
  await text(page, "dialog", /is in force again/);
  await button(page, "Close").click();
  await control({ do: "rest" });
});

test("jobs are created with a preview, show who shares, and are renewed and ended", async () => {
  await go(page, "jobs");
  for (const [name, first] of [["alpha", 0], ["beta", 3]]) {
    await page.locator("[name=hosts]").fill([0, 1, 2, hosts, hosts + 1, hosts + 2].map((n) => host(first + n)).join(" "));
    await page.locator("[name=name]").fill(name);
    await button(page, "Create …").click();
    await text(page, "dialog", /Its 6 servers would exchange in \d+ phases/);
    await button(page, "Create").click();
    await text(page, "dialog", new RegExp(`${name} is planned`));
    await button(page, "Close").click();
  }
  await text(page, "#job", /beta.*Who shares its cables.*alpha, on Leaf000; Leaf001/);
  await accessible(page, "a job");
  await shot(page, "jobs");
  await button(page, "Renew alpha").click();
  await button(page, "Renew").click();
  await text(page, "dialog", /The lease of alpha ends/);
  await button(page, "Close").click();
  for (const name of ["alpha", "beta"]) {
    await button(page, `End ${name}`).click();
    await button(page, "End it").click();
    await text(page, "dialog", /has ended/);
    await button(page, "Close").click();
  }
  await text(page, "main", /No job has a plan/);
});

test("orders of the first view have a preview: reroute, and the baseline", async () => {
  await go(page, "now");
  await button(page, "Reroute …").click();
  await text(page, "dialog", /made anew would have \d+ phases/);
  await button(page, "Reroute").click();
  await text(page, "dialog", /planned, programmed and read back anew/, 60_000);
  await button(page, "Close").click();
  await button(page, "Accept the baseline …").click();
  await text(page, "dialog", /nothing changes/);
  await button(page, "Accept").click();
  await text(page, "dialog", /Close/);
  await page.waitForFunction(() => !/Under way/.test(document.querySelector("dialog").textContent));
  await button(page, "Close").click();
  await control({ do: "rest" });
});

test("a viewer is told what a viewer may, is shown no orders, and refused one", async () => {
  const secret = await control({ do: "token" }), p = await open();
  await p.addInitScript((t) => sessionStorage.setItem("token", t), secret);
  for (const view of views) {
    await go(p, view);
    if (view === "fabric") { await find(p, `${leaf}/${port}`); await text(p, "#cost", /^Without/); }
    const orders = await p.evaluate(() => [...document.querySelectorAll("button")].map((b) => b.textContent).filter((x) => x.includes("…")));
    assert.deepEqual(orders, [], view); // what orders is named with three dots
  }
  assert.match(await p.locator("#who").textContent(), /viewer, may look, and ask what would be/);
  const status = await p.evaluate(async () => Promise.all(["reroute", "rollback", "drains", "jobs", "baseline/accept"].map(async (what) => (await fetch("/v1/" + what, { method: "POST", body: "{}", headers: { Authorization: "Bearer " + sessionStorage.getItem("token") } })).status)));
  assert.deepEqual(status, [403, 403, 403, 403, 403]);
  noise.errors = noise.errors.filter((e) => !/403/.test(e)); // the browser reports the refusals that were asked for
  await p.context().close();
});

test("every view and every order is reached by the keyboard alone", async () => {
  const p = await open();
  await go(p, "now");
  await p.keyboard.press("Tab");
  assert.equal(await p.evaluate(() => document.activeElement.className), "skip");
  for (const view of [...views.slice(1), "now"]) {
    await p.evaluate(() => document.querySelector(".skip").focus());
    await tab(p, `document.activeElement.hash === "#/${view}"`, 8);
    await p.keyboard.press("Enter");
    await p.waitForFunction((v) => document.querySelector("main h1").textContent.toLowerCase() === v, view);
    assert.equal(await p.evaluate(() => document.activeElement.id), "main", view);
  }
  // Orders of the first view: opened, and left by Escape with the focus back.
  for (const name of ["Reroute …", "Accept the baseline …"]) {
    await tab(p, `document.activeElement.textContent === "${name}"`);
    await p.keyboard.press("Enter");
    await p.waitForSelector("dialog[open] form");
    await p.keyboard.press("Escape");
    await p.waitForFunction((name) => !document.querySelector("dialog").open && document.activeElement.textContent === name, name);
  }
  // The matrix: arrows walk, Enter chooses, the cost is told, and a drain can be ordered.
  await go(p, "fabric");
  await tab(p, `document.activeElement.getAttribute("role") === "gridcell"`);
  await p.keyboard.press("ArrowDown");
  await p.keyboard.press("ArrowRight");
  assert.match(await p.evaluate(() => document.activeElement.getAttribute("aria-label")), /^Leaf001 port \d+ – Spine001 port 2: up$/);
  await p.keyboard.press("Enter");
  await text(p, "#cost", /^Without this cable: \d+ phases/);
  await tab(p, `document.activeElement.textContent === "Drain …"`);
  await p.keyboard.press("Enter");
  await p.waitForSelector("dialog[open] form");
  await tab(p, `document.activeElement.textContent === "Drain"`, 6);
  await p.keyboard.press("Enter");
  await text(p, "dialog", /is being drained/);
  await p.keyboard.press("Enter");
  await text(p, "#drain", /safe to pull/);
  await control({ do: "rest" });
  await tab(p, `document.activeElement.textContent === "Undrain …"`, 200);
  await p.keyboard.press("Enter");
  await p.waitForSelector("dialog[open] form");
  await tab(p, `document.activeElement.textContent === "Undrain"`, 6);
  await p.keyboard.press("Enter");
  await text(p, "dialog", /goes back/);
  await p.keyboard.press("Enter");
  await control({ do: "rest" });
  // Names are reached from the first row and column; zoom by + and 0.
  await p.evaluate(() => document.querySelector(".cursor").focus());
  for (let i = 0; i < 3; i++) await p.keyboard.press("ArrowLeft");
  assert.match(await p.evaluate(() => document.activeElement.getAttribute("aria-label")), /^leaf Leaf00\d$/);
  const size = () => p.evaluate(() => document.querySelector("#matrix .inner").offsetHeight);
  const fitted = await size();
  await p.keyboard.press("+");
  assert.ok(await size() > fitted);
  await p.keyboard.press("0");
  assert.equal(await size(), fitted);
  // Plan, history and jobs.
  await go(p, "plan");
  await tab(p, `document.activeElement.id === "phase"`);
  await p.keyboard.press("ArrowRight");
  await text(p, "#pinned-text", /^Phase \d+ of/);
  await tab(p, `document.activeElement.name === "src"`);
  await p.keyboard.type(host(0));
  await p.keyboard.press("Tab");
  await p.keyboard.type(host(hosts));
  await p.keyboard.press("Enter");
  await p.waitForSelector("#way table");
  await go(p, "history");
  await tab(p, `document.activeElement.getAttribute("aria-label")?.startsWith("Roll back to epoch")`);
  await p.keyboard.press("Enter");
  await p.waitForSelector("dialog[open] form");
  await p.keyboard.press("Escape");
  await go(p, "jobs");
  await tab(p, `document.activeElement.name === "hosts"`);
  await p.keyboard.type(`${host(0)} ${host(hosts)}`);
  await tab(p, `document.activeElement.textContent === "Create …"`, 6);
  await p.keyboard.press("Enter");
  await text(p, "dialog", /would exchange in/);
  await p.keyboard.press("Escape");
  await p.context().close();
});

test("a connection that is lost is said to be, and comes back", async () => {
  await go(page, "now");
  const was = noise.errors;
  noise.errors = [];
  await control({ do: "kill" });
  await text(page, "#link", /No connection/);
  await accessible(page, "without a connection");
  await look(page, "lost");
  await control({ do: "start" });
  await text(page, "#link", /Connected again/, 30_000);
  await page.waitForFunction(() => !document.querySelector("main").classList.contains("stale"), null, { timeout: 30_000 });
  await control({ do: "rest" });
  noise.errors = was.concat(noise.errors.filter((e) => !/net::ERR_|Failed to fetch/.test(e))); // the browser reports each attempt
});
