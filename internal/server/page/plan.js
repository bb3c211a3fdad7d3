// The plan, phase by phase: which cable carries what, and the way of one transfer.
import { h, put, keep, pick, plural, table, facts } from "./dom.js";
import { Matrix } from "./matrix.js";

export const title = "Plan";

const kept = { phase: 0, playing: 0, pause: 500, src: "", dst: "", way: null, argument: "" };
const plans = { pinned: "that choose among LIDs", base: "that send to base LIDs" };
const matrices = {};
let site = null, t = null, base = null, cache = new Map();

// paint draws the two links of a cable: up to the left, down to the right.
function paint(ctx, x, y, s, c, at) {
  const e = s > 8 ? 1 : 0.5;
  ctx.fillStyle = at.colour("card");
  ctx.fillRect(x + e, y + e, s - 2 * e, s - 2 * e);
  const half = (n, a, b, d) => {
    if (!n) return;
    ctx.fillStyle = at.colour(n > 1 ? "missing" : "use");
    ctx.beginPath(); ctx.moveTo(...a); ctx.lineTo(...b); ctx.lineTo(...d); ctx.fill();
    if (n > 1 && s >= 14) { ctx.fillStyle = at.colour("on-missing"); ctx.font = `bold ${Math.round(s * 0.4)}px system-ui`; ctx.fillText(n, (a[0] + b[0] + d[0]) / 3 - s * 0.1, (a[1] + b[1] + d[1]) / 3); }
  };
  half(c.up, [x + e, y + s - e - 1], [x + e, y + e], [x + s - e - 1, y + e]);
  half(c.down, [x + s - e, y + e + 1], [x + s - e, y + s - e], [x + e + 1, y + s - e]);
}

const nameOf = (x) => x.name || x.guid;

