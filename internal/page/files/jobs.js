// Jobs: exchanges among some of the servers.
import { h, clock, table } from "./dom.js";

export const title = "Jobs";

function end(site, j) {
  site.confirm(`End job ${j.name || j.id}`, h("p", {}, `Its plan for ${j.servers} servers is withdrawn. Ranks that ask for it get nothing more. Its number is not given again.`), "End it",
    () => site.run("End the job", async () => { await site.ask("/v1/jobs/" + j.id, { method: "DELETE" }); return { text: `Job ${j.name || j.id} has ended.` }; }));
}

async function detail(site, j) {
  const d = await site.ask("/v1/jobs/" + j.id);
  site.show(`Job ${j.name || j.id}`, h("div", {}, table("Hosts", ["name", "port GUID"], d.hosts.map((x) => [x.name, x.guid])),
    d.lanes ? table("Lanes of its own", ["leaf", "spines"], d.lanes.map((x) => [x.leaf, x.spines.join(", ")])) : h("p", {}, "It has no lanes of its own: it may share cables with other jobs on its leaves."),
    d.warnings.length ? h("ul", {}, d.warnings.map((w) => h("li", {}, w.text))) : null));
}

export async function draw(site) {
  const { jobs } = await site.ask("/v1/jobs");
  return [h("h1", {}, "Jobs"), jobs.length ? table("Jobs with plans of their own", ["job", "servers", "phases", "bound", "epoch", "lanes", "missing hosts", "until", "more"], jobs.map((j) => [j.name || j.id, j.servers, j.phases, j.lower_bound, j.epoch,
    j.lanes ? "its own" : "shared", j.missing.length, clock(j.expires), h("span", { class: "bar" }, h("button", { onclick: () => detail(site, j), "aria-label": `Hosts of job ${j.name || j.id}` }, "Hosts"),
      site.may("operator") ? h("button", { onclick: () => end(site, j), "aria-label": `End job ${j.name || j.id}` }, "End …") : null)])) : h("p", {}, "No job has a plan of its own.")];
}
