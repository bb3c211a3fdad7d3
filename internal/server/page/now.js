// What is the case now: the plan, the warnings with what to do, OpenSM, the last change.
import { h, when, ms, facts, some, compared } from "./dom.js";

export const title = "Now";

const card = (name, value, more) => h("div", { class: "card" }, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, more) : null));

const bound = (p) => `bound ${p.lower_bound}, gap ${p.gap || 0}` + (p.engine ? `, engine ${p.engine}` : "");

function cards(s) {
  const o = s.opensm;
  return h("dl", { class: "cards" },
    card("State", s.watches ? "watching" : s.ready ? s.state : "no plan yet", ["since ", when(s.started_at), `, forsd ${s.release}`]),
    card("Epoch", s.epoch || "none", s.epoch ? ["published ", when(s.published_at), s.pairs_changed ? `, ${s.pairs_changed} pairs of servers changed` : ""] : null),
    card("Phases", s.phases || "–", s.epoch ? bound(s) : null),
    card("Phases, base LIDs", s.base?.phases || "–", s.base ? `${bound(s.base)}, number ${s.base.epoch}` : "no plan for base LIDs"),
    card("All at once", s.fair_share ? `${s.busiest_cable} transfers` : "–", s.fair_share ? `over the busiest cable by base LIDs, at least ${s.fair_share} with any tables` : null),
    card("Fabric", `${s.servers} servers`, `${s.leaves} leaves, ${s.spines} spines, ${s.lanes} lanes, LMC ${s.lmc}${s.fabric_kind ? ", " + s.fabric_kind : ""}`),
    card("OpenSM", o.running ? "running" : "not running", o.standby ? "another subnet manager is the master; its forsd leads" : "this forsd leads"));
}

// waterfall shows when each step of the last change was done, and how long it took.
function waterfall(e) {
  const steps = [["plan made", 1000 * e.planned_seconds], ["verified", 1000 * e.verified_seconds], ["published", 1000 * e.published_seconds], ["programmed", 1000 * e.programmed_seconds], ["read back", 1000 * e.read_back_seconds]].sort((a, b) => (a[1] || Infinity) - (b[1] || Infinity));
  const all = Math.max(1, ...steps.map((s) => s[1]));
  let before = 0;
  return h("table", { class: "fall", id: "waterfall" }, h("caption", {}, "Milliseconds after the trap, or the first sign of the change"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "step"), h("td", {}), h("th", { scope: "col" }, "took"), h("th", { scope: "col" }, "done at"))),
    h("tbody", {}, steps.map(([name, at]) => {
      const bar = h("span"), took = at ? Math.max(0, at - before) : 0, from = Math.min(before, at || before);
      bar.style.left = 100 * from / all + "%";
      bar.style.width = 100 * took / all + "%";
      before = at || before;
      return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, h("span", { class: "track", "aria-hidden": "true" }, at ? bar : null)), h("td", {}, at ? took < 0.1 ? "< 0.1 ms" : ms(took) : "–"), h("td", {}, at ? ms(at) : "not yet"));
    })));
}

// linked has cables in a text lead to their cells.
function linked(text) {
  const [all, name, port] = text.match(/(\S+) port (\d+) – /) || [];
  return all ? [text.slice(0, text.indexOf(all)), h("a", { href: `#/fabric/${encodeURIComponent(`${name}/${port}`)}` }, `${name} port ${port}`), text.slice(text.indexOf(all) + `${name} port ${port}`.length)] : text;
}

function warning(w) {
  const parts = w.text.split("; "), cables = parts.length > 1 && parts.every((x) => / port \d+ – /.test(x));
  return h("li", { class: "warning " + w.severity, "data-code": w.code },
    h("p", {}, h("span", { class: "badge" }, w.severity), " ", h("strong", {}, w.title), h("span", { class: "faint" }, " since ", when(w.raised_at), " · "), h("a", { href: "#/history/" + w.code }, w.code)),
    cables ? h("ul", {}, parts.map((x) => h("li", {}, linked(x)))) : h("p", {}, linked(w.text)),
    w.advice ? h("p", {}, h("strong", {}, "What to do: "), w.advice) : null);
}

function manager(o, s) {
  const tables = s.watches ? "forsd only watches" : o.tables_match ? ["as planned, read back ", when(o.read_back_at)] : "not those planned";
  return facts([["process", o.running ? `running${o.pid ? ", process " + o.pid : ""}` : "not running"], ["routing engine", o.routing_engine || "–"], ["source of the fabric", o.source],
    o.plugin && ["plugin", `${o.plugin.version}, ${o.plugin.state}`], ["tables in the switches", tables], s.baseline.length ? ["baseline", some(s.baseline)] : ["baseline", "the fabric is as accepted"]]);
}

function orders(site) {
  const may = h("p", {}, `You are ${site.me.user || "unnamed"}, ${site.me.role}: you ${site.can()}.`);
  if (!site.may("operator")) return may;
  return [may, h("div", { class: "bar" }, h("button", { onclick: () => reroute(site) }, "Reroute …"), site.may("administrator") ? h("button", { onclick: () => accept(site) }, "Accept the baseline …") : null)];
}

async function reroute(site) {
  site.show("Reroute", h("p", { role: "status" }, "Planning what it would give …"));
  let said;
  try {
    const { plan } = await site.ask("/v1/whatif", { method: "POST", body: { as_is: true } }), s = site.status;
    said = `A plan made anew would have ${plan.phases} phases (bound ${plan.lower_bound}), ${compared(plan.phases, s.phases, `the one in force (${s.phases})`)}.`;
  } catch (err) { said = err.message; }
  site.confirm("Reroute", [h("p", {}, said), h("p", {}, "forsd plans anew, has OpenSM program the tables, and reads them back. A plan that comes out the same stays. Traffic goes on.")], "Reroute",
    () => site.run("Reroute", () => site.ask("/v1/reroute", { method: "POST" })));
}

async function accept(site) {
  let p;
  try { p = await site.ask("/v1/baseline/preview"); } catch (err) { site.show("Accept the baseline", h("p", { role: "alert" }, err.message)); return; }
  site.confirm("Accept the fabric as the baseline", [h("p", {}, "What is missing now is forgotten, and lanes are numbered afresh:"),
    h("ul", {}, (p.changes.length ? p.changes : ["nothing changes"]).map((x) => h("li", {}, x)))], "Accept", () => site.run("Accept the baseline", () => site.ask("/v1/baseline/accept", { method: "POST" })));
}

const gravity = ["critical", "degraded", "info"];

export async function draw(site) {
  const s = site.status, e = s.last_event;
  const warnings = [...s.warnings].sort((a, b) => gravity.indexOf(a.severity) - gravity.indexOf(b.severity));
  return [h("h1", {}, "Now"), cards(s),
    h("div", { class: "halves" },
      h("section", { id: "warnings" }, h("h2", {}, `Warnings (${warnings.length})`), warnings.length ? h("ul", { class: "plain" }, warnings.map(warning)) : h("p", {}, "None: the fabric is as it should be.")),
      h("section", { id: "change" }, h("h2", {}, "Last change"), e ? [h("p", { id: "what" }, when(e.seen_at), ": ", some(e.what)), waterfall(e)] : h("p", {}, "Nothing has changed since forsd was started."),
        h("h2", {}, "OpenSM"), manager(s.opensm, s), h("h2", {}, "Orders"), orders(site)))];
}
