// What has happened, over restarts; two epochs compared; back to an older plan.
import { h, put, clock, when, pick, plural, some, table, compared } from "./dom.js";

export const title = "History";

const kept = { kind: "", about: "", since: "", argument: "", older: [], next: "", mark: "" };
const size = 200;
const kinds = ["epoch", "base", "link", "cable", "drain", "warning", "order", "job", "takeover", "start"];
const groups = [["epochs", ["epoch", "base"]], ["cables", ["link", "cable", "drain"]], ["warnings", ["warning"]], ["orders", ["order", "job"]], ["forsd", ["start", "takeover"]]];
const spans = [["", "all that is shown"], [3600, "the last hour"], [86400, "the last day"], [604800, "the last week"]];

// words is an entry in words.
function words(e) {
  const d = e.data;
  switch (e.kind) {
    case "epoch": case "base": return `${e.kind === "base" ? "base LIDs, number" : "epoch"} ${d.epoch}: ${d.phases} phases (bound ${d.lower_bound}), ${d.engine}` + (d.rollback_of ? `, the plan of epoch ${d.rollback_of} again` : d.what?.length ? ": " + some(d.what) : "");
    case "warning": return d.raised ? `${d.severity}: ${d.title}: ${d.text}` + (e.ended_at ? ` (until ${clock(e.ended_at)})` : "") : `over: ${d.title || d.code}`;
    case "order": return `${d.what}, by ${d.by?.user || "uid " + (d.by?.uid ?? "?")}: ${d.result}`;
    case "job": return `job ${d.job?.name || d.job?.id} ${d.what}`;
    case "drain": return d.drain ? `${d.drain.name}: ${d.what}` : d.what;
    case "start": return `forsd ${d.release} was started`;
    case "takeover": return (d.leads ? "forsd leads" : "forsd follows") + (d.why ? ": " + d.why : "");
    default: return d.text || d.what || JSON.stringify(d);
  }
}

function question(cursor) {
  const q = new URLSearchParams({ limit: size });
  for (const k of ["kind", "about"]) if (kept[k]) q.set(k, kept[k]);
  if (kept.since) q.set("since", new Date(Date.now() - 1000 * kept.since).toISOString());
  if (cursor) q.set("cursor", cursor);
  return "/v1/history?" + q;
}

// line shows entries over the time in which they were, a row for each group of kinds;
// warnings are as long as they were in force.
function line(entries) {
  if (entries.length < 2) return null;
  const at = (t) => new Date(t).getTime(), now = Date.now(), first = Math.min(...entries.map((e) => at(e.happened_at))), whole = Math.max(1000, now - first);
  const left = (t) => 100 * (at(t) - first) / whole;
  const long = whole > 2 * 86400e3;
  const ticks = [0, 25, 50, 75].map((p) => {
    const e = h("span", { class: "tick" }, long ? clock(first + whole * p / 100).slice(0, 10) : clock(first + whole * p / 100).slice(11));
    e.style.left = p + "%";
    return e;
  });
  return h("div", { class: "timeline", "aria-hidden": "true", onclick: (e) => e.target.dataset.id && reveal(e.target.dataset.id) },
    groups.map(([name, of]) => h("div", { class: "lane" }, h("span", { class: "what" }, name), h("div", { class: "track" }, entries.filter((e) => of.includes(e.kind) && !(e.kind === "warning" && !e.data.raised)).map((e) => {
      const m = h("span", { class: `mark ${e.kind} ${e.data.severity || ""}`, "data-id": e.id, title: `${clock(e.happened_at)} ${words(e)}` });
      m.style.left = left(e.happened_at) + "%";
      if (e.kind === "warning") m.style.width = Math.max(0.4, (e.ended_at ? left(e.ended_at) : 100) - left(e.happened_at)) + "%";
      return m;
    })))), h("div", { class: "lane" }, h("span", { class: "what" }), h("div", { class: "ticks" }, ticks, h("span", { class: "tick last" }, "now"))));
}

function reveal(id) {
  kept.mark = id;
  for (const r of document.querySelectorAll("#entries tr")) r.classList.toggle("marked", r.dataset.id === id);
  document.querySelector("#entries tr.marked")?.scrollIntoView({ block: "center" });
}

async function compare(site, epochs) {
  const out = document.getElementById("compared"), [a, b] = ["from", "to"].map((id) => epochs.find((x) => String(x.epoch) === document.getElementById(id).value));
  try { put(out, await difference(site, a, b)); } catch (err) { put(out, h("p", { role: "alert" }, err.message)); }
}

// difference says what is other in the second of two epochs.
async function difference(site, a, b) {
  const [x, t] = await Promise.all([site.ask(`/v1/plan/changes?since=${a.epoch}&epoch=${b.epoch}`), site.ask("/v1/topology")]);
  const name = new Map(t.hosts.map((n) => [n.guid, n.name])), most = 20, all = site.status.servers * (site.status.servers - 1);
  const row = (what, f) => [what, f(a), f(b)];
  return [h("p", {}, `Epoch ${b.epoch} gives ${x.pairs.length} of ${all} ordered pairs of servers another destination LID than epoch ${a.epoch}. Its plan is ${compared(b.phases, a.phases, "the other")}.`),
    table("The two epochs", ["", a.epoch, b.epoch], [row("published", (e) => clock(e.published_at)), row("phases", (e) => e.phases), row("bound", (e) => e.lower_bound), row("engine", (e) => e.engine), row("fabric", (e) => e.topology_hash.slice(0, 12)), row("why", (e) => some(e.what || [], 2))]),
    x.pairs.length ? h("details", {}, h("summary", {}, x.pairs.length > most ? `The first ${most} pairs` : "The pairs"), table("Destination LIDs", ["from", "to", `LID by ${a.epoch}`, `LID by ${b.epoch}`], x.pairs.slice(0, most).map((p) => [name.get(p.src) || p.src, name.get(p.dst) || p.dst, p.was, p.dlid]))) : null];
}

