// Elements, made of text alone: nothing that forsd answers is ever read as HTML.

const handlers = ["click", "input", "change", "submit", "keydown"].map((n) => "on" + n);

function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith("on")) e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...nodes(children));
  return e;
}

const nodes = (children) => children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== "").map((c) => c instanceof Node ? c : document.createTextNode(String(c)));

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// put has an element hold these children and no others.
export const put = (e, ...children) => e.replaceChildren(...nodes(children));

// keep is an element that renew leaves as it is once make has filled it.
export function keep(id, make) {
  const e = h("div", { id, "data-keep": "" });
  e.make = make;
  return e;
}

// renew is put, but changes what is there instead of replacing it: the focus, the place
// that one has scrolled to and what one has typed stay.
export function renew(e, ...children) {
  sync(e, nodes(children));
  for (const k of e.querySelectorAll("[data-keep]")) {
    if (k.make) { k.make(k); k.make = null; }
  }
}

function sync(e, next) {
  let old = e.firstChild;
  for (const n of next) {
    let match = old;
    if (n.id) while (match && match.id !== n.id) match = match.nextSibling;
    else if (old?.id) match = null;
    if (!match || match.nodeName !== n.nodeName) { e.insertBefore(n, old); continue; }
    while (old !== match) old = drop(old);
    old = match.nextSibling;
    become(match, n);
  }
  while (old) old = drop(old);
}

function drop(e) {
  const next = e.nextSibling;
  e.remove();
  return next;
}

function become(old, n) {
  if (n.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== n.data) old.data = n.data;
    return;
  }
  if (n.hasAttribute("data-keep")) return;
  for (const a of [...old.attributes]) if (!n.hasAttribute(a.name) && a.name !== "open" && a.name !== "style") old.removeAttribute(a.name);
  for (const a of n.attributes) if (a.name !== "value" && a.name !== "style" && a.name !== "selected" && old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  for (const name of handlers) if (old[name] !== n[name]) old[name] = n[name];
  if (n.style?.cssText !== old.style?.cssText) old.style.cssText = n.style.cssText;
  sync(old, [...n.childNodes]);
}

const two = (n) => String(n).padStart(2, "0");

// clock is a time as forsctl prints it.
export function clock(t) {
  if (!t) return "never";
  const d = new Date(t);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
export const when = (t) => h("time", { datetime: t }, clock(t));
export const ms = (n) => n ? (n < 10 ? n.toFixed(1) : Math.round(n)) + " ms" : "–";
export const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;
export const some = (list, most = 3) => list.slice(0, most).join("; ") + (list.length > most ? `; and ${list.length - most} more` : "");

// table is one that scrolls by itself where the window is narrower.
export function table(caption, head, rows, attributes = {}) {
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, h("table", { class: "list", ...attributes }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head.map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.map((x) => h("td", {}, x)))))));
}

// facts is a list of what, and what it is.
export const facts = (rows) => h("dl", { class: "facts" }, rows.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

export const pick = (attributes, options, chosen) => h("select", attributes, options.map(([value, name, off]) => h("option", { value, selected: String(value) === String(chosen), disabled: off }, name)));

// compared says how a number of phases compares with another one.
export const compared = (phases, other, what = `now (${other})`) => phases > other ? `${(100 * (phases - other) / other).toFixed(1)} % longer than ${what}` : phases < other ? `${(100 * (other - phases) / other).toFixed(1)} % shorter than ${what}` : `as long as ${what}`;
