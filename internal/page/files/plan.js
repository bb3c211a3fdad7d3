// The plan, phase by phase: which cable carries what, and the way of one transfer.
import { h, put, table } from "./dom.js";

export const title = "Plan";

const kept = { phase: 0, lids: "pinned", playing: 0, src: "", dst: "", way: null };

async function loads(site, t, phase) {
  const p = await site.ask(`/v1/plan/phase?phase=${phase}&lids=${kept.lids}`);
  const leafOf = new Map(t.hosts.map((x) => [x.guid, t.leaves.findIndex((l) => (l.name || l.guid) === x.leaf)]));
  const up = t.leaves.map(() => new Map()), down = t.leaves.map(() => new Map());
  let local = 0;
  for (const x of p.transfers) {
    const a = leafOf.get(x.src), b = leafOf.get(x.dst);
    if (x.lane < 0 || a === b) { local++; continue; }
    if (a >= 0) up[a].set(x.lane, (up[a].get(x.lane) || 0) + 1);
    if (b >= 0) down[b].set(x.lane, (down[b].get(x.lane) || 0) + 1);
  }
  return { p, up, down, local };
}

async function show(site, t, out) {
  const { p, up, down, local } = await loads(site, t, kept.phase);
  const most = Math.max(0, ...[...up, ...down].flatMap((m) => [...m.values()]));
  put(out.said, `Phase ${p.phase} of ${p.phases}: ${p.transfers.length} transfers, ${local} of them within a leaf; the busiest link carries ${most}.`);
  for (const [r, row] of [...out.grid.tBodies[0].rows].entries()) {
    for (let k = 0; k < t.lanes; k++) {
      const a = up[r].get(k) || 0, b = down[r].get(k) || 0, cell = row.cells[k + 1];
      cell.className = a > 1 || b > 1 ? "use2" : a || b ? "use1" : "";
      cell.textContent = a && b ? "↕" : a ? "↑" : b ? "↓" : "";
    }
  }
}

function explain(site, out) {
  return async (e) => {
    e.preventDefault();
    kept.src = e.target.src.value.trim();
    kept.dst = e.target.dst.value.trim();
    try {
      const x = await site.ask(`/v1/explain?src=${encodeURIComponent(kept.src)}&dst=${encodeURIComponent(kept.dst)}`);
      kept.way = h("div", { id: "way" }, h("p", {}, `${x.src.name} sends to ${x.dst.name} in phase ${x.phase}, to LID ${x.dlid}` + (x.lane >= 0 ? `, over lane ${x.lane} (${x.spine}).` : ", within the leaf.")),
        table("Hops", ["switch", "in", "out", "to"], x.hops.map((s) => [s.switch, s.in_port, s.out_port, s.to])));
    } catch (err) { kept.way = h("p", { role: "alert" }, err.message); }
    put(out, kept.way);
  };
}

export async function draw(site) {
  const s = site.status, t = await site.ask("/v1/topology");
  const base = kept.lids === "base" && s.base;
  const phases = base ? s.base.phases : s.phases;
  if (!s.epoch) return [h("h1", {}, "Plan"), h("p", {}, "No plan is in force yet.")];
  kept.phase = Math.min(kept.phase, phases - 1);
  const way = h("div", { "aria-live": "polite" }, kept.way || "");
  const form = h("form", { class: "bar", onsubmit: explain(site, way) }, h("label", {}, "From ", h("input", { name: "src", value: kept.src, list: "hosts", required: true })), h("label", {}, "to ", h("input", { name: "dst", value: kept.dst, list: "hosts", required: true })),
    h("button", {}, "Show the way"), h("datalist", { id: "hosts" }, t.hosts.slice(0, 4096).map((x) => h("option", { value: x.name.split(" ")[0] }))));
  const head = [h("h1", {}, "Plan"), table("Plans in force", ["for programs that", "phases", "bound", "engine", "number"], [["choose among LIDs", s.phases, s.lower_bound, s.engine, s.epoch],
    ...(s.base ? [["send to base LIDs", s.base.phases, s.base.lower_bound, s.base.engine || "–", s.base.epoch]] : [])])];
  if (!t.leaves?.[0]?.cables) return [...head, h("h2", {}, "From host to host"), form, way];
  const out = { said: h("p", { id: "phase-text", role: "status" }), grid: h("table", { class: "matrix", id: "loads", "aria-label": "Cables used in the phase" }, h("thead", {}, h("tr", {}, h("td", {}), [...Array(t.lanes).keys()].map((k) => h("th", { scope: "col" }, k)))),
    h("tbody", {}, t.leaves.map((l) => h("tr", {}, h("th", { scope: "row" }, l.name), [...Array(t.lanes).keys()].map(() => h("td", {})))))) };
  const slider = h("input", { type: "range", min: 0, max: phases - 1, value: kept.phase, id: "phase", "aria-label": "Phase", oninput: (e) => { kept.phase = +e.target.value; show(site, t, out).catch((err) => put(out.said, err.message)); } });
  const play = h("button", { id: "play", "aria-pressed": "false", onclick: () => {
    clearInterval(kept.playing);
    const on = play.getAttribute("aria-pressed") === "false";
    play.setAttribute("aria-pressed", String(on));
    if (on) kept.playing = setInterval(() => {
      if (!slider.isConnected) { clearInterval(kept.playing); return; }
      slider.value = kept.phase = (kept.phase + 1) % phases;
      show(site, t, out).catch(() => clearInterval(kept.playing));
    }, 400);
  } }, "Play");
  const choose = h("select", { id: "lids", onchange: (e) => { kept.lids = e.target.value; location.hash = "#/plan/" + kept.lids; } }, [["pinned", "choose among LIDs"], ["base", "send to base LIDs"]].map(([v, n]) => h("option", { value: v, selected: v === kept.lids, disabled: v === "base" && !s.base }, n)));
  show(site, t, out).catch((err) => put(out.said, err.message));
  return [...head, h("h2", {}, "Phase by phase"), h("div", { class: "bar" }, h("label", {}, "Programs that ", choose), slider, play), out.said, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Load of the cables" }, out.grid),
    h("p", { class: "faint" }, "↑ up to the spine, ↓ down to the leaf, ↕ both ways: a cable is two links, and each carries one transfer."), h("h2", {}, "From host to host"), form, way];
}
