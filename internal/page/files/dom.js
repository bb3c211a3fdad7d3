// Elements, made of text alone: nothing that forsd answers is ever read as HTML.

export function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false).map((c) => c instanceof Node ? c : String(c)));
  return e;
}

// put has an element hold these children and no others.
export const put = (e, ...children) => e.replaceChildren(...children.flat().filter((c) => c));

export const clock = (t) => t ? new Date(t).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }) : "never";
export const ms = (n) => n ? (n < 10 ? n.toFixed(1) : Math.round(n)) + " ms" : "–";

export function table(caption, head, rows) {
  return h("table", { class: "list" }, h("caption", { class: "faint" }, caption),
    h("thead", {}, h("tr", {}, head.map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.map((x) => h("td", {}, x))))));
}

// facts is a table of two columns: what, and what it is.
export const facts = (caption, rows) => h("table", { class: "list" }, h("caption", { class: "faint" }, caption), h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))));