async function rollback(site, x, now) {
  let said;
  try { said = await difference(site, now, x); } catch (err) { said = h("p", {}, err.message); }
  site.confirm(`Roll back to epoch ${x.epoch}`, [h("p", {}, `Its plan of ${x.phases} phases, ${compared(x.phases, site.status.phases)}, is published again under a new number, once it is verified on the fabric as it is. It stays until the fabric changes or somebody orders a reroute.`), said],
    "Roll back", () => site.run("Rollback", () => site.ask("/v1/rollback", { method: "POST", body: { epoch: x.epoch } })));
}

function epochTable(site, epochs) {
  const current = epochs.find((x) => x.epoch === site.status.epoch);
  return table("The newest first", ["epoch", "published", "phases", "bound", "pairs changed", "why", "back to it"], [...epochs].reverse().slice(0, 64).map((x) => [x.epoch, when(x.published_at), x.phases, x.lower_bound, x.pairs_changed,
    x.rollback_of ? "rollback to " + x.rollback_of : some(x.what || [], 2), x === current ? "in force" : site.may("operator") ? h("button", { onclick: () => rollback(site, x, current), "aria-label": `Roll back to epoch ${x.epoch}` }, "Roll back …") : ""]));
}

export async function draw(site, argument) {
  if (argument !== kept.argument) { kept.argument = kept.about = argument; kept.older = []; kept.next = ""; }
  let refused = "";
  const [{ epochs }, page] = await Promise.all([site.ask("/v1/epochs"), site.ask(question()).catch((err) => { refused = err.message; return { entries: [] }; })]);
  const ids = new Set(page.entries.map((e) => e.id)), entries = [...page.entries, ...kept.older.filter((e) => !ids.has(e.id))];
  const next = kept.older.length ? kept.next : page.next, numbers = epochs.map((x) => [x.epoch, x.epoch]).reverse();
  const again = () => { kept.older = []; kept.next = ""; site.draw(); };
  const more = async () => { const p = await site.ask(question(next)); kept.older = [...entries.slice(page.entries.length), ...p.entries]; kept.next = p.next || ""; site.draw(); };
  return [h("h1", {}, "History"),
    h("form", { class: "bar", role: "search", onsubmit: (e) => { e.preventDefault(); kept.about = e.target.about.value.trim(); again(); } },
      h("label", {}, "Time ", pick({ id: "since", onchange: (e) => { kept.since = e.target.value; again(); } }, spans, kept.since)),
      h("label", {}, "Kind ", pick({ id: "kind", onchange: (e) => { kept.kind = e.target.value; again(); } }, [["", "all"], ...kinds.map((k) => [k, k])], kept.kind)),
      h("label", {}, "About ", h("input", { name: "about", type: "search", size: 28, value: kept.about, placeholder: "Leaf007/31, a switch, a warning" })), h("button", {}, "Show")),
    refused ? h("p", { role: "alert" }, refused) : null,
    h("section", { id: "line", "aria-hidden": "true" }, line(entries)),
    h("div", { class: "wide high", tabindex: "0", role: "region", "aria-label": "What has happened" }, h("table", { class: "list" }, h("caption", {}, "Over restarts of forsd, the newest first"), h("thead", {}, h("tr", {}, ["time", "kind", "what"].map((x) => h("th", { scope: "col" }, x)))),
      h("tbody", { id: "entries" }, entries.length ? entries.map((e) => h("tr", { "data-kind": e.kind, "data-id": e.id, class: kept.mark === e.id ? "marked" : null }, h("td", {}, when(e.happened_at)), h("td", {}, e.kind), h("td", {}, words(e)))) : h("tr", {}, h("td", { colspan: 3 }, "Nothing of the kind is kept."))))),
    next ? h("p", {}, h("button", { onclick: more }, "Earlier")) : null,
    h("h2", {}, `Epochs that are kept (${epochs.length})`), epochTable(site, epochs),
    epochs.length > 1 ? h("div", { class: "bar" }, h("label", {}, "Compare epoch ", pick({ id: "from" }, numbers, numbers[1][0])), h("label", {}, "with ", pick({ id: "to" }, numbers, numbers[0][0])), h("button", { id: "compare", onclick: () => compare(site, epochs) }, "Compare")) : h("p", {}, plural(epochs.length, "epoch"), ": nothing to compare with yet."),
    h("div", { id: "compared", role: "status", "data-keep": "" })];
}

export function drawn(argument) {
  const about = document.querySelector('[name="about"]');
  if (argument && about.value !== kept.about) about.value = kept.about;
}
