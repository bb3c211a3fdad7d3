// The fabric as a matrix in which every cable is a cell.
import { h, put, renew, keep, pick, table } from "./dom.js";
import { Matrix } from "./matrix.js";
import { fabric, states, find, become, summarize } from "./model.js";
import { aboutCable, aboutGroup, aboutHost, aboutNode } from "./about.js";

export const title = "Fabric";

const kept = { show: "state", matrix: "", find: "", nth: -1, chosen: null, argument: "" };
let m = null, matrix = null, site = null, base = { hash: "", data: null };

// paint draws a cable: its colour and sign, or how much it has counted.
function paint(ctx, x, y, s, c, at) {
  const heat = kept.show === "errors" ? Math.log1p(c.errors) / Math.log1p(Math.max(1, m.mostErrors)) : kept.show === "load" ? c.load / (m.mostLoad || 1) : kept.show === "slowness" ? c.slowness / (m.mostSlowness || 1) : 0;
  const edge = s > 8 ? 1 : 0.5, plain = c.state_ === "up" || kept.show !== "state" && c.state_ !== "missing";
  if (c.state_ !== "up") ctx.globalAlpha = 1; // what is not well is seen whatever is searched for
  ctx.fillStyle = at.colour(kept.show === "state" ? c.state_ : c.state_ === "missing" ? "missing" : "card");
  ctx.fillRect(x + edge, y + edge, s - 2 * edge, s - 2 * edge);
  if (heat > 0 && c.state_ !== "missing") {
    const was = ctx.globalAlpha;
    ctx.globalAlpha = was * (0.12 + 0.88 * heat);
    ctx.fillStyle = at.colour(kept.show === "load" ? "use" : "hot");
    ctx.fillRect(x + edge, y + edge, s - 2 * edge, s - 2 * edge);
    ctx.globalAlpha = was;
  }
  if (!plain) {
    ctx.strokeStyle = ctx.fillStyle = at.colour("on-" + c.state_) || at.colour("text");
    if (c.state_ === "missing") cross(ctx, x, y, s); else if (s >= 10) sign(ctx, x, y, s, states[c.state_][0]);
  }
  const chosen = kept.chosen?.cable?.key;
  if (chosen && chosen === c.key) {
    ctx.globalAlpha = 1;
    ctx.lineWidth = 2;
    ctx.strokeStyle = at.colour("text");
    ctx.strokeRect(x + 1, y + 1, s - 2, s - 2);
  }
}

function cross(ctx, x, y, s) {
  const a = s * 0.28;
  ctx.lineWidth = Math.max(1, s / 10);
  ctx.beginPath();
  ctx.moveTo(x + a, y + a); ctx.lineTo(x + s - a, y + s - a); ctx.moveTo(x + s - a, y + a); ctx.lineTo(x + a, y + s - a);
  ctx.stroke();
}