// columns are lanes, of three levels planes: the cables of leaves.
function columns() {
  const spine = (k) => t.spines.find((s) => k >= s.first_lane && k < s.first_lane + s.lanes);
  return t.pods ? base.planes.map((_, j) => ({ key: j, name: `plane ${j}` })) : Array.from({ length: t.lanes }, (_, k) => ({ key: k, name: spine(k) ? `${nameOf(spine(k))}${spine(k).lanes > 1 ? ` #${k - spine(k).first_lane + 1}` : ""}` : `lane ${k}` }));
}

// columnOf is where a lane of a transfer passes its leaves; within a pod a transfer turns
// at a mid, and its lane is the plane counted on from the lanes.
const columnOf = (lane) => !t.pods ? lane : lane >= t.lanes ? lane - t.lanes : base.lanes[lane].plane;

async function phaseOf(lids, n) {
  const key = `${lids} ${n} ${site.status.epoch} ${site.status.base?.epoch}`;
  if (!cache.has(key)) {
    if (cache.size > 64) cache.clear();
    cache.set(key, site.ask(`/v1/plan/phase?phase=${n}&lids=${lids}`).then(carried, (err) => { cache.delete(key); throw err; }));
  }
  return cache.get(key);
}

// carried counts the transfers on each cable of a leaf, up and down.
function carried(p) {
  const leafOf = new Map(t.hosts.map((x) => [x.guid, x.leaf])), index = new Map(t.leaves.map((l, i) => [nameOf(l), i]));
  const cells = t.leaves.map(() => []);
  let local = 0;
  for (const x of p.transfers) {
    const a = index.get(leafOf.get(x.src)), b = index.get(leafOf.get(x.dst));
    if (x.lane < 0 || a === b) { local++; continue; }
    const k = columnOf(x.lane);
    for (const [leaf, way] of [[a, "up"], [b, "down"]]) {
      if (leaf === undefined) continue;
      const c = cells[leaf][k] ??= { up: 0, down: 0 };
      c[way]++;
    }
  }
  const all = cells.flat().filter(Boolean), most = Math.max(0, ...all.flatMap((c) => [c.up, c.down]));
  return { phase: p.phase, phases: p.phases, cells, local, transfers: p.transfers.length, links: all.reduce((n, c) => n + (c.up > 0) + (c.down > 0), 0), most };
}

async function show(lids) {
  const p = lids === "base" ? site.status.base : site.status, out = document.getElementById(`${lids}-text`);
  if (!p || !out) return;
  if (kept.phase >= p.phases) { put(out, `It has no phase ${kept.phase}: it ends after ${plural(p.phases, "phase")}.`); matrices[lids].set({ ...matrices[lids].data, cell: () => null }); return; }
  try {
    const n = kept.phase, x = await phaseOf(lids, n);
    if (n !== kept.phase || !out.isConnected) return;
    put(out, `Phase ${x.phase} of ${x.phases}: ${plural(x.transfers, "transfer")}, ${x.local} within a leaf; ${x.links} links in use, the busiest carries ${x.most}.`);
    const cols = columns(), empty = { up: 0, down: 0 };
    matrices[lids].set({ id: lids, rows: t.leaves.map((l) => ({ key: l.guid, name: nameOf(l), group: l.pod || 0 })), cols,
      cell: (r, c) => t.leaves[r].cables[c] === "none" ? null : { ...(x.cells[r][c] || empty), label: `${nameOf(t.leaves[r])}, ${cols[c].name}: ${x.cells[r][c]?.up || 0} up, ${x.cells[r][c]?.down || 0} down` } });
    if (n + 1 < p.phases && kept.playing) phaseOf(lids, n + 1).catch(() => {});
  } catch (err) { put(out, err.message); }
}

const both = () => Promise.all(Object.keys(plans).map(show));

const phases = () => Math.max(site.status.phases || 0, site.status.base?.phases || 0);

function step(to) {
  kept.phase = (to + phases()) % phases();
  const slider = document.getElementById("phase");
  slider.value = kept.phase;
  put(document.getElementById("phase-number"), `phase ${kept.phase}`);
  return both();
}

// play goes on when what is seen is drawn, so that it never runs ahead.
function play(e) {
  const b = e.target, on = b.getAttribute("aria-pressed") !== "true";
  b.setAttribute("aria-pressed", String(on));
  kept.playing = on ? (kept.playing || 0) + 1 : 0;
  const mine = kept.playing;
  (async () => {
    while (on && kept.playing === mine && document.getElementById("phase")) {
      await Promise.all([step(kept.phase + 1), new Promise((done) => setTimeout(done, kept.pause))]);
    }
  })();
}

// explain shows the way of one transfer, by both plans.
async function explain() {
  const out = document.getElementById("way");
  try {
    const x = await site.ask(`/v1/explain?src=${encodeURIComponent(kept.src)}&dst=${encodeURIComponent(kept.dst)}`);
    const own = site.status.base && await site.ask(`/v1/plan/servers/${encodeURIComponent(x.src.guid)}?lids=base`).catch(() => null);
    const b = own?.rows.find((p) => p.send_to === x.dst.guid);
    const dst = t.hosts.find((n) => n.guid === x.dst.guid);
    kept.way = [facts([["from", `${x.src.name} on ${x.src.leaf}, base LID ${x.src.lid}`], ["to", `${x.dst.name} on ${x.dst.leaf}, LIDs ${x.dst.lid}${dst?.lmc ? ` to ${x.dst.lid + (1 << dst.lmc) - 1}` : ""}`],
      ["phase", x.phase], ["lane", x.lane < 0 ? "none: both are on one leaf" : x.spine ? `${x.lane}, over ${x.spine}` : x.lane], ["sends to LID", x.dlid], b && ["by base LIDs", `phase ${b.phase}, LID ${b.dlid}`]]),
    table("Hops, by the tables that were read back last", ["switch", "in port", "out port", "to"], x.hops.map((s) => [s.switch, s.in_port, s.out_port, s.to]))];
  } catch (err) { kept.way = [h("p", { role: "alert" }, err.message)]; }
  put(out, kept.way);
}

function seek(e) {
  e.preventDefault();
  [kept.src, kept.dst] = [e.target.src.value.trim(), e.target.dst.value.trim()];
  return explain();
}

function panel(lids, p) {
  return h("section", {}, h("h3", {}, `Programs ${plans[lids]}: ${plural(p.phases, "phase")}`), h("p", { id: `${lids}-text`, class: "phase-text", "data-keep": "" }),
    keep(`${lids}-loads`, (e) => { matrices[lids] ??= new Matrix({ label: `Load of the cables, programs ${plans[lids]}`, paint, choose: ({ cell }) => put(document.getElementById("load"), cell?.label || ""), point: (text) => put(document.getElementById("load"), text || "​"), tall: 0.5 }); e.append(matrices[lids].element); }));
}

export async function draw(s, argument) {
  site = s;
  const now = s.status, was = t?.topology_hash;
  t = await s.ask("/v1/topology");
  if (t.topology_hash !== was) cache = new Map();
  if (t.pods && (!base || t.topology_hash !== was)) base = await s.ask("/v1/baseline").catch(() => null);
  if (!now.epoch) return [h("h1", {}, "Plan"), h("p", {}, "No plan is in force yet.")];
  if (argument) kept.src = argument;
  kept.phase = Math.min(kept.phase, phases() - 1);
  const row = (name, p) => [name, p.phases, p.lower_bound, p.gap || 0, p.engine || "–", p.epoch];
  const head = [h("h1", {}, "Plan"), table("Plans in force", ["for programs", "phases", "bound", "gap", "engine", "number"], [row(plans.pinned, now), ...(now.base ? [row(plans.base, now.base)] : [])])];
  const way = [h("h2", {}, "From host to host"), h("form", { class: "bar", onsubmit: seek }, h("label", {}, "From ", h("input", { name: "src", value: kept.src, list: "hosts", required: true, autocomplete: "off" })), h("label", {}, "to ", h("input", { name: "dst", value: kept.dst, list: "hosts", required: true, autocomplete: "off" })),
    h("button", {}, "Show the way"), keep("names", (e) => e.append(h("datalist", { id: "hosts" }, t.hosts.slice(0, 4096).map((x) => h("option", { value: x.name.split(" ")[0] })))))), h("div", { id: "way", "aria-live": "polite", "data-keep": "" })];
  if (!t.leaves?.[0]?.cables || t.pods && !base) return [...head, way];
  return [...head, h("h2", {}, "Phase by phase"),
    h("div", { class: "bar" }, h("button", { onclick: () => step(kept.phase - 1), "aria-label": "Phase before" }, "‹"), h("input", { type: "range", min: 0, max: phases() - 1, value: kept.phase, id: "phase", "aria-label": "Phase", oninput: (e) => step(+e.target.value) }), h("button", { onclick: () => step(kept.phase + 1), "aria-label": "Next phase" }, "›"),
      h("span", { id: "phase-number", "data-keep": "" }, `phase ${kept.phase}`), h("button", { id: "play", "aria-pressed": String(kept.playing > 0), onclick: play }, "Play"),
      h("label", {}, "speed ", pick({ id: "speed", onchange: (e) => { kept.pause = +e.target.value; } }, [[1000, "slow"], [500, "medium"], [100, "fast"]], kept.pause))),
    h("ul", { class: "legend" }, h("li", {}, h("span", { class: "swatch load-up" }), " up from the leaf"), h("li", {}, h("span", { class: "swatch load-down" }), " down to the leaf"), h("li", {}, h("span", { class: "swatch missing" }, "2"), " more than one transfer on a link"), h("li", { id: "load", class: "faint", "data-keep": "" })),
    h("div", { class: now.base ? "halves" : "" }, panel("pinned", now), now.base ? panel("base", now.base) : null), way];
}

export function drawn(argument) {
  if (kept.way) put(document.getElementById("way"), kept.way);
  if (argument && argument !== kept.argument) {
    kept.argument = argument;
    document.querySelector('[name="src"]').value = argument;
    document.querySelector('[name="dst"]').focus();
  }
  both();
}
