// forsd's page: one view at a time, drawn anew when forsd tells of something.
import { h, put, renew, clock, plural } from "./dom.js";
import { ask, follow, token, Refusal } from "./ask.js";
import * as now from "./now.js";
import * as fabric from "./fabric.js";
import * as plan from "./plan.js";
import * as history from "./history.js";
import * as jobs from "./jobs.js";

const views = { now, fabric, plan, history, jobs };
const byId = (id) => document.getElementById(id);
const main = byId("main"), dialog = byId("dialog"), link = byId("link");
const roles = ["nobody", "reader", "viewer", "operator", "administrator"];
const rights = { nobody: "may see nothing", reader: "may look", viewer: "may look, and ask what would be", operator: "may look, and order", administrator: "may look, order, and accept the baseline" };

// site is what the views know: who asks, the last answers, and how to ask.
export const site = { me: { role: "nobody" }, status: null, may: (role) => roles.indexOf(site.me.role) >= roles.indexOf(role), can: () => rights[site.me.role] || "", ask, confirm, run, show, draw };

let current = "", seen = 0, stop = null, drawing = false, again = false;

const place = () => {
  const [, name = "now", argument = ""] = location.hash.match(/^#\/(\w+)\/?(.*)$/) || [];
  let text = "";
  try { text = decodeURIComponent(argument); } catch { /* not an address of ours */ }
  return [views[name] ? name : "now", text];
};

// draw shows the view anew: what is there is changed, and nothing that stays is replaced.
// There is one at a time, and one more where something was told meanwhile.
async function draw() {
  if (drawing) { again = true; return; }
  drawing = true;
  do {
    again = false;
    const [name, argument] = place();
    for (const a of document.querySelectorAll("nav a")) {
      if (a.hash === "#/" + name) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
    }
    try {
      site.status = await ask("/v1/status");
      seen = Date.now();
      const parts = await views[name].draw(site, argument);
      if (place()[0] !== name) { again = true; continue; }
      const changed = current !== name;
      if (changed) main.replaceChildren();
      renew(main, parts);
      main.classList.remove("stale");
      summary(name);
      if (changed && current) main.focus({ preventScroll: true });
      current = name;
      views[name].drawn?.(argument);
      mark("forsd-drawn", name);
    } catch (err) {
      if (err instanceof Refusal) refused(err); else { lost(); console.warn(err); }
    }
    if (again) await new Promise((done) => setTimeout(done, 50));
  } while (again);
  drawing = false;
}

// mark is for those who measure: the browser's performance tools show it.
function mark(name, detail) {
  performance.clearMarks(name);
  performance.mark(name, { detail });
}

// summary says the most important beside every view.
function summary(name) {
  const s = site.status, bad = s.warnings.filter((w) => w.severity !== "info").length, critical = s.warnings.some((w) => w.severity === "critical");
  put(byId("summary"), s.epoch ? `epoch ${s.epoch}, ${plural(s.phases, "phase")} ` : "no plan yet ", h("a", { href: "#/now", class: critical ? "critical" : bad ? "degraded" : "fine" }, bad ? plural(bad, "warning") : "no warnings"));
  document.title = `${bad ? `(${bad}) ` : ""}${views[name].title} – ${s.fabric || "forsd"}`;
}

function refused(err) {
  current = "";
  put(main, h("h1", {}, "forsd refuses"), h("p", { role: "alert" }, err.message), err.status === 401 && h("button", { onclick: login, class: "main" }, "Give a token"));
}

// lost says that what is shown is old.
function lost() {
  main.classList.add("stale");
  link.className = "lost";
  put(link, `No connection to forsd. ${seen ? "This is as it was at " + clock(seen) + "." : ""} Trying again.`);
}

function found() {
  if (!link.className) return;
  put(link, "Connected again.");
  link.className = "back";
  setTimeout(() => { if (link.className === "back") { link.className = ""; put(link); } }, 5000);
}

async function begin() {
  try { site.me = await ask("/v1/whoami"); } catch { site.me = { role: "nobody" }; }
  put(byId("who"), `${site.me.user || "you"}: ${site.me.role}`, h("span", { class: "can" }, `, ${site.can()} `), site.me.way === "tls" || site.me.way === "token" ? h("button", { onclick: login }, "Token") : null);
  listen();
  draw();
}

// listen follows forsd's events while somebody can see the page.
function listen() {
  stop?.();
  stop = null;
  if (document.visibilityState === "hidden") return;
  stop = follow({ on: (kind, data) => { mark("forsd-event", kind); views[current]?.told?.(kind, data); mark("forsd-told", kind); draw(); }, connected: () => { found(); draw(); }, lost });
}

function login() {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", size: 40 });
  confirm("Token", [h("p", {}, "An administrator makes one by forsctl token create. It is forgotten when this tab is closed."), h("p", {}, h("label", {}, "Token ", field))], "Use it", () => { token.set(field.value.trim()); begin(); });
}

let back = null; // what the keyboard was at before the dialog

function shut() {
  dialog.close();
  if (back?.isConnected) back.focus(); else main.focus({ preventScroll: true });
}

function open(title, content) {
  if (!dialog.open) back = document.activeElement;
  put(dialog, h("h2", { id: "dialog-title" }, title), content);
  if (!dialog.open) dialog.showModal(); else dialog.querySelector("input, textarea, button").focus();
}

// confirm shows what an order would do, and carries it out when that is wanted.
function confirm(title, content, yes, then) {
  open(title, h("form", { method: "dialog", onsubmit: (e) => { e.preventDefault(); shut(); then(); } }, content,
    h("div", { class: "end" }, h("button", { type: "button", onclick: shut }, "Cancel"), h("button", { class: "main" }, yes))));
}

// run carries an order out and says what came of it.
async function run(title, f) {
  show(title, h("p", { role: "status" }, "Under way …"));
  try {
    const out = await f();
    show(title, h("p", { role: "status" }, out?.text || "Done."));
  } catch (err) {
    show(title, h("p", { role: "alert" }, err.message));
  }
  draw();
}

function show(title, content) {
  open(title, [content, h("div", { class: "end" }, h("button", { class: "main", onclick: shut }, "Close"))]);
}

addEventListener("hashchange", draw);
setInterval(() => { if (stop) draw(); }, 15_000); // counters and leases change without an event
document.addEventListener("visibilitychange", listen);
begin();
