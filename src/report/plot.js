'use strict';
// A drawing that scrolls and zooms in x and makes elements only for what is in view.

const NS = 'http://www.w3.org/2000/svg';
function svg(name, attributes, parent) {
  const e = document.createElementNS(NS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (parent) parent.appendChild(e);
  return e;
}
function html(name, attributes, parent, text) {
  const e = document.createElement(name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
// Text that fits `width` pixels, or nothing. Long names keep their head and what is behind the last dot, which tells them apart.
const ruler = document.createElement('canvas').getContext('2d'), widths = new Map();
function textWidth(text) {
  let w = widths.get(text);
  if (w === undefined) {
    if (!widths.size) ruler.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    widths.set(text, w = ruler.measureText(text).width);
  }
  return w;
}
function fit(text, width) {
  if (width < 12) return '';
  const w = textWidth(text);
  if (w <= width) return text;
  const last = text.slice(text.lastIndexOf('.') + 1), dotted = last.length < text.length;
  const most = Math.floor(text.length * (width - 11) / w) + 2;
  const longest = (head, tail, least) => {
    for (let k = Math.min(most, head.length - 1); k >= least; k--) {
      const t = head.slice(0, k).replace(/\.$/, '') + '\u2026' + tail;
      if (textWidth(t) <= width) return t;
    }
    return '';
  };
  return (dotted && longest(text.slice(0, -last.length), last, 0)) || longest(last, '', 2);
}

// Things with an extent, to be asked for what is in view. Long extents make it look at more, never miss one.
class Extents {
  constructor(items, low, high) {
    this.items = items.map(item => ({ item, low: low(item), high: high(item) })).sort((a, b) => a.low - b.low);
    let reach = -Infinity;
    this.reach = this.items.map(i => (reach = Math.max(reach, i.high)));
  }
  each(from, to, f) {
    let a = 0, b = this.items.length;
    while (a < b) { const m = (a + b) >> 1; if (this.reach[m] < from) a = m + 1; else b = m; }
    for (; a < this.items.length && this.items[a].low <= to; a++) if (this.items[a].high >= from) f(this.items[a].item);
  }
}

class Plot {
  // o: height() in pixels; units() along x; left: pixels of row labels; draw(plot, group, view)
  constructor(parent, label, o) {
    this.o = o; this.scale = 0; this.drawn = 0;
    this.root = html('div', { class: 'plot', tabindex: 0, role: 'group', 'aria-label': label }, parent);
    this.spacer = html('div', { class: 'spacer' }, this.root);
    this.svg = svg('svg', {}, this.spacer);
    this.root.addEventListener('scroll', () => this.later());
    this.root.addEventListener('wheel', e => { if (e.ctrlKey) { e.preventDefault(); this.zoom(e.deltaY < 0 ? 1.25 : 0.8, e.offsetX); } }, { passive: false });
    new ResizeObserver(() => this.later()).observe(this.root);
  }
  room() { return Math.max(this.root.clientWidth - this.o.left - 14, 50); }
  least() { return this.o.least ? Math.min(this.o.least, this.room() / this.o.units()) : this.room() / this.o.units(); }
  fit() { this.scale = 0; this.root.scrollLeft = 0; this.later(); }
  zoom(f, at) {
    const x = at === undefined ? this.room() / 2 : at - this.o.left, old = this.scale;
    const unit = (this.root.scrollLeft + x) / old;
    this.scale = Math.min(Math.max(old * f, this.least()), 8e6 / this.o.units(), this.o.most || Infinity);
    this.size();
    this.root.scrollLeft = unit * this.scale - x;
    this.later();
  }
  show(x0, x1) { // in units
    this.size();
    const a = x0 * this.scale, b = x1 * this.scale, s = this.root.scrollLeft;
    if (a < s || b > s + this.room()) this.root.scrollLeft = a - this.room() / 3;
    this.later();
  }
  print(on) { // all of it within the width, and back to where it was
    if (on) { this.before = [this.scale, this.root.scrollLeft]; this.scale = 0; this.root.scrollLeft = 0; }
    else if (this.before) { [this.scale, this.root.scrollLeft] = this.before; this.before = null; }
    this.whole = on;
    this.draw();
  }
  size() {
    if (!this.scale) this.scale = Math.max(this.room() / this.o.units(), this.whole ? 0 : this.o.first || 0);
    this.spacer.style.width = Math.ceil(this.o.units() * this.scale + this.o.left + 12) + 'px';
  }
  later() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }
  draw() {
    if (!this.root.clientWidth) return;
    this.size();
    const width = this.root.clientWidth, height = this.o.height(), left = this.o.left;
    this.svg.setAttribute('width', width); this.svg.setAttribute('height', height);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.textContent = '';
    const from = this.root.scrollLeft / this.scale, to = from + (width - left) / this.scale;
    const view = { from, to, width, height, left, scale: this.scale, x: u => left + (u - from) * this.scale };
    const clip = svg('clipPath', { id: 'clip-' + this.o.id }, svg('defs', {}, this.svg));
    svg('rect', { x: left, y: 0, width: width - left, height }, clip);
    const group = svg('g', { 'clip-path': `url(#clip-${this.o.id})` }, this.svg);
    this.o.draw(this, group, view);
    this.drawn++;
  }
}

// Round steps of about `pixels` at this scale.
function ticks(scale, pixels) {
  const raw = pixels / scale, base = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(k => k * base).find(s => s >= raw);
}
function drawTimeAxis(layout, group, view, y) {
  const step = ticks(view.scale, 90), digits = Math.max(0, -Math.floor(Math.log10(step)));
  let last = -Infinity;
  for (const p of layout.pieces) {
    if (p.x1 < view.from || p.x0 > view.to) continue;
    const from = p.t0 + Math.max(view.from - p.x0, 0), to = p.t0 + Math.min(p.x1, view.to) - p.x0;
    for (let t = Math.ceil(from / step - 1e-6) * step; t <= to + 1e-9; t += step) {
      const x = view.x(p.x0 + t - p.t0);
      svg('line', { class: 'axis', x1: x, x2: x, y1: y, y2: view.height }, group);
      if (x - last > 64) { svg('text', { class: 'dim', x: x + 4, y: y + 2 }, group).textContent = t.toFixed(digits) + ' us'; last = x; }
    }
  }
}
function arrow(group, x1, y1, x2, y2, kind, bend) {
  const c = bend === undefined ? Math.max(14, Math.abs(x2 - x1) / 2) : bend;
  svg('path', { class: 'edge ' + kind, d: `M${x1} ${y1}C${x1 + c} ${y1} ${x2 - c} ${y2} ${x2 - 4} ${y2}` }, group);
  svg('path', { class: 'tip', d: `M${x2} ${y2}l-7 -3.2v6.4z` }, group);
}
