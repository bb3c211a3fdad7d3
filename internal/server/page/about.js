// What is known of a cable, a switch or a host, what losing it would cost, and the orders
// for it.
import { h, put, when, facts, table, plural, some, compared } from "./dom.js";
import { states } from "./model.js";

const costs = new Map();
let epoch = 0, asking = null;

// cost asks what losing something would cost, once in an epoch. Another choice ends it.
export function cost(site, what, part) {
  if (epoch !== site.status.epoch) { epoch = site.status.epoch; costs.clear(); }
  const out = h("p", { role: "status", id: "cost" }, costs.get(part) || "");
  if (!site.may("viewer")) { put(out, "Viewers are told here what losing it would cost."); return out; }
  if (costs.has(part)) return out;
  put(out, "Planning what losing it would cost …");
  if (asking?.part === part && asking.epoch === epoch) return out;
  asking?.stop.abort();
  const mine = asking = { part, epoch, stop: new AbortController() };
  (async () => {
    await new Promise((done) => setTimeout(done, 250));
    let text;
    try {
      if (mine.stop.signal.aborted) return;
      const { plan: p } = await site.ask("/v1/whatif", { method: "POST", body: { fail: [part] }, signal: mine.stop.signal });
      text = `Without ${what}: ${p.phases} phases (bound ${p.lower_bound}), ${compared(p.phases, site.status.phases)}.` +
        (p.unreachable_pairs ? ` ${p.unreachable_pairs} pairs of servers have no way left.` : "") + (p.servers < site.status.servers ? ` ${plural(site.status.servers - p.servers, "server is", "servers are")} lost.` : "");
      costs.set(part, text);
    } catch (err) {
      if (mine.stop.signal.aborted) return;
      text = err.message;
    }
    if (asking === mine) { asking = null; const now = document.getElementById("cost"); if (now) put(now, text); }
  })();
  return out;
}

// gone is that of a cable that has just been lost: what was asked of it is not asked any more.
function gone() { asking?.stop.abort(); asking = null; return null; }

const words = { symbol_errors: "symbol errors", packets_sent: "packets sent", wait: "ticks of waiting" };

// counters is a table of what both ends have counted, without what neither has.
function counters(c) {
  const kinds = Object.keys(c.lower.counted || {}).filter((k) => k !== "over_seconds" && typeof c.lower.counted[k] === "number" && (c.lower.counted[k] || c.upper.counted?.[k]));
  const over = c.lower.counted?.over_seconds;
  if (!over) return h("p", { class: "faint" }, "Its counters have not been read.");
  if (!kinds.length) return h("p", {}, `No errors and no traffic in the last ${Math.round(over)} s.`);
  return table(`Counted in the last ${Math.round(over)} s`, ["counter", c.lower.name, c.upper.name], kinds.map((k) => [words[k] || k.replaceAll("_", " "), c.lower.counted[k], c.upper.counted[k]]));
}

// linkOf is how a link is. forsd shows one that is kept out of the plan as degraded.
const linkOf = (c) => ({ full: "active at full width and speed", missing: "down" })[c.link] || (["isolated", "drained", "held"].includes(c.state_) ? "active, and kept out of the plan" : "active below its width or speed");

export function aboutCable(site, m, c) {
  return [h("h2", {}, `Cable ${c.name}`), h("p", { class: "state" }, h("span", { class: "swatch " + c.state_ }, states[c.state_][0]), ` ${c.state_}: ${states[c.state_][1]}`),
    c.state_ === "missing" ? gone() : cost(site, "this cable", c.key),
    facts([["link", linkOf(c)], c.lane !== undefined && ["lane", c.lane], c.plane !== undefined && ["plane", c.plane],
      ["health", [c.state, c.changed_at ? [" since ", when(c.changed_at)] : null]], c.timed && ["measured", [`${c.timed.gbps ? Math.round(c.timed.gbps) + " Gb/s, " : ""}${(100 * c.timed.slowdown).toFixed(1)} % ± ${(100 * c.timed.error).toFixed(1)} % slower than others, `, when(c.timed.measured_at)]], c.refused && ["stays in the plan", c.refused], ...c.why.map((w) => ["why", w])]),
    counters(c),
    c.history.length ? [h("h3", {}, "Decisions"), h("ul", {}, c.history.map((x) => h("li", {}, when(x.decided_at), " ", x.text)))] : null,
    h("div", { class: "bar" }, h("a", { href: "#/history/" + encodeURIComponent(`${c.lower.name}/${c.lower.port}`) }, "Its history"),
      site.may("operator") && c.state === "isolated" ? h("button", { onclick: () => site.confirm("Put the cable back", h("p", {}, `${c.name} carries traffic again, and is watched. It was taken out: ${some(c.why) || "see its decisions"}.`), "Put it back",
        () => site.run("Put the cable back", () => site.ask("/v1/cables/release", { method: "POST", body: { cable: c.key } }))) }, "Put it back …") : null,
      drains(site, m, c.name, c.key, c.drain))];
}

