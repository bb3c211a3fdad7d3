// A matrix drawn on a canvas as large as what is seen of it, however many cells there are.
// One cell is an element: the one that the keyboard is at, which says what it is.
import { h } from "./dom.js";

const least = 5, most = 64, gap = 4; // pixels: of a cell, and between groups

// places are where the lines of one direction begin, groups apart from each other.
function places(lines, size) {
  const out = [0];
  lines.forEach((x, i) => out.push(out[i] + size + (lines[i + 1] && lines[i + 1].group !== x.group ? gap : 0)));
  return out;
}

// at is the line that a place is on, -1 for none.
function at(list, x) {
  let low = 0, high = list.length - 1;
  if (x < 0 || x >= list[high]) return -1;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (list[mid] <= x) low = mid; else high = mid;
  }
  return low;
}

export class Matrix {
  // paint draws one cell; choose is told of the line or cell that is chosen.
  constructor({ label, paint, choose, point = () => {}, tall = 0.68 }) {
    Object.assign(this, { paintCell: paint, choose, point, tall, data: { rows: [], cols: [], cell: () => null }, size: 0, fitted: 12, cursor: [0, 0], over: null, found: null, begun: false });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.line = h("div", { role: "row" });
    this.inner = h("div", { role: "grid", class: "inner", "aria-label": label }, this.canvas, this.line);
    this.element = h("div", { class: "matrix" }, this.inner);
    this.element.addEventListener("scroll", () => { this.placeCursor(); this.redraw(); }, { passive: true });
    this.element.addEventListener("wheel", (e) => { if (e.ctrlKey) { e.preventDefault(); this.zoom(e.deltaY < 0 ? 1.25 : 0.8, e); } }, { passive: false });
    this.inner.addEventListener("keydown", (e) => this.key(e));
    this.inner.addEventListener("click", (e) => { const p = e.target === this.canvas && this.hit(e); if (p) { this.move(p, true); this.chosen(p); } });
    this.inner.addEventListener("pointermove", (e) => this.hover(this.hit(e)));
    this.inner.addEventListener("pointerleave", () => this.hover(null));
    new ResizeObserver(() => this.layout()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colours = null; this.redraw(); });
  }

  // set shows rows and columns ({key, name, group}) and what cell(row, column) is of.
  // Where cells would be small, and are larger with the longer side across, it is across.
  set(data) {
    const { rows, cols, cell } = data;
    const room = (down, across) => Math.min(((this.element.clientWidth || innerWidth) - 100) / across, (innerHeight * this.tall - 100) / down);
    this.turned = room(rows.length, cols.length) < 14 && room(cols.length, rows.length) > room(rows.length, cols.length);
    if (this.turned) data = { ...data, id: data.id + " turned", rows: cols, cols: rows, cell: (r, c) => cell(c, r) };
    const same = data.rows.length === this.data.rows.length && data.cols.length === this.data.cols.length && data.id === this.data.id;
    this.data = data;
    this.inner.setAttribute("aria-rowcount", data.rows.length + 1);
    this.inner.setAttribute("aria-colcount", data.cols.length + 1);
    if (!same) { this.cursor = [0, 0]; this.size = 0; this.measured = null; }
    this.layout();
    this.showCursor(false);
  }

  colour(name) {
    this.colours ??= {};
    return this.colours[name] ??= getComputedStyle(this.element).getPropertyValue("--" + name).trim();
  }

  // layout fits the canvas to the window and the cells to the canvas.
  layout() {
    const { rows, cols } = this.data, width = this.element.clientWidth;
    if (!width || !rows.length) return;
    const ctx = this.canvas.getContext("2d");
    this.scale = parseFloat(getComputedStyle(this.element).fontSize) / 16;
    if (!this.measured) {
      ctx.font = `${14 * this.scale}px system-ui, sans-serif`;
      const longest = (list, most) => Math.min(most * this.scale, Math.max(...list.map((x) => ctx.measureText(x.name).width)) + 14);
      this.measured = [longest(rows, 190), longest(cols, 120)];
    }
    [this.left, this.top] = [Math.min(this.measured[0], width * 0.3), this.measured[1]];
    const high = Math.max(240, innerHeight * this.tall);
    this.fitted = Math.max(least, Math.min(34 * this.scale, Math.floor(Math.min((width - this.left - 2) / cols.length, (high - this.top) / rows.length))));
    this.cellSize = this.size || this.fitted;
    this.element.dataset.cells = `${this.turned ? 1 : 0} ${this.cellSize} ${this.left} ${this.top}`;
    [this.xs, this.ys] = [places(cols, this.cellSize), places(rows, this.cellSize)];
    const all = [this.left + this.xs.at(-1) + 2, this.top + this.ys.at(-1) + 2];
    this.inner.style.width = all[0] + "px";
    this.inner.style.height = all[1] + "px";
    this.element.style.height = Math.min(all[1], high) + (all[0] > width ? 18 : 2) + "px";
    const ratio = devicePixelRatio || 1, w = Math.min(width, all[0]), hgt = Math.min(this.element.clientHeight, all[1]);
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(hgt * ratio)) {
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(hgt * ratio);
      this.canvas.style.width = w + "px";
      this.canvas.style.height = hgt + "px";
    }
    this.placeCursor();
    this.redraw();
  }

  redraw() {
    if (this.begun) return;
    this.begun = true;
    requestAnimationFrame(() => { this.begun = false; if (this.xs) this.draw(); });
  }

  draw() {
    const begun = performance.now(), { rows, cols, cell } = this.data, ctx = this.canvas.getContext("2d"), ratio = devicePixelRatio || 1;
    const w = this.canvas.width / ratio, hgt = this.canvas.height / ratio, x0 = this.element.scrollLeft, y0 = this.element.scrollTop, s = this.cellSize;
    const first = (list, x) => Math.max(0, at(list, Math.max(0, x)));
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = this.colour("page");
    ctx.fillRect(0, 0, w, hgt);
    ctx.textBaseline = "middle";
    const rowsSeen = [], colsSeen = [];
    for (let r = first(this.ys, y0); r < rows.length && this.ys[r] - y0 + this.top < hgt; r++) rowsSeen.push(r);
    for (let c = first(this.xs, x0); c < cols.length && this.xs[c] - x0 + this.left < w; c++) colsSeen.push(c);
    for (const r of rowsSeen) {
      const y = this.ys[r] - y0 + this.top;
      for (const c of colsSeen) {
        const x = cell(r, c);
        if (!x) continue;
        ctx.globalAlpha = this.found && !this.found(rows[r], cols[c]) ? 0.25 : 1;
        this.paintCell(ctx, this.xs[c] - x0 + this.left, y, s, x, this);
      }
    }
    ctx.globalAlpha = 1;
    this.names(ctx, rowsSeen, colsSeen, w, hgt, x0, y0);
    performance.clearMeasures("forsd-matrix");
    performance.measure("forsd-matrix", { start: begun }); // for those who measure
  }

  // names are drawn over the cells that are scrolled below them, as many as have room.
  names(ctx, rowsSeen, colsSeen, w, hgt, x0, y0) {
    const { rows, cols } = this.data, s = this.cellSize, font = this.scale * Math.max(10, Math.min(14, s * 0.8 / this.scale)), every = Math.ceil((font + 1) / s);
    const [overRow, overCol] = this.over || [-1, -1];
    ctx.font = `${font}px system-ui, sans-serif`;
    ctx.fillStyle = this.colour("page");
    ctx.fillRect(0, 0, this.left, hgt);
    ctx.fillRect(0, 0, w, this.top);
    const name = (line, over, far) => {
      ctx.globalAlpha = this.found && !this.found(line) && !over ? 0.35 : 1;
      ctx.font = `${over ? "bold " : ""}${font}px system-ui, sans-serif`;
      ctx.fillStyle = this.colour(over ? "accent" : line.gone ? "down" : "text");
      ctx.fillText(line.name, far ? -6 : 0, 0);
    };
    ctx.save();
    ctx.beginPath(); ctx.rect(0, this.top - font / 2, this.left, hgt); ctx.clip();
    ctx.textAlign = "right";
    for (const r of rowsSeen) {
      if (r % every && r !== overRow || overRow >= 0 && r !== overRow && Math.abs(r - overRow) < every) continue;
      ctx.save();
      ctx.translate(this.left, this.ys[r] - y0 + this.top + s / 2);
      name(rows[r], r === overRow, true);
      ctx.restore();
    }
    ctx.restore();
    ctx.save();
    ctx.beginPath(); ctx.rect(this.left - font / 2, 0, w, this.top); ctx.clip();
    ctx.textAlign = "left";
    for (const c of colsSeen) {
      if (c % every && c !== overCol || overCol >= 0 && c !== overCol && Math.abs(c - overCol) < every) continue;
      ctx.save();
      ctx.translate(this.xs[c] - x0 + this.left + s / 2, this.top - 5);
      ctx.rotate(-Math.PI / 2);
      name(cols[c], c === overCol, false);
      ctx.restore();
    }
    ctx.restore();
    ctx.globalAlpha = 1;
  }

  // hit is the row and column at the pointer, -1 for a name; null beside them.
  hit(e) {
    if (!this.xs) return null;
    const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
    if (x < 0 || y < 0 || x > box.width || y > box.height) return null;
    const c = x < this.left ? -1 : at(this.xs, x - this.left + this.element.scrollLeft), r = y < this.top ? -1 : at(this.ys, y - this.top + this.element.scrollTop);
    if (x >= this.left && c < 0 || y >= this.top && r < 0 || r < 0 && c < 0) return null;
    return [r, c];
  }

  what([r, c]) {
    const { rows, cols, cell } = this.data;
    return r < 0 ? { line: cols[c] } : c < 0 ? { line: rows[r] } : { cell: cell(r, c) };
  }

  hover(p) {
    if (p?.[0] === this.over?.[0] && p?.[1] === this.over?.[1]) return;
    this.over = p;
    this.redraw();
    const x = p && this.what(p);
    this.point(x ? x.line?.label || x.line?.name || x.cell?.label || "" : "");
  }

  chosen(p) {
    const x = this.what(p);
    if (x.line || x.cell) this.choose(x);
  }

  key(e) {
    const { rows, cols } = this.data, page = Math.max(1, Math.floor((this.element.clientHeight - this.top) / this.cellSize) - 1);
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e6], End: [0, 1e6], PageUp: [-page, 0], PageDown: [page, 0] }[e.key];
    const zoom = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 }[e.key];
    if (e.altKey || e.metaKey || e.ctrlKey && !["Home", "End"].includes(e.key)) return;
    if (zoom !== undefined) { e.preventDefault(); this.zoom(zoom); return; }
    if (!step) return;
    e.preventDefault();
    const up = e.ctrlKey ? step[1] : step[0], [r, c] = this.cursor;
    const low = e.ctrlKey ? 0 : -1, next = [Math.max(low, Math.min(rows.length - 1, r + up)), Math.max(low, Math.min(cols.length - 1, c + step[1]))];
    if (next[0] < 0 && next[1] < 0) return;
    this.move(next, true);
  }

  // zoom makes cells larger or smaller, and fits them for 0; the pointer stays where it is.
  zoom(by, e) {
    if (!this.xs) return;
    const box = this.canvas.getBoundingClientRect(), was = this.cellSize;
    const [px, py] = e ? [e.clientX - box.left - this.left, e.clientY - box.top - this.top] : [(box.width - this.left) / 2, (box.height - this.top) / 2];
    const [x, y] = [px + this.element.scrollLeft, py + this.element.scrollTop];
    this.size = by ? Math.max(least, Math.min(most, by > 1 ? Math.ceil(was * by) : Math.floor(was * by))) : 0;
    this.layout();
    this.element.scrollTo(x * this.cellSize / was - px, y * this.cellSize / was - py);
  }

  // go shows a row and a column as they were set, -1 for a name.
  go(r, c) { this.move(this.turned ? [c, r] : [r, c], false); }

  // move has the keyboard at a cell, or at a name, and scrolls there.
  move([r, c], focus) {
    this.cursor = [r, c];
    const box = this.element, s = this.cellSize || 0;
    if (this.xs) {
      if (c >= 0) box.scrollLeft = Math.min(Math.max(box.scrollLeft, this.xs[c] + s + this.left - box.clientWidth + 2), this.xs[c]);
      if (r >= 0) box.scrollTop = Math.min(Math.max(box.scrollTop, this.ys[r] + s + this.top - box.clientHeight + 2), this.ys[r]);
    }
    this.showCursor(focus);
  }

  // showCursor makes the element that the keyboard is at anew, so that it is read out.
  showCursor(focus) {
    const [r, c] = this.cursor, x = this.what(this.cursor), old = this.line.firstChild;
    const label = x.line ? x.line.label || x.line.name : x.cell?.label || "no cable";
    if (old && !focus && old.getAttribute("aria-label") === label) return;
    const had = old === document.activeElement && old;
    const b = h("button", { type: "button", role: r < 0 ? "columnheader" : c < 0 ? "rowheader" : "gridcell", class: "cursor", "aria-colindex": c + 2, "aria-label": label, "data-state": x.cell?.state, onclick: () => this.chosen(this.cursor) });
    this.line.setAttribute("aria-rowindex", r + 2);
    this.line.replaceChildren(b);
    this.placeCursor();
    if (focus || had) b.focus({ preventScroll: true });
  }

  placeCursor() {
    const b = this.line.firstChild, [r, c] = this.cursor;
    if (!b || !this.xs) return;
    const { scrollLeft: x0, scrollTop: y0 } = this.element, s = this.cellSize;
    b.style.left = (c < 0 ? x0 : this.left + this.xs[c]) + "px";
    b.style.top = (r < 0 ? y0 : this.top + this.ys[r]) + "px";
    b.style.width = (c < 0 ? this.left : s) + "px";
    b.style.height = (r < 0 ? this.top : s) + "px";
    b.style.opacity = r >= 0 && this.ys[r] < y0 || c >= 0 && this.xs[c] < x0 ? 0 : 1; // below the names
  }
}
