// The fabric as a matrix: leaves by lanes, and every cable is a cell.
import { h, put, clock, facts, table } from "./dom.js";

export const title = "Fabric";

const kept = { size: "", find: "", at: [0, 0], chosen: null, epoch: 0, costs: new Map() };
let last = new Map();
let taken = new Map(); // drains by the leaf's end of a cable

const sign = { up: "", held: "h", drained: "d", isolated: "i", suspect: "?", probation: "p", degraded: "~", missing: "×", none: "" };

// stateOf is one word for a cable, and the class of its cell.
export function stateOf(c) {
  if (c.link === "missing") return "missing";
  if (c.state === "isolated" || c.state === "probation") return c.state;
  if (taken.has(spec(c))) return "drained";
  if (c.held) return "held";
  if (c.link === "degraded") return "degraded";
  return c.state === "suspect" ? "suspect" : "up";
}

// cellsOf is the matrix: for each leaf what is known of the cable of each lane, null for none.
function cellsOf(t, cables) {
  const by = new Map(cables.map((c) => [c.leaf.guid + " " + c.lane, c]));
  return t.leaves.map((leaf) => leaf.cables.map((link, lane) => {
    if (link === "none") return null;
    const c = by.get(leaf.guid + " " + lane);
    return c || { leaf: { guid: leaf.guid, name: leaf.name, port: 0 }, spine: { name: spineOf(t, lane)?.name || "", port: 0 }, lane, link, state: "good", held: false, why: [], history: [] };
  }));
}

const spineOf = (t, lane) => t.spines.find((s) => lane >= s.first_lane && lane < s.first_lane + s.lanes);
const label = (c) => `${c.leaf.name} port ${c.leaf.port} – ${c.spine.name} port ${c.spine.port}`;
const spec = (c) => `${c.leaf.guid}/${c.leaf.port}`;

// whatIf asks what losing something would cost; the answer stays until the next epoch.
function whatIf(site, what, part) {
  if (kept.costs.has(part)) return h("p", { role: "status" }, kept.costs.get(part));
  const button = h("button", { onclick: () => button.replaceWith(cost(site, what, part)) }, "What would losing it cost?");
  return button;
}

function cost(site, what, part) {
  const out = h("p", { role: "status" }, "forsd plans it …"), fail = [part];
  (async () => {
    try {
      const f = await site.ask("/v1/whatif", { method: "POST", body: { fail } });
      const p = f.plan, was = site.status.phases;
      kept.costs.set(part, `Without ${what}: ${p.phases} phases (bound ${p.lower_bound}), now ${was}` + (p.phases > was ? `: ${(100 * (p.phases - was) / was).toFixed(1)} % longer.` : ": no longer.") +
        (p.unreachable_pairs ? ` ${p.unreachable_pairs} pairs of servers are left without a lane.` : "") + ` ${p.servers} servers take part.`);
      put(out, kept.costs.get(part));
    } catch (err) { put(out, err.message); }
  })();
  return out;
}

const counters = (end) => Object.entries(end.counted || {}).filter(([k, v]) => typeof v === "number" && v > 0 && k !== "over_seconds" && k !== "packets_sent").map(([k, v]) => `${k.replaceAll("_", " ")} ${v}`).join(", ") || "no errors";

function aboutCable(site, panel, c) {
  put(panel, h("h2", {}, label(c)), facts("Cable", [["state", stateOf(c)], ["link", c.link], ["lane", c.lane], ["health", c.state + (c.since ? ", since " + clock(c.since) : "")],
    [c.leaf.name, counters(c.leaf)], [c.spine.name, counters(c.spine)], ...(c.why || []).map((w) => ["why", w])]),
    (c.history || []).length ? h("ul", {}, c.history.map((x) => h("li", {}, clock(x.at), " ", x.text))) : null,
    h("div", { class: "bar" }, site.may("viewer") && c.link !== "missing" ? whatIf(site, "this cable", spec(c)) : null,
      h("a", { href: "#/history/" + encodeURIComponent(`${c.leaf.name}/${c.leaf.port}`) }, "Its history"),
      site.may("operator") && c.state === "isolated" ? h("button", { onclick: () => site.confirm("Put the cable back", h("p", {}, `${label(c)} carries traffic again, and is watched.`), "Put it back",
        () => site.run("Put the cable back", () => site.ask("/v1/cables/release", { method: "POST", body: { cable: spec(c) } }))) }, "Put it back …") : null,
      ...drains(site, label(c), spec(c), taken.get(spec(c)))));
}

