'use strict';
// Streams as rows, time to the right.

const ROW = 58, BAR = 30, TOP = 30;
function rowY(stream) { return TOP + state.m.rowOf[stream] * ROW + 10; }

// Bars of one stream; those too narrow to see alone become one. What is launched early waits within its time: a strip above the
// bar, up to the end of the op before it.
function drawBars(stream, group, view) {
  const m = state.m, l = state.layout, y = rowY(stream);
  let run = null, before = -Infinity;
  const flush = () => {
    if (run) svg('rect', { class: 'bar ' + run.color, x: run.a, y, width: Math.max(run.b - run.a, 1), height: BAR, 'data-op': run.op }, group);
    run = null;
  };
  l.bars[stream].each(view.from, view.to, op => {
    const from = view.x(l.placed[op.id]), b = from + (op.end - op.start) * view.scale, a = Math.min(Math.max(from, before), b - 1), w = b - a;
    before = Math.max(before, b);
    if (a - from > 2) svg('rect', { class: 'bar early ' + op.color, x: from + 0.5, y: y - 7, width: a - from, height: 5, 'data-op': op.id }, group);
    if (w < 2.5) {
      if (run && a - run.a < 2.5) run.b = Math.max(run.b, a + w);
      else { flush(); run = { a, b: a + w, color: op.color, op: op.id }; }
      return;
    }
    flush();
    const mark = state.op === op ? ' sel' : state.hot === op ? ' hot' : '';
    svg('rect', { class: 'bar ' + op.color + mark, x: a + 0.5, y, width: Math.max(w - 1, 1), height: BAR, rx: Math.min(4, w / 4), 'data-op': op.id }, group);
    if (op.critical) svg('rect', { class: 'crit', x: a + 0.5, y: y + BAR - 3, width: Math.max(w - 1, 1), height: 3 }, group);
    const left = Math.max(a, view.left), text = fit(l.label(op), a + w - left - 9);
    if (text) svg('text', { x: left + 5, y: y + 19 }, group).textContent = text;
  });
  flush();
}

function drawForks(group, view) {
  const l = state.layout, meant = state.hot || state.op;
  let n = 0;
  l.forks.each(view.from, view.to, e => {
    const x1 = l.placed[e.from.id] + e.from.end - e.from.start, x2 = l.placed[e.to.id];
    const seen = e.from === meant || e.to === meant || Math.max(e.from.end - e.from.start, e.to.end - e.to.start) * view.scale > 3;
    if (!seen || ++n > 400) return;
    const kind = (e.pdl ? 'pdl' : '') + (e.from === meant || e.to === meant ? ' near' : '');
    const a = view.x(x1), b = view.x(x2), y1 = rowY(e.from.stream), y2 = rowY(e.to.stream);
    if (y1 === y2) { if (a <= b + 2) svg('path', { class: 'edge ' + kind, d: `M${a - 6} ${y1 - 2}Q${(a + b) / 2} ${y1 - 12} ${b + 6} ${y1 - 2}` }, group); } else {
      const down = y2 > y1, from = y1 + (down ? BAR : 0), to = y2 + (down ? -1 : BAR + 1), mid = (from + to) / 2;
      svg('path', { class: 'edge ' + kind, d: `M${a - 1} ${from}C${a - 1} ${mid} ${b + 2} ${mid} ${b + 2} ${to}` }, group);
      svg('path', { class: 'tip', d: `M${b + 2} ${to}l-3.4 ${down ? -7 : 7}h6.8z` }, group);
    }
  });
}

function drawGaps(group, view) {
  for (const g of state.layout.gaps) {
    if (g.x1 < view.from || g.x0 > view.to) continue;
    const x = view.x(g.x0), w = (g.x1 - g.x0) * view.scale, height = view.height - TOP - 12;
    svg('rect', { class: 'gap', x: x + 3, y: TOP + 4, width: Math.max(w - 6, 1), height, rx: 6, 'data-gap': g.first }, group);
    const words = w > 150 ? [`${g.count} more time${many(g.count)}`, `${g.count * g.period} op${many(g.count * g.period)}`, ...(g.each ? [`each ${formatTime(g.each[0])} to ${formatTime(g.each[1])}`] : []), ...(g.overlap ? ['repeats overlap'] : []), 'u unfolds'] : [`\u00d7 ${g.count + 1}`];
    words.forEach((t, i) => { svg('text', { class: 'dim', x: x + w / 2, y: TOP + height / 2 + 4 + (i - (words.length - 1) / 2) * 16, 'text-anchor': 'middle' }, group).textContent = t; });
  }
}

function buildSchedule(panel) {
  const note = html('p', { class: 'note' }, panel);
  const plot = new Plot(panel, 'Schedule: streams as rows, time to the right', {
    id: 'schedule', left: 92, height: () => TOP + state.m.streamRows.length * ROW + 8, units: () => state.layout.units,
    draw(p, group, view) {
      drawTimeAxis(state.layout, group, view, 12);
      drawGaps(group, view);
      for (const s of state.m.streamRows) {
        svg('line', { class: 'rule', x1: 0, x2: view.width, y1: rowY(s) + BAR + 14, y2: rowY(s) + BAR + 14 }, p.svg);
        svg('text', { class: 'head', x: 12, y: rowY(s) + 14 }, p.svg).textContent = fit(data.streams[s], 76);
        svg('text', { class: 'dim', x: 12, y: rowY(s) + 28 }, p.svg).textContent = `${state.m.byStream[s].length} op${many(state.m.byStream[s].length)}`;
        drawBars(s, group, view);
      }
      drawForks(group, view);
    },
  });
  watch(plot.svg);
  const legend = html('div', { class: 'legend' }, panel);
  const refresh = () => {
    const m = state.m;
    note.textContent = (m.measured ? 'Times are measured.' : 'Times are estimates of the cost model.') +
      ` ${formatTime(m.length)} in all` + (!m.measured && m.estimate_us > m.length * 1.0005 ? ` as drawn, ${formatTime(m.estimate_us)} with what forks and overlap cost` : '') + (m.total_us > m.length * 1.0005 ? `, ${formatTime(m.total_us)} on one stream${m.measured ? ' by the estimates' : ''}.` : '.') +
      (m.measured && m.edges.some(e => e.pdl) ? ' Strips above bars: launched early, waiting for the op before.' : '');
    legend.textContent = '';
    m.kinds.forEach((k, i) => { const s = html('span', {}, legend); html('i', { class: `swatch k${i % 14}` }, s); s.append(k); });
    const s = html('span', {}, legend); html('i', { class: 'swatch red' }, s); s.append('critical path');
    if (m.edges.some(e => e.pdl)) html('span', {}, legend, 'dashed: programmatic edge');
  };
  return {
    plot, refresh,
    show(op) { const x = state.layout.placed[op.id]; if (x >= 0) plot.show(x, x + op.end - op.start); },
  };
}
