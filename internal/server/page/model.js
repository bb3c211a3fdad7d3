// The fabric as the page shows it: switches, cables, and the matrices that they make.

// states are words for cables, the worst first, each with its sign and what it means.
export const states = {
  missing: ["×", "down, or its switch is"],
  isolated: ["i", "taken out for its errors"],
  drained: ["d", "taken out by an operator"],
  held: ["h", "kept out of the plan"],
  degraded: ["~", "not at full width and speed: carries traffic, and no schedule"],
  probation: ["p", "put back, and watched"],
  suspect: ["?", "in use, with errors"],
  up: ["", "in use"],
};
export const worst = (list) => Object.keys(states).find((s) => list.includes(s)) || "up";

function stateOf(c, drained) {
  if (c.link === "missing") return "missing";
  if (c.state === "isolated" || c.state === "probation") return c.state;
  if (drained) return "drained";
  if (c.held) return "held";
  if (c.link === "degraded") return "degraded";
  return c.state === "suspect" ? "suspect" : "up";
}

const errorsOf = (end) => Object.entries(end.counted || {}).reduce((n, [k, v]) => typeof v === "number" && !["packets_sent", "wait", "over_seconds"].includes(k) ? n + v : n, 0);
const loadOf = (end) => end.counted?.over_seconds > 0 ? end.counted.packets_sent / end.counted.over_seconds : 0;

// complete adds to a cable what is shown of it.
function complete(c, drains) {
  c.key = `${c.lower.guid}/${c.lower.port}`;
  c.name = `${c.lower.name} port ${c.lower.port} – ${c.upper.name} port ${c.upper.port}`;
  c.drain = drains.get(c.key);
  c.errors = errorsOf(c.lower) + errorsOf(c.upper);
  c.load = Math.max(loadOf(c.lower), loadOf(c.upper));
  c.slowness = Math.max(0, c.timed?.slowdown || 0);
  return become(c, stateOf(c, c.drain));
}

// become has a cable be in a state.
export function become(c, state) {
  c.state_ = state;
  c.label = `${c.name}: ${state}`;
  return c;
}

const nameOf = (x) => x.name || x.guid;

// node is a switch with its level in words.
const node = (x, kind, more = {}) => ({ ...x, ...more, key: x.guid, name: nameOf(x), kind, gone: !x.present, label: `${kind} ${nameOf(x)}` + (x.present ? "" : ": not there") });

function twoLevels(m, t, health) {
  const spines = t.spines.map((s) => node(s, "spine")), by = new Map(health.map((c) => [c.leaf.guid + " " + c.lane, c]));
  const of = (lane) => spines.find((s) => lane >= s.first_lane && lane < s.first_lane + s.lanes);
  const rows = t.leaves.map((l) => node(l, "leaf"));
  const cols = Array.from({ length: t.lanes }, (_, k) => {
    const s = of(k);
    return s ? { ...s, name: s.lanes > 1 ? `${s.name} #${k - s.first_lane + 1}` : s.name, group: 0 } : { name: `lane ${k}` };
  });
  const cells = rows.map((leaf) => leaf.cables.map((link, lane) => {
    if (link === "none") return null;
    const c = by.get(leaf.guid + " " + lane), at = { guid: of(lane)?.guid, name: of(lane)?.name || "", port: 0 };
    return c ? { ...c, lower: c.leaf, upper: c.spine, link } : { lower: { guid: leaf.guid, name: leaf.name, port: 0 }, upper: at, lane, link, state: "good", why: [], history: [] };
  }));
  m.nodes.push(...rows, ...spines);
  m.matrices.push({ id: "leaves", name: "leaves by spines", rows, cols, cells });
}