// drains are the orders that take something out of the plan to be worked on, and give it
// back, with what is left on the way to that.
function drains(site, what, part, d) {
  const out = d ? [h("span", { id: "drain" }, d.state === "safe" ? `drained: safe to pull since ${clock(d.since)}` : `drain: ${d.state}` + (d.uses.length ? `, still used by ${d.uses.join(", ")}` : ""))] : [];
  if (!site.may("operator")) return out;
  const order = (path, body) => site.ask(path, { method: "POST", body: { parts: [part], ...body } });
  if (d) return [...out, h("button", { onclick: () => site.run("Undrain", () => order("/v1/undrain").then(() => ({ text: `${what} goes back into the plan, tables first.` }))) }, "Undrain")];
  return [h("button", { onclick: async () => {
    let c;
    try { c = (await order("/v1/drains", { dry_run: true })).cost; } catch (err) { site.show("Drain", h("p", { role: "alert" }, err.message)); return; }
    site.confirm("Drain " + what, [h("p", {}, `The plan has ${c.phases} phases without it, and ${c.phases_now} now.` + (c.unreachable_pairs ? ` ${c.unreachable_pairs} pairs of servers have no way left.` : "")),
      c.hosts?.length ? h("p", {}, `These hosts leave all plans: ${c.hosts.join(", ")}.`) : null, c.jobs?.length ? h("p", {}, `These jobs lose hosts: ${c.jobs.join(", ")}.`) : null,
      h("p", {}, "The plan avoids it first, then the tables; when it is safe to pull, its cells say so.")].filter(Boolean), "Drain", () => site.run("Drain", () => order("/v1/drains").then(() => ({ text: `${what} is being drained.` }))));
  } }, "Drain …")];
}

function aboutNode(site, panel, t, node, kind, cells) {
  const hosts = kind === "leaf" ? t.hosts.filter((x) => x.leaf === (node.name || node.guid)) : [];
  const mine = cells.flat().filter((c) => c && (kind === "leaf" ? c.leaf.guid === node.guid : c.spine.name === node.name));
  put(panel, h("h2", {}, node.name || node.guid), facts(kind === "leaf" ? "Leaf" : "Spine", [["GUID", node.guid], ["LID", node.lid || "–"], ["there", node.present ? "yes" : "no"],
    ["cables up", `${mine.filter((c) => stateOf(c) === "up").length} of ${mine.length}`], ...(kind === "leaf" ? [["servers", node.servers]] : [])]),
    h("div", { class: "bar" }, site.may("viewer") && node.present ? whatIf(site, "this " + kind, node.guid) : null, h("a", { href: "#/history/" + encodeURIComponent(node.name || node.guid) }, "Its history"), ...drains(site, node.name || node.guid, node.guid, [...taken.values()].find((d) => d.guid === node.guid && !d.port))),
    hosts.length ? table(`Hosts (${hosts.length})`, ["name", "LIDs", "index", "role"], hosts.map((x) => [x.name, `${x.lid}–${x.lid + (1 << x.lmc) - 1}`, x.alpha, x.server ? "server" : x.role])) : null);
}

// walk moves among the cells by the arrow keys; one cell at a time is in the order of Tab.
function walk(grid, e) {
  const [r, c] = kept.at, step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e6], End: [0, 1e6], PageUp: [-8, 0], PageDown: [8, 0] }[e.key];
  if (!step || !e.target.dataset.cell) return;
  e.preventDefault();
  const rows = grid.tBodies[0].rows, row = Math.max(0, Math.min(rows.length - 1, r + step[0])), col = Math.max(0, Math.min(rows[row].cells.length - 2, c + step[1]));
  grid.querySelector('button[tabindex="0"][data-cell]')?.setAttribute("tabindex", "-1");
  kept.at = [row, col];
  const b = rows[row].cells[col + 1].firstElementChild;
  b.setAttribute("tabindex", "0");
  b.focus();
}

const legend = () => h("p", { class: "faint" }, "Signs: an empty cell is up, × missing, ~ degraded, h held back, d drained, i isolated, p on probation, ? suspect.");

// told marks the cable that an event tells of at once; all is asked for again after it.
export function told(kind, data) {
  if (kind !== "link") return;
  const [, label, what] = JSON.parse(data).text?.match(/^(.* port \d+ – .* port \d+) (went down|came up)$/) || [];
  const cell = label && document.querySelector(`#matrix [aria-label^="${CSS.escape(label)}: "]`);
  if (!cell) return;
  const state = what === "came up" ? "up" : "missing";
  cell.className = state;
  cell.dataset.state = state;
  cell.textContent = sign[state];
  cell.setAttribute("aria-label", `${label}: ${state}`);
  cell.title = `${label}: ${state}`;
}

