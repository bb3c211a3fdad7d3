// Jobs: exchanges among some of the servers.
import { h, when, facts, table, plural, some, compared } from "./dom.js";

export const title = "Jobs";

let chosen = "";

const nameOf = (j) => j.name || `job ${j.id}`;

function end(site, j) {
  site.confirm(`End ${nameOf(j)}`, [h("p", {}, `Its plan for ${plural(j.servers, "server")} is withdrawn; its number is not given again. The plan of the fabric stays as it is.`)], "End it",
    () => site.run("End the job", async () => { await site.ask("/v1/jobs/" + j.id, { method: "DELETE" }); return { text: `${nameOf(j)} has ended.` }; }));
}

function renew(site, j) {
  site.confirm(`Renew ${nameOf(j)}`, [h("p", {}, "Its lease ends at "), when(j.expires_at), h("p", {}, "It would end 24 hours from now. Its plan stays as it is.")], "Renew",
    () => site.run("Renew the job", async () => { const x = await site.ask(`/v1/jobs/${j.id}/renew`, { method: "POST", body: {} }); return { text: `The lease of ${nameOf(j)} ends at ${new Date(x.expires_at).toLocaleString()}.` }; }));
}

// create asks what a job's plan would be, and creates it when that is wanted.
function create(site, e) {
  e.preventDefault();
  const hosts = e.target.hosts.value.split(/[\s,]+/).filter(Boolean), form = e.target;
  const body = { name: form.name.value.trim(), hosts, own_lanes: form.own.checked, lease_seconds: 3600 * form.lease.value };
  (async () => {
    site.show("Create a job", h("p", { role: "status" }, "Planning it …"));
    let j;
    try { j = await site.ask("/v1/jobs", { method: "POST", body: { ...body, dry_run: true } }); } catch (err) { site.show("Create a job", h("p", { role: "alert" }, err.message)); return; }
    site.confirm(`Create ${body.name || "a job"}`, [h("p", {}, `Its ${plural(j.servers, "server")} would exchange in ${plural(j.phases, "phase")} (bound ${j.lower_bound}, engine ${j.engine}); among all servers it takes ${site.status.phases}.`), lanes(j),
      j.warnings.length ? h("ul", {}, j.warnings.map((w) => h("li", {}, w.text))) : null], "Create", () => site.run("Create a job", async () => {
      const made = await site.ask("/v1/jobs", { method: "POST", body });
      chosen = String(made.id);
      form.reset();
      return { text: `${nameOf(made)} is planned: number ${made.id}.` };
    }));
  })();
}

const lanes = (j) => h("p", {}, j.lanes?.length ? `It has lanes of its own on ${plural(j.lanes.length, "leaf", "leaves")}: no other job uses them.` : "It has no lanes of its own: jobs on its leaves share their cables with it.");

// sharing are the jobs that may send over the same cables: those on its leaves, unless
// one of both has lanes of its own there.
function sharing(j, others, leafOf) {
  const mine = new Set(j.hosts.map((x) => leafOf.get(x.guid)));
  return others.filter((o) => o.id !== j.id && !(j.lanes && o.lanes)).map((o) => [o, [...new Set(o.hosts.map((x) => leafOf.get(x.guid)).filter((l) => mine.has(l)))]]).filter(([, on]) => on.length);
}

async function detail(site, list) {
  const j = list.find((x) => String(x.id) === chosen);
  if (!j) return h("p", { class: "faint" }, list.length ? "Choose a job: its hosts, its lanes, and who shares cables with it are shown here." : "");
  const [t, ...all] = await Promise.all([site.ask("/v1/topology"), ...list.slice(0, 64).map((x) => site.ask("/v1/jobs/" + x.id))]);
  const d = all.find((x) => x.id === j.id) || await site.ask("/v1/jobs/" + j.id), leafOf = new Map(t.hosts.map((x) => [x.guid, x.leaf])), switches = new Map([...t.leaves, ...t.spines].map((x) => [x.guid, x.name || x.guid]));
  const shared = sharing(d, all, leafOf), leaves = new Set(d.hosts.map((x) => leafOf.get(x.guid)));
  return [h("h2", {}, nameOf(d)), facts([["number", d.id], ["created", when(d.created_at)], ["phases", `${d.phases}, bound ${d.lower_bound}, engine ${d.engine}`], d.base && ["phases, base LIDs", `${d.base.phases}, bound ${d.base.lower_bound}`], ["ranks per host", d.ranks_per_host], ["its exchange is", compared(d.phases, site.status.phases, "that of all servers")]]),
    lanes(d), d.lanes ? table("Lanes of its own", ["leaf", "spines"], d.lanes.map((x) => [switches.get(x.leaf) || x.leaf, some(x.spines.map((s) => switches.get(s) || s), 64)])) : null,
    h("h3", {}, "Who shares its cables"), shared.length ? h("ul", {}, shared.map(([o, on]) => h("li", {}, `${nameOf(o)}, on ${some(on, 8)}`))) : h("p", {}, "No other job."),
    d.warnings.length ? [h("h3", {}, "Warnings"), h("ul", {}, d.warnings.map((w) => h("li", {}, w.text)))] : null,
    h("h3", {}, `Hosts (${d.hosts.length}, on ${plural(leaves.size, "leaf", "leaves")})`), h("ul", { class: "names" }, d.hosts.map((x) => h("li", { title: x.guid }, `${x.name.split(" ")[0]} `, h("span", { class: "faint" }, leafOf.get(x.guid) || "missing"))))];
}

export async function draw(site) {
  const { jobs } = await site.ask("/v1/jobs"), about = await detail(site, jobs);
  const choose = (j) => h("button", { class: "link", "aria-pressed": String(chosen === String(j.id)), onclick: () => { chosen = String(j.id); site.draw(); } }, nameOf(j));
  const orders = (j) => site.may("operator") ? h("span", { class: "bar" }, h("button", { onclick: () => renew(site, j), "aria-label": `Renew ${nameOf(j)}` }, "Renew …"), h("button", { onclick: () => end(site, j), "aria-label": `End ${nameOf(j)}` }, "End …")) : "";
  return [h("h1", {}, "Jobs"), h("div", { class: "split" }, h("div", {},
    jobs.length ? table(`${plural(jobs.length, "job has a plan", "jobs have plans")} of ${jobs.length === 1 ? "its" : "their"} own`, ["job", "servers", "phases", "bound", "lanes", "missing", "until", "orders"], jobs.map((j) => [choose(j), j.servers, j.phases, j.lower_bound, j.lanes ? "its own" : "shared", j.missing.length, when(j.expires_at), orders(j)]))
      : h("p", {}, "No job has a plan of its own. Slurm's prolog or forsctl job create makes them", site.may("operator") ? ", or the form below." : "."),
    site.may("operator") ? [h("h2", {}, "Create a job"), h("form", { class: "form", id: "create", onsubmit: (e) => create(site, e) }, h("label", {}, "Hosts, by name, GUID or LID ", h("textarea", { name: "hosts", rows: 3, required: true, placeholder: "node001 node002 …" })), h("label", {}, "Name ", h("input", { name: "name", maxlength: 100, autocomplete: "off" })),
      h("label", {}, "Lease, hours ", h("input", { name: "lease", type: "number", min: 1, max: 8784, value: 24 })), h("label", { class: "check" }, h("input", { name: "own", type: "checkbox" }), " lanes that no other job uses"), h("button", {}, "Create …"))] : null),
  h("aside", { class: "panel", id: "job", "aria-live": "polite", "aria-label": "The job that is chosen" }, about))];
}