// drains are the orders that take something out of the plan to be worked on, and give it
// back, with what is left on the way to that.
function drains(site, m, what, part, d) {
  const out = d ? [h("p", { id: "drain" }, d.state === "safe" ? ["Drained: safe to pull since ", when(d.changed_at), "."] : `Drain: ${d.state}` + (d.uses.length ? `, still used by ${some(d.uses)}` : "") + ".", d.reason ? ` Reason: ${d.reason}.` : "", d.by ? ` By ${d.by}.` : "")] : [];
  if (!site.may("operator")) return out;
  const order = (path, body) => site.ask(path, { method: "POST", body: { parts: [d ? d.name : part], ...body } });
  const preview = async (title, path, yes, say) => {
    let c;
    try { c = (await order(path, { dry_run: true })).cost; } catch (err) { site.show(title, h("p", { role: "alert" }, err.message)); return; }
    const reason = h("input", { id: "reason", maxlength: 200, autocomplete: "off" });
    site.confirm(title, [h("p", {}, `The plan would have ${c.phases} phases (bound ${c.lower_bound}), ${compared(c.phases, c.phases_now)}.` + (c.unreachable_pairs ? ` ${c.unreachable_pairs} pairs of servers would have no way left.` : "")),
      c.hosts?.length ? h("p", {}, `These hosts leave all plans: ${some(c.hosts, 20)}.`) : null, c.jobs?.length ? h("p", {}, `Jobs: ${some(c.jobs, 20)}.`) : null, h("p", {}, say),
      yes === "Drain" ? h("p", {}, h("label", {}, "Reason ", reason)) : null], yes, () => site.run(title, () => order(path, yes === "Drain" && reason.value.trim() ? { reason: reason.value.trim() } : {}).then(() => ({ text: yes === "Drain" ? `${what} is being drained. Pull it when its state says that it is safe.` : `${what} goes back into the plan.` }))));
  };
  if (d) return [...out, h("button", { onclick: () => preview("Undrain " + d.name, "/v1/undrain", "Undrain", "The tables lead over it first, then the plan.") }, "Undrain …")];
  return [h("button", { onclick: () => preview("Drain " + what, "/v1/drains", "Drain", "The plan leaves it first, then the tables; after that it is safe to pull.") }, "Drain …")];
}

export function aboutNode(site, m, x, choose) {
  const mine = [...m.cables.values()].filter((c) => c.lower.guid === x.guid || c.upper.guid === x.guid), bad = mine.filter((c) => c.state_ !== "up");
  const hosts = m.hosts.filter((n) => n.leaf === x.name || n.spine === x.name);
  return [h("h2", {}, `${x.kind[0].toUpperCase()}${x.kind.slice(1)} ${x.name}`), x.present ? cost(site, `this ${x.kind}`, x.guid) : h("p", { class: "state" }, h("span", { class: "swatch missing" }, "×"), " not there: it is in the baseline, and not in the fabric"),
    facts([["GUID", x.guid], x.lid && ["LID", x.lid], ["cables up", `${mine.length - bad.length} of ${mine.length}`], x.kind === "leaf" && ["servers", x.servers], m.t.pods && x.kind !== "top" && ["pod", x.pod || 0]]),
    bad.length ? [h("h3", {}, "Not up"), h("ul", {}, bad.slice(0, 64).map((c) => h("li", {}, h("button", { class: "link", onclick: () => choose({ cable: c }) }, c.name), ` ${c.state_}`)))] : null,
    h("div", { class: "bar" }, h("a", { href: "#/history/" + encodeURIComponent(x.name) }, "Its history"), drains(site, m, x.name, x.guid, m.drains.find((d) => d.guid === x.guid && !d.port))),
    hosts.length ? [h("h3", {}, `Hosts (${hosts.length})`), h("ul", { class: "names" }, hosts.map((n) => h("li", {}, h("button", { class: "link", onclick: () => choose({ host: n }) }, n.name))))] : null];
}

// aboutGroup is a cell of pods by planes: a mid, its cables down and up.
export function aboutGroup(site, m, g, choose) {
  const list = (title, cables) => [h("h3", {}, title), h("ul", { class: "names" }, cables.map((c) => h("li", {}, h("button", { class: "link", onclick: () => choose({ cable: c }) }, `${c.state_ === "up" ? "" : states[c.state_][0] + " "}${c.name}`))))];
  return [h("h2", {}, `Pod ${g.pod}, plane ${g.plane}`), cost(site, g.mid.name, g.mid.guid), facts([["mid", h("button", { class: "link", onclick: () => choose({ node: g.mid }) }, g.mid.name)], ["not up", `${g.bad} of ${g.down.length + g.up.length} cables`]]),
    list("Cables to leaves", g.down), list("Cables to tops", g.up)];
}

export function aboutHost(site, m, x, choose) {
  const leaf = m.nodes.find((n) => n.name === (x.leaf || x.spine) || n.guid === (x.leaf || x.spine)), name = x.name.split(" ")[0];
  return [h("h2", {}, `Host ${x.name}`), cost(site, "this host", x.guid),
    facts([["port GUID", x.guid], ["LIDs", x.lmc ? `${x.lid} to ${x.lid + (1 << x.lmc) - 1}` : x.lid], ["role", x.server ? `server, index ${x.alpha} on its leaf` : `${x.role}: does not take part in the exchange`],
      leaf && [leaf.kind, h("button", { class: "link", onclick: () => choose({ node: leaf }) }, leaf.name)]]),
    h("div", { class: "bar" }, x.server ? h("a", { href: "#/plan/" + encodeURIComponent(name) }, "Its transfers") : null, h("a", { href: "#/history/" + encodeURIComponent(name) }, "Its history"))];
}