// threeLevels makes three matrices of a fabric: pods by planes, whose cells stand for many
// cables, and the cables of leaves and of mids. The baseline has which port is whose.
function threeLevels(m, t, base, health) {
  const per = base.mids.length / base.pods, plane = (j) => base.planes[j];
  const by = new Map(t.mids.map((x) => [x.guid, x])), known = new Map(health.map((c) => [`${c.leaf.guid}/${c.leaf.port}`, c]));
  const tops = t.spines.map((s) => node(s, "top")), topOf = new Map(tops.map((x) => [x.guid, x]));
  const mids = base.mids.map((x, i) => by.has(x.guid) ? node(by.get(x.guid), "mid", { group: Math.floor(i / per) }) : null);
  const leaves = t.leaves.map((l) => node(l, "leaf", { pod: l.pod || 0, group: l.pod || 0 }));
  const uplinks = new Map(base.leaves.map((l) => [l.guid, l.uplinks]));
  const cable = (low, high, link, ports, more) => {
    if (link === "none" || !high || !ports) return null;
    return { state: "good", why: [], history: [], ...known.get(`${low.guid}/${ports.leaf_port}`), ...more, link, lower: { guid: low.guid, name: low.name, port: ports.leaf_port }, upper: { guid: high.guid, name: high.name, port: ports.spine_port } };
  };
  const low = leaves.map((l) => l.cables.map((link, j) => cable(l, mids[l.pod * per + plane(j)], link, uplinks.get(l.guid)?.[j], { plane: j, lane: undefined })));
  const rows = mids.filter(Boolean), wide = Math.max(1, ...rows.map((x) => x.cables.length));
  const high = rows.map((x) => Array.from({ length: wide }, (_, k) => k < x.cables.length ? cable(x, topOf.get(base.tops[base.lanes[(x.first_lane || 0) + k].top].guid), x.cables[k], base.mids.find((b) => b.guid === x.guid).uplinks[k], { lane: (x.first_lane || 0) + k }) : null));
  m.nodes.push(...leaves, ...rows, ...tops);
  const pods = Array.from({ length: t.pods }, (_, p) => ({ key: "pod" + p, name: `pod ${p}` })), planes = base.planes.map((_, j) => ({ key: "plane" + j, name: `plane ${j}` }));
  const cells = pods.map((_, p) => planes.map((_, j) => {
    const mid = mids[p * per + plane(j)], own = leaves.map((l, i) => l.pod === p && low[i][j]).filter(Boolean), up = mid ? high[rows.indexOf(mid)].filter(Boolean) : [];
    return mid && { group: true, mid, pod: p, plane: j, down: own, up, name: `pod ${p}, plane ${j}: ${mid.name}` };
  }));
  m.matrices.push({ id: "pods", name: "pods by planes", rows: pods, cols: planes, cells },
    { id: "leaves", name: "leaves by planes", rows: leaves, cols: planes, cells: low },
    { id: "mids", name: "mids by lanes", rows, cols: Array.from({ length: wide }, (_, k) => ({ key: "lane" + k, name: `lane ${k} of the plane` })), cells: high });
}

// summarize has a cell of pods by planes say what its cables are.
export function summarize(g) {
  const all = [...g.down, ...g.up], up = (list) => `${list.filter((c) => c.state_ === "up").length} of ${list.length}`;
  g.state_ = g.mid.gone ? "missing" : worst(all.map((c) => c.state_));
  g.bad = all.filter((c) => c.state_ !== "up").length;
  g.errors = all.reduce((n, c) => n + c.errors, 0);
  g.load = Math.max(0, ...all.map((c) => c.load));
  g.slowness = Math.max(0, ...all.map((c) => c.slowness));
  g.label = `${g.name}: ${up(g.down)} cables to leaves up, ${up(g.up)} to tops`;
}

// fabric is the model: what /v1/topology, /v1/cables, /v1/drains and, of three levels,
// /v1/baseline say.
export function fabric(t, health, drained, base) {
  const m = { kind: t.kind, t, nodes: [], matrices: [], cables: new Map(), drains: drained };
  const drains = new Map(drained.flatMap((d) => (d.cables || []).map((c) => [`${c.leaf}/${c.port}`, d])));
  if (t.pods && base?.mids) threeLevels(m, t, base, health); else if (t.leaves?.[0]?.cables) twoLevels(m, t, health);
  for (const x of m.matrices) {
    for (const c of x.cells.flat()) {
      if (!c || c.group) continue;
      complete(c, drains);
      m.cables.set(c.key, c);
    }
  }
  for (const g of m.matrices[0]?.cells.flat() || []) if (g?.group) summarize(g);
  m.hosts = t.hosts;
  m.byKey = new Map(m.nodes.map((x) => [x.key, x]));
  return m;
}

// find are what has a text in its name: switches, hosts, cables as NODE/PORT.
export function find(m, text) {
  const q = text.trim().toLowerCase(), out = [];
  if (!q) return out;
  const [, name, port] = q.match(/^(.*?)(?:\/| port )(\d+)$/) || [];
  if (port) {
    for (const c of m.cables.values()) {
      if ([c.lower, c.upper].some((e) => (e.name.toLowerCase() === name || e.guid === name) && e.port === +port)) out.push({ cable: c });
    }
  }
  const fits = (x) => x.name.toLowerCase().includes(q) || x.guid === q || String(x.lid) === q;
  for (const x of m.nodes) if (fits(x)) out.push({ node: x });
  for (const x of m.hosts) if (fits(x)) out.push({ host: x });
  return out;
}
