// What is the case now: the plan, the warnings with what to do, OpenSM, the last change.
import { h, clock, ms, facts } from "./dom.js";

export const title = "Now";

let advice = null;

const card = (name, value, more) => h("div", { class: "card" }, h("dl", {}, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, more) : null)));

function waterfall(e) {
  const stations = [["plan made", e.planned_ms], ["verified", e.verified_ms], ["published", e.published_ms], ["programmed", e.programmed_ms], ["read back", e.read_back_ms]];
  const all = Math.max(1, ...stations.map((s) => s[1]));
  let before = 0;
  return h("table", { class: "fall list", id: "waterfall" }, h("caption", { class: "faint" }, "From the first sign of the change, a trap where one told of it"),
    h("tbody", {}, stations.map(([name, at]) => {
      const bar = h("span");
      const from = Math.min(before, at || before);
      bar.style.left = 100 * from / all + "%";
      bar.style.width = 100 * Math.max(0, (at || from) - from) / all + "%";
      before = at || before;
      return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, h("span", { class: "track", "aria-hidden": "true" }, at ? bar : null)), h("td", {}, ms(at)));
    })));
}

function warning(w) {
  return h("li", { class: "warning " + w.severity, "data-code": w.code }, h("p", {}, h("strong", {}, `${w.severity}: ${w.title}`), h("span", { class: "faint" }, ` ${w.code}, since ${clock(w.since)}`)),
    h("p", {}, w.text), advice[w.code] ? h("p", {}, h("strong", {}, "What to do: "), advice[w.code]) : null);
}

function manager(o, s) {
  const tables = s.watches ? "forsd only watches" : o.tables_match ? "as planned, read back " + clock(o.read_back_at) : "not those planned";
  return facts("OpenSM", [["process", o.running ? `running${o.pid ? ", process " + o.pid : ""}` : "not running"], ["routing engine", o.routing_engine || "–"],
    ["tells of the fabric by", o.source], ["tables in the switches", tables], ["who leads", o.standby ? "another subnet manager is the master; its forsd leads" : "this forsd"]]);
}

function orders(site) {
  if (!site.may("operator")) return h("p", { class: "faint" }, `As ${site.me.role} you may look, and not order.`);
  return h("div", { class: "bar" },
    h("button", { onclick: () => site.confirm("Reroute", h("p", {}, "forsd plans afresh, has OpenSM program the tables and reads them back. A plan that is the same stays. Traffic goes on."), "Reroute",
      () => site.run("Reroute", () => site.ask("/v1/reroute", { method: "POST" }))) }, "Reroute …"),
    site.may("administrator") ? h("button", { onclick: () => accept(site) }, "Accept the baseline …") : null);
}

async function accept(site) {
  let p;
  try { p = await site.ask("/v1/baseline/preview"); } catch (err) { site.show("Accept the baseline", h("p", { role: "alert" }, err.message)); return; }
  site.confirm("Accept the fabric as the baseline", [h("p", {}, "What is missing now is forgotten, and lanes are numbered afresh:"),
    h("ul", {}, (p.changes.length ? p.changes : ["nothing changes"]).map((x) => h("li", {}, x)))], "Accept", () => site.run("Accept the baseline", () => site.ask("/v1/baseline/accept", { method: "POST" })));
}

export async function draw(site) {
  const s = site.status;
  advice ??= await site.ask("/page/advice.json");
  const e = s.last_event;
  const gap = s.gap ? `${s.gap} over the bound ${s.lower_bound}` : `at the bound ${s.lower_bound}`;
  return [h("h1", {}, "Now"),
    h("div", { class: "cards" },
      card("State", s.ready ? s.state : "no plan yet", `forsd ${s.version}, since ${clock(s.started)}`),
      card("Epoch", s.epoch || "none", s.epoch ? "published " + clock(s.published_at) : null),
      card("Phases", s.phases || "–", s.epoch ? `${gap}, engine ${s.engine}` : null),
      s.base ? card("Phases, base LIDs", s.base.phases, s.base.gap ? `${s.base.gap} over the bound ${s.base.lower_bound}` : `at the bound ${s.base.lower_bound}`) : null,
      card("Fabric", `${s.servers} servers`, `${s.leaves} leaves, ${s.spines} spines, ${s.lanes} lanes, LMC ${s.lmc}${s.fabric_kind ? ", " + s.fabric_kind : ""}`)),
    h("h2", {}, `Warnings (${s.warnings.length})`),
    s.warnings.length ? h("ul", { class: "plain", id: "warnings" }, s.warnings.map(warning)) : h("p", { id: "warnings" }, "None."),
    e ? [h("h2", {}, "Last change"), h("p", {}, `${clock(e.seen_at)}: ${e.what.slice(0, 3).join("; ")}${e.what.length > 3 ? `; and ${e.what.length - 3} more` : ""}`), waterfall(e)] : null,
    h("h2", {}, "OpenSM"), manager(s.opensm, s), h("h2", {}, "Orders"), orders(site)].flat();
}
