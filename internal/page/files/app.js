// forsd's page: one view at a time, redrawn when forsd tells of something.
import { h, put, clock } from "./dom.js";
import { ask, follow, token, Refusal } from "./ask.js";
import * as now from "./now.js";
import * as fabric from "./fabric.js";
import * as plan from "./plan.js";
import * as history from "./history.js";
import * as jobs from "./jobs.js";

const views = { now, fabric, plan, history, jobs };
const main = document.getElementById("main");
const dialog = document.getElementById("dialog");
const link = document.getElementById("link");
const order = ["nobody", "reader", "viewer", "operator", "administrator"];

// site is what the views know: who asks, the last answers, and how to ask.
export const site = { me: { role: "nobody" }, status: null, may: (role) => order.indexOf(site.me.role) >= order.indexOf(role), ask, confirm, run, show };

let current = "", drawing = 0, seen = 0, stop = null;

async function draw(fresh) {
  const [, name = "now", argument = ""] = location.hash.match(/^#\/(\w+)\/?(.*)$/) || [];
  const view = views[name] || now;
  const changed = current !== name;
  current = name;
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === "#/" + name) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  const mine = ++drawing;
  try {
    site.status = await ask("/v1/status");
    seen = Date.now();
    const parts = await view.draw(site, decodeURIComponent(argument), fresh && !changed);
    if (mine !== drawing) return;
    if (parts) put(main, parts);
    main.classList.remove("stale");
    document.title = `${view.title} – forsd, epoch ${site.status.epoch}`;
    if (changed && fresh === false) main.focus({ preventScroll: true });
  } catch (err) {
    if (mine !== drawing) return;
    if (err instanceof Refusal) refused(err); else lost();
  }
}

function refused(err) {
  put(main, h("h1", {}, "forsd refuses"), h("p", { role: "alert" }, err.message), err.status === 401 && h("button", { onclick: login, class: "main" }, "Give a token"));
}

// lost says that what is shown is old.
function lost() {
  main.classList.add("stale");
  link.className = "lost";
  link.textContent = `No connection to forsd. ${seen ? "This is as it was at " + clock(seen) + "." : ""} Trying again.`;
}

function found() {
  if (link.className) link.textContent = "Connected again.";
  link.className = "";
}

let soon = 0;
function later() {
  clearTimeout(soon);
  soon = setTimeout(() => draw(true), 60);
}

async function begin() {
  stop?.();
  try { site.me = await ask("/v1/whoami"); } catch { site.me = { role: "nobody" }; }
  put(document.getElementById("who"), `${site.me.user || "you"}: ${site.me.role} `, site.me.way === "tls" || site.me.way === "token" ? h("button", { onclick: login }, "Token") : null);
  stop = follow({ on: (kind, data) => { views[current]?.told?.(kind, data); later(); }, connected: () => { found(); later(); }, lost });
  draw(true);
}

function login() {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", size: 50 });
  ask_(h("h2", { id: "dialog-title" }, "Token"), [h("p", {}, h("label", { for: "token" }, "An administrator makes one by forsctl token create. It is forgotten when this tab is closed. ")), field], "Use it", () => { token.set(field.value.trim()); begin(); });
}

function ask_(title, content, yes, then) {
  const back = document.activeElement;
  const close = () => { dialog.close(); back?.focus?.(); };
  put(dialog, h("form", { method: "dialog", onsubmit: (e) => { e.preventDefault(); close(); then(); } }, title, content,
    h("div", { class: "end" }, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { class: "main" }, yes))));
  dialog.showModal();
}

// confirm shows what an order would do, and carries it out when that is wanted.
function confirm(title, content, yes, then) { ask_(h("h2", { id: "dialog-title" }, title), content, yes, then); }

// run carries an order out and says what came of it.
async function run(title, f) {
  show(title, h("p", {}, "Under way …"));
  try {
    const out = await f();
    show(title, h("p", { role: "status" }, out?.text || "Done."));
  } catch (err) {
    show(title, h("p", { role: "alert" }, err.message));
  }
  draw(true);
}

function show(title, content) {
  put(dialog, h("h2", { id: "dialog-title" }, title), content, h("div", { class: "end" }, h("button", { class: "main", onclick: () => { dialog.close(); main.focus({ preventScroll: true }); } }, "Close")));
  if (!dialog.open) dialog.showModal();
}

addEventListener("hashchange", () => draw(false));
begin();