function sign(ctx, x, y, s, text) {
  ctx.font = `bold ${Math.round(s * 0.62)}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.fillText(text, x + s / 2, y + s / 2 + 0.5);
  ctx.textAlign = "left";
}

const shown = () => m.matrices.find((x) => x.id === kept.matrix) || m.matrices[0];

function choose(what) {
  kept.chosen = what.line ? (m.byKey.has(what.line.key) ? { node: what.line } : null) : what.cell ? (what.cell.group ? { group: what.cell } : { cable: what.cell }) : what;
  if (kept.find && (what.line || what.cell)) { // a click ends the search
    kept.find = document.getElementById("find").value = "";
    searched();
  }
  about();
  matrix?.redraw();
}

// about fills the panel with what is known of what is chosen.
function about() {
  const out = document.getElementById("about");
  if (!out || !m) return;
  const { cable, node, group, host } = kept.chosen || {};
  const now = cable ? m.cables.get(cable.key) : node ? m.byKey.get(node.key) : group ? m.matrices[0].cells[group.pod]?.[group.plane] : host ? m.hosts.find((x) => x.guid === host.guid) : null;
  renew(out, !now ? h("p", { class: "faint" }, "Choose a cable, a name, or search: what is known of it is shown here, with what losing it would cost.")
    : cable ? aboutCable(site, m, now) : node ? aboutNode(site, m, now, choose) : group ? aboutGroup(site, m, now, choose) : aboutHost(site, m, now, choose));
}

// go chooses what a search has found, and has the matrix show it.
function go(x) {
  choose(x);
  const leaf = x.host && m.nodes.find((n) => n.name === x.host.leaf);
  const rows = (of) => of.rows.findIndex((r) => r.key === (x.node?.key || leaf?.key)), cols = (of) => of.cols.findIndex((c) => c.key === x.node?.key);
  for (const of of [shown(), ...m.matrices]) {
    let at = [rows(of), cols(of)];
    if (x.cable) of.cells.forEach((row, r) => row.forEach((c, k) => { if (c?.key === x.cable.key) at = [r, k]; }));
    if (at[0] < 0 && at[1] < 0) continue;
    if (of !== shown()) { kept.matrix = of.id; place(); document.getElementById("which").value = of.id; }
    matrix.go(at[0], x.cable ? at[1] : at[0] >= 0 ? -1 : at[1]);
    return;
  }
}

// searched dims what the search has not found.
function searched() {
  const all = find(m, kept.find);
  const keys = new Set(all.flatMap((x) => x.node ? [x.node.key] : x.cable ? [x.cable.lower.guid, x.cable.upper.guid] : m.nodes.filter((n) => n.name === x.host.leaf).map((n) => n.key)));
  matrix.found = !kept.find || !keys.size || shown().id === "pods" ? null : (a, b) => keys.has(a.key) || b !== undefined && keys.has(b.key);
  put(document.getElementById("hits"), kept.find ? `${all.length} found` : "");
  matrix.redraw();
  return all;
}

function submit(e) {
  e.preventDefault();
  kept.find = e.target.find.value;
  const all = searched();
  if (all.length) { kept.nth = (kept.nth + 1) % all.length; go(all[kept.nth]); put(document.getElementById("hits"), `${kept.nth + 1} of ${all.length}`); }
}

function place() {
  const x = shown();
  matrix.inner.setAttribute("aria-label", `Cables: ${x.name}`);
  matrix.set({ id: x.id, rows: x.rows, cols: x.cols, cell: (r, c) => x.cells[r][c] });
}

// count says how many cables are in which state, which is the legend too.
function legend() {
  if (kept.show !== "state") {
    const text = kept.show === "slowness" ? `how much longer transfers took than others in the last measured exchange: 0 to ${(100 * m.mostSlowness).toFixed(0)} %` : kept.show === "errors" ? `errors counted lately, both ends: 0 to ${m.mostErrors} on a cable` : `packets sent a second, the busier end: 0 to ${Math.round(m.mostLoad)}`;
    return [h("li", {}, h("span", { class: `ramp ${kept.show}` }), ` ${text}`)];
  }
  const counts = {};
  for (const c of m.cables.values()) counts[c.state_] = (counts[c.state_] || 0) + 1;
  return Object.entries(states).filter(([s]) => s === "up" || counts[s]).reverse().map(([s, [mark, text]]) => h("li", { title: text, "data-count": s }, h("span", { class: "swatch " + s }, mark), ` ${counts[s] || 0} ${s}`));
}

// notUp is a list of the cables that are not simply up: what matters, and what is read out.
function notUp() {
  const bad = [...m.cables.values()].filter((c) => c.state_ !== "up"), most = 200;
  if (!bad.length) return [h("h2", {}, "Cables to look at"), h("p", {}, `None: all ${m.cables.size} are up.`)];
  return [h("h2", {}, `Cables to look at (${bad.length})`), table(bad.length > most ? `The first ${most}` : "All of them", ["cable", "state", "why"], bad.slice(0, most).map((c) =>
    [h("button", { class: "link", "data-cable": c.key, onclick: () => { choose({ cable: c }); go({ cable: c }); } }, c.name), [h("span", { class: "swatch " + c.state_ }, states[c.state_][0]), ` ${c.state_}`], c.why[0] || c.drain?.reason || ""]))];
}

function refresh() {
  m.mostErrors = Math.max(0, ...[...m.cables.values()].map((c) => c.errors));
  m.mostLoad = Math.max(0, ...[...m.cables.values()].map((c) => c.load));
  m.mostSlowness = Math.max(0, ...[...m.cables.values()].map((c) => c.slowness));
  put(document.getElementById("legend"), legend());
  put(document.getElementById("bad"), notUp());
  matrix?.redraw();
  matrix?.showCursor(false);
}

// told shows what an event tells of a cable at once; all is asked for again after it.
export function told(kind, data) {
  if (kind !== "link" || !m) return;
  const { kind: what, at, peer } = JSON.parse(data);
  const state = { "cable-down": "missing", "cable-up": "up" }[what];
  const c = state && (m.cables.get(`${at.node}/${at.port}`) || m.cables.get(`${peer?.node}/${peer?.port}`));
  if (!c || state === "up" && c.state_ !== "missing") return;
  become(c, state);
  for (const g of m.matrices[0].cells.flat()) if (g?.group && (g.down.includes(c) || g.up.includes(c))) summarize(g);
  refresh();
  about();
}

export async function draw(s, argument) {
  site = s;
  const [t, health, drained] = await Promise.all([s.ask("/v1/topology"), s.ask("/v1/cables").catch(() => ({ cables: [] })), s.ask("/v1/drains").catch(() => ({ drains: [] }))]);
  if (t.pods && base.hash !== t.topology_hash + t.findings.length) base = { hash: t.topology_hash + t.findings.length, data: await s.ask("/v1/baseline").catch(() => null) };
  m = fabric(t, health.cables || [], drained.drains, base.data);
  if (!m.matrices.length) return [h("h1", {}, "Fabric"), h("p", {}, t.why || `This fabric (${t.kind}) has no matrix of leaves and lanes.`), table(`Hosts (${t.hosts.length})`, ["name", "GUID", "LID", "switch"], t.hosts.slice(0, 1000).map((x) => [x.name, x.guid, x.lid, x.leaf || x.spine || "–"]))];
  if (argument && argument !== kept.argument) { kept.find = argument; kept.nth = -1; }
  return [h("h1", {}, "Fabric"),
    h("form", { class: "bar", onsubmit: submit, role: "search" },
      h("label", {}, "Find ", h("input", { type: "search", id: "find", name: "find", size: 28, value: kept.find, placeholder: "switch, host, or Leaf007/31", oninput: (e) => { kept.find = e.target.value; kept.nth = -1; searched(); } })), h("button", {}, "Next"), h("span", { id: "hits", role: "status" }),
      h("label", {}, "Show ", pick({ id: "show", onchange: (e) => { kept.show = e.target.value; refresh(); } }, [["state", "state"], ["errors", "errors"], ["load", "load"], ["slowness", "slowness"]], kept.show)),
      m.matrices.length > 1 ? h("label", {}, "of ", pick({ id: "which", onchange: (e) => { kept.matrix = e.target.value; place(); searched(); } }, m.matrices.map((x) => [x.id, x.name]), shown().id)) : null,
      h("span", { class: "together" }, h("button", { type: "button", "aria-label": "Smaller cells", onclick: () => matrix.zoom(0.8) }, "−"), h("button", { type: "button", "aria-label": "Larger cells", onclick: () => matrix.zoom(1.25) }, "+"), h("button", { type: "button", onclick: () => matrix.zoom(0) }, "Fit"))),
    h("ul", { id: "legend", class: "legend", "data-keep": "" }),
    h("div", { class: "split" },
      h("div", {}, keep("matrix", (e) => {
        matrix ??= new Matrix({ label: "Cables", paint, choose, point: (text) => put(document.getElementById("pointed"), text || pointing) });
        e.append(matrix.element);
      }), h("p", { id: "pointed", class: "faint", "data-keep": "" }, pointing)),
      h("aside", { class: "panel", id: "about", "aria-live": "polite", "aria-label": "What is chosen", "data-keep": "" })),
    h("section", { id: "bad", "data-keep": "" })];
}

const pointing = "A cell is a cable. The arrow keys walk, Enter chooses, + and − zoom, 0 fits.";

// drawn has the matrix and the panel show what was asked for.
export function drawn(argument) {
  if (!m?.matrices.length) return;
  place();
  refresh();
  if (argument && argument !== kept.argument) {
    kept.argument = argument;
    const [first] = searched();
    if (first) go(first);
  } else about();
}
