// What has happened, over restarts; two epochs compared; back to an older plan.
import { h, put, clock, table } from "./dom.js";

export const title = "History";

const kept = { kind: "", about: "" };

// words is an entry in words.
function words(e) {
  const d = e.data;
  switch (e.kind) {
    case "epoch": case "base": return `${e.kind === "base" ? "base LIDs, number" : "epoch"} ${d.epoch}: ${d.phases} phases (bound ${d.lower_bound}), ${d.engine}` + (d.rollback_of ? `, the plan of epoch ${d.rollback_of} again` : d.what?.length ? ": " + d.what.slice(0, 3).join("; ") + (d.what.length > 3 ? `; and ${d.what.length - 3} more` : "") : "");
    case "warning": return d.raised ? `${d.severity}: ${d.title}: ${d.text}` + (e.ended ? ` (until ${clock(e.ended)})` : "") : `over: ${d.title || d.code}`;
    case "order": return `${d.what}, by ${d.by?.user || "uid " + (d.by?.uid ?? "?")}: ${d.result}`;
    case "job": return `job ${d.job?.name || d.job?.id} ${d.what}`;
    case "start": return `forsd ${d.version} was started`;
    case "takeover": return (d.leads ? "forsd leads" : "forsd follows") + (d.why ? ": " + d.why : "");
    default: return d.text || d.what || JSON.stringify(d);
  }
}

async function more(site, body, cursor, button) {
  const q = new URLSearchParams({ limit: "100" });
  for (const k of ["kind", "about"]) if (kept[k]) q.set(k, kept[k]);
  if (cursor) q.set("cursor", cursor);
  const page = await site.ask("/v1/history?" + q);
  const rows = page.entries.map((e) => h("tr", { "data-kind": e.kind }, h("td", {}, h("time", { datetime: e.at }, clock(e.at))), h("td", {}, e.kind), h("td", {}, words(e))));
  if (cursor) body.append(...rows); else put(body, rows.length ? rows : [h("tr", {}, h("td", { colspan: "3" }, "Nothing."))]);
  button.hidden = !page.next;
  button.onclick = () => more(site, body, page.next, button);
}

async function compare(site, a, b, out) {
  try {
    const x = await site.ask(`/v1/plan/changes?since=${a}&epoch=${b}`);
    put(out, `Epoch ${b} gives ${x.pairs.length} ordered pairs of servers another destination LID than epoch ${a}.`);
  } catch (err) { put(out, err.message); }
}

function rollback(site, x) {
  const said = h("p", { role: "status" }, "…");
  compare(site, x.epoch, site.status.epoch, said);
  site.confirm(`Roll back to epoch ${x.epoch}`, [h("p", {}, `Its plan of ${x.phases} phases (now ${site.status.phases}) is published again under a new number, once it is verified on the fabric as it is. It stays until the fabric changes or somebody orders a reroute.`), said],
    "Roll back", () => site.run("Rollback", () => site.ask("/v1/rollback", { method: "POST", body: { epoch: x.epoch } })));
}

export async function draw(site, argument) {
  if (argument && argument !== kept.about) kept.about = argument;
  const { epochs } = await site.ask("/v1/epochs");
  const body = h("tbody", { id: "entries" }), button = h("button", { hidden: true }, "Earlier");
  const again = () => more(site, body, "", button).catch((err) => put(body, h("tr", {}, h("td", { role: "alert" }, err.message))));
  const out = h("p", { role: "status", id: "compared" }), numbers = epochs.map((x) => x.epoch).reverse();
  const pick = (id, n) => h("select", { id, "aria-label": id === "from" ? "Older epoch" : "Newer epoch" }, numbers.map((x) => h("option", { value: x, selected: x === n }, x)));
  const from = pick("from", numbers[1] ?? numbers[0]), to = pick("to", numbers[0]);
  await again();
  return [h("h1", {}, "History"), h("h2", {}, "Epochs that are kept"),
    table("The newest first", ["epoch", "published", "phases", "bound", "pairs changed", "why", "back to it"], [...epochs].reverse().map((x) => [x.epoch, clock(x.published_at), x.phases, x.lower_bound, x.pairs_changed,
      x.rollback_of ? "rollback to " + x.rollback_of : (x.what || []).slice(0, 2).join("; "), site.may("operator") && x.epoch !== site.status.epoch ? h("button", { onclick: () => rollback(site, x), "aria-label": `Roll back to epoch ${x.epoch}` }, "Roll back …") : ""])),
    h("div", { class: "bar" }, h("span", {}, "Compare"), from, h("span", {}, "and"), to, h("button", { id: "compare", onclick: () => compare(site, from.value, to.value, out) }, "Compare")), out,
    h("h2", {}, "What has happened"),
    h("form", { class: "bar", onsubmit: (e) => { e.preventDefault(); kept.about = e.target.about.value.trim(); again(); } },
      h("label", {}, "Kind ", h("select", { id: "kind", onchange: (e) => { kept.kind = e.target.value; again(); } }, [["", "all"], "epoch", "link", "cable", "warning", "order", "job", "takeover", "start"].map((k) => Array.isArray(k) ? h("option", { value: k[0] }, k[1]) : h("option", { value: k, selected: k === kept.kind }, k)))),
      h("label", {}, "About ", h("input", { name: "about", type: "search", value: kept.about, placeholder: "Leaf007/31, a switch, a warning" })), h("button", {}, "Show")),
    h("table", { class: "list" }, h("caption", { class: "faint" }, "Events, over restarts of forsd"), h("thead", {}, h("tr", {}, ["time", "kind", "what"].map((x) => h("th", { scope: "col" }, x)))), body), button];
}
