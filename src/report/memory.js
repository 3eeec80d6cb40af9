'use strict';
// The slab: time to the right, addresses upwards.

const MEM = 380, MTOP = 30;
function buildMemory(panel) {
  const note = html('p', { class: 'note' }, panel);
  const top = () => Math.max(state.m.slab, state.m.slab_bound, 1) * 1.06;
  const y = bytes => MTOP + MEM * (1 - bytes / top());
  const level = (p, view, bytes, kind, text, below) => {
    svg('line', { class: kind, x1: view.left, x2: view.width, y1: y(bytes), y2: y(bytes) }, p.svg);
    svg('text', { class: 'dim', x: view.width - 8, y: y(bytes) + (below ? 14 : -5), 'text-anchor': 'end' }, p.svg).textContent = text;
  };
  const plot = new Plot(panel, 'Memory: time to the right, addresses upwards', {
    id: 'memory', left: 92, height: () => MTOP + MEM + 16, units: () => state.layout.units,
    draw(p, group, view) {
      const m = state.m, l = state.layout;
      drawTimeAxis(l, group, view, 12);
      const step = Math.pow(2, Math.ceil(Math.log2(60 * top() / MEM)));
      for (let b = 0; b < top(); b += step) svg('text', { class: 'dim', x: view.left - 8, y: y(b) + 4, 'text-anchor': 'end' }, p.svg).textContent = formatBytes(b);
      const seen = new Set(), narrow = new Map(); // too narrow to point at: one shape for each colour, once in every few pixels
      l.slots.each(view.from, view.to, b => {
        const x0 = l.place(b.start), x1 = l.until(b.start, b.end);
        const mark = (state.hotBuffer || state.buffer) === b ? ' sel' : (state.hot || state.op) && b.uses.some(u => u.op === (state.hot || state.op)) ? ' hot' : '';
        const w = Math.max((x1 - x0) * view.scale - 1, 1), h = Math.max(y(b.offset) - y(b.offset + b.bytes) - 1, 1.5);
        if (w < 3 && !mark) {
          const key = Math.round(view.x(x0) / 4) + '/' + b.offset, color = b.uses[0].op.color;
          if (!seen.has(key)) narrow.set(color, (narrow.get(color) || '') + `M${view.x(x0).toFixed(1)} ${y(b.offset + b.bytes).toFixed(1)}h3v${h.toFixed(1)}h-3z`);
          seen.add(key);
          return;
        }
        svg('rect', { class: `slot ${b.uses[0].op.color}${mark}`, x: view.x(x0), y: y(b.offset + b.bytes), width: w, height: h, rx: Math.min(3, h / 3), 'data-buffer': b.id }, group);
        const text = h > 13 ? fit(b.name, w - 8) : '';
        if (text) svg('text', { x: Math.max(view.x(x0), view.left) + 5, y: y(b.offset + b.bytes) + h / 2 + 4 }, group).textContent = text;
      });
      for (const [color, d] of narrow) svg('path', { class: 'slot ' + color, d }, group);
      drawGapBands(group, view);
      level(p, view, m.slab, 'peak', `slab ${formatBytes(m.slab)}`);
      if (m.slab_bound !== m.slab) level(p, view, m.slab_bound, 'bound', `bound ${formatBytes(m.slab_bound)}`, true);
      const at = view.x(l.place(m.peak.at));
      if (at >= view.left && m.peak.op && l.placed[m.peak.op.id] >= 0) { svg('line', { class: 'peak', x1: at, x2: at, y1: MTOP, y2: MTOP + MEM }, group); svg('text', { class: 'dim', x: at + 4, y: MTOP + 10 }, group).textContent = 'peak'; }
    },
  });
  watch(plot.svg);
  return {
    plot,
    refresh() {
      const m = state.m, sum = m.temps.reduce((n, b) => n + b.bytes, 0);
      note.textContent = `${m.temps.length} temporaries of ${formatBytes(sum)} share a slab of ${formatBytes(m.slab)}; no placement can do with less than ` +
        `${formatBytes(m.slab_bound)}. ${formatBytes(m.peak.bytes)} are in use at once at the peak, by these times` +
        (m.peak.op ? `, when ${m.peak.op.name} starts` + (state.layout.placed[m.peak.op.id] < 0 ? ' (not in the repeats drawn: u unfolds).' : '.') : '.');
    },
    show(op) { const x = state.layout.placed[op.id]; if (x >= 0) plot.show(x, x + op.end - op.start); },
  };
}
function drawGapBands(group, view) {
  for (const g of state.layout.gaps) {
    if (g.x1 < view.from || g.x0 > view.to) continue;
    const x = view.x(g.x0), w = (g.x1 - g.x0) * view.scale;
    svg('rect', { class: 'gap', x: x + 3, y: MTOP, width: Math.max(w - 6, 1), height: MEM, rx: 6, 'data-gap': g.first }, group);
    svg('text', { class: 'dim', x: x + w / 2, y: MTOP + MEM / 2, 'text-anchor': 'middle' }, group).textContent = w > 100 ? `${g.count} more times` : `\u00d7 ${g.count + 1}`;
  }
}