export async function draw(site, argument, fresh) {
  const [t, health, drained] = await Promise.all([site.ask("/v1/topology"), site.ask("/v1/cables").catch(() => ({ cables: [] })), site.ask("/v1/drains").catch(() => ({ drains: [] }))]);
  taken = new Map(drained.drains.flatMap((d) => (d.cables || []).map((c) => [c.leaf + "/" + c.port, d])));
  if (!t.leaves?.length || !t.leaves[0].cables) return [h("h1", {}, "Fabric"), h("p", {}, t.why || `This fabric (${t.kind}) has no matrix of leaves and lanes; forsctl topology shows it.`), hostList(t)];
  const cells = cellsOf(t, health.cables || []);
  const panel = h("aside", { class: "panel", id: "about", "aria-live": "polite" }, h("p", { class: "faint" }, "Choose a cable, a leaf or a spine."));
  if (kept.epoch !== site.status.epoch) { kept.epoch = site.status.epoch; kept.costs.clear(); }
  const tell = (what) => {
    const [kind, key] = what, node = (kind === "leaf" ? t.leaves : t.spines).find((x) => x.guid === key), cell = kind === "cable" && cells.flat().find((c) => c && spec(c) === key);
    if (cell) aboutCable(site, panel, cell); else if (node) aboutNode(site, panel, t, node, kind, cells);
  };
  const choose = (...what) => { kept.chosen = what; tell(what); };
  const states = new Map();
  const grid = h("table", { class: "matrix", id: "matrix", "aria-label": `Cables of ${t.leaves.length} leaves by ${t.lanes} lanes` },
    h("thead", {}, h("tr", {}, h("td", {}), [...Array(t.lanes).keys()].map((lane) => {
      const s = spineOf(t, lane);
      return h("th", { scope: "col" }, s ? h("button", { "data-name": s.name.toLowerCase(), onclick: () => choose("spine", s.guid) }, s.name) : null);
    }))),
    h("tbody", {}, t.leaves.map((leaf, r) => h("tr", {}, h("th", { scope: "row" }, h("button", { "data-name": leaf.name.toLowerCase(), onclick: () => choose("leaf", leaf.guid) }, leaf.name)),
      cells[r].map((c, k) => {
        if (!c) return h("td", {}, h("button", { class: "none", disabled: true, tabindex: "-1", "data-cell": "" }));
        const state = stateOf(c), key = r + " " + k;
        states.set(key, state);
        const news = fresh && last.has(key) && last.get(key) !== state;
        return h("td", {}, h("button", { class: state + (news ? " fresh" : ""), "data-cell": key, "data-state": state, "aria-label": `${label(c)}: ${state}`, title: `${label(c)}: ${state}`, tabindex: kept.at[0] === r && kept.at[1] === k ? "0" : "-1",
          onclick: () => { kept.at = [r, k]; choose("cable", spec(c)); } }, sign[state]));
      })))));
  grid.addEventListener("keydown", (e) => walk(grid, e));
  last = states;
  const counts = {};
  for (const s of states.values()) counts[s] = (counts[s] || 0) + 1;
  const scroll = h("div", { class: "scroll " + kept.size, tabindex: "0", role: "region", "aria-label": "Matrix of cables" }, grid);
  const find = () => {
    for (const b of grid.querySelectorAll("th button")) b.classList.toggle("dim", kept.find !== "" && !b.dataset.name.includes(kept.find));
    for (const [i, row] of [...grid.tBodies[0].rows].entries()) row.hidden = kept.find !== "" && !matches(t, i, kept.find);
  };
  if (kept.find) find();
  const focused = document.activeElement?.dataset?.cell;
  const was = document.querySelector(".scroll"), top = was?.scrollTop, left = was?.scrollLeft;
  queueMicrotask(() => {
    if (top || left) scroll.scrollTo(left, top);
    if (focused) grid.querySelector(`[data-cell="${focused}"]`)?.focus({ preventScroll: true });
  });
  if (kept.chosen) tell(kept.chosen);
  return [h("h1", {}, "Fabric"), h("div", { class: "bar" },
    h("label", {}, "Find ", h("input", { type: "search", id: "find", value: kept.find, placeholder: "leaf, spine, host", oninput: (e) => { kept.find = e.target.value.trim().toLowerCase(); find(); } })),
    h("label", {}, "Size ", h("select", { id: "size", onchange: (e) => { kept.size = e.target.value; scroll.className = "scroll " + kept.size; } }, [["small", "small"], ["", "medium"], ["large", "large"]].map(([v, n]) => h("option", { value: v, selected: v === kept.size }, n)))),
    h("span", { id: "counts" }, Object.entries(counts).map(([s, n]) => `${n} ${s}`).join(", "))), legend(), h("div", { class: "split" }, scroll, panel)];
}

// matches tells whether a leaf, one of its hosts, or a spine has a text in its name.
function matches(t, i, text) {
  const leaf = t.leaves[i];
  return leaf.name.toLowerCase().includes(text) || t.spines.some((s) => s.name.toLowerCase().includes(text)) || t.hosts.some((x) => x.leaf === leaf.name && x.name.toLowerCase().includes(text));
}

const hostList = (t) => table(`Hosts (${t.hosts.length})`, ["name", "GUID", "LID", "leaf"], t.hosts.map((x) => [x.name, x.guid, x.lid, x.leaf || x.spine || "–"]));
