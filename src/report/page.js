'use strict';
// Panels, keys, theme.

const panels = [['schedule', 'Schedule', buildSchedule], ['graph', 'Graph', buildGraph], ['memory', 'Memory', buildMemory], ['numbers', 'Numbers', buildNumbers],
  ['source', 'Source', buildSource]].map(([id, title, build]) => ({ id, title, build, stale: true }));
let current = 'schedule';
const byId = id => document.getElementById(id);

function tiles(m) {
  const box = byId('tiles');
  box.textContent = '';
  const tile = (value, what) => { const t = html('div', { class: 'tile' }, box); html('b', {}, t, value); html('span', {}, t, what); };
  const over = (n, bound) => n <= bound ? 'at the bound' : `bound ${bound}, +${percent(n / Math.max(bound, 1) - 1)}`;
  tile(m.ops.length, `op${many(m.ops.length)} in ${data.kernels} kernel${many(data.kernels)}`);
  tile(m.streamRows.length, 'stream' + many(m.streamRows.length));
  if (m.measured_lane) tile(new Set(m.measured_lane).size, `lanes measured, ${m.lanes} predicted`);
  else tile(m.lanes, `lane${many(m.lanes)} predicted`);
  tile(m.events, `event${many(m.events)}, ${over(m.events, m.events_bound)}`);
  tile(formatBytes(m.slab), m.slab <= m.slab_bound ? 'slab, at the bound' : `slab, bound ${formatBytes(m.slab_bound)}`);
  tile(formatTime(m.measured ? m.length : m.estimate_us), m.measured ? `measured, ${formatTime(m.estimate_us)} estimated` : 'estimated');
  tile(formatTime(m.total_us), m.measured ? 'on one stream, estimated' : 'on one stream');
  tile(formatTime(m.floor_us), 'floor by bytes');
}

function refreshPanel(p) {
  if (p.stale) p.view.refresh();
  p.stale = false;
  if (p.view.plot) p.view.plot.later();
  if (p.view.mark) p.view.mark(false);
}
function showPanel(id) {
  current = id;
  for (const p of panels) {
    p.root.hidden = p.id !== id;
    p.tab.setAttribute('aria-selected', p.id === id);
    p.tab.tabIndex = p.id === id ? 0 : -1;
    if (p.id === id) { refreshPanel(p); if (state.op) requestAnimationFrame(() => p.view.show(state.op)); }
  }
}
function layOut() {
  state.layout = layoutTime(state.m, state.folded);
  for (const p of panels) { p.stale = true; if (p.view.plot) p.view.plot.scale = 0; }
  refreshPanel(panels.find(p => p.id === current));
}
function setFolded(folded) {
  state.folded = folded;
  byId('fold').setAttribute('aria-pressed', folded);
  byId('fold').textContent = folded ? 'Repeats folded' : 'Repeats unfolded';
  layOut();
}
function setVariant(i) {
  state.m = readVariant(i);
  state.op = state.hot = state.buffer = state.hotBuffer = null;
  byId('fold').hidden = state.m.folds.every(f => f[2] === 1);
  tiles(state.m);
  layOut();
  describe();
}
function setTheme(name) { document.documentElement.dataset.theme = name; }

// The nearest op in direction dx on the same stream, or dy to another stream.
function move(dx, dy) {
  const m = state.m, l = state.layout, op = state.op, seen = o => l.placed[o.id] >= 0;
  if (!op) return select(m.ops.find(seen), true);
  if (dx) {
    const row = m.byStream[op.stream].filter(seen), to = row[row.indexOf(op) + dx];
    if (to) select(to, true);
    return undefined;
  }
  const stream = m.streamRows[m.rowOf[op.stream] + dy], middle = (op.start + op.end) / 2;
  if (stream === undefined) return undefined;
  const to = m.byStream[stream].filter(seen).reduce((best, o) => !best || Math.abs(o.start + o.end - 2 * middle) < Math.abs(best.start + best.end - 2 * middle) ? o : best, null);
  if (to) select(to, true);
  return undefined;
}

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('select')) return;
  const view = panels.find(p => p.id === current).view, plot = view.plot, tab = e.target.closest('[role=tab]');
  if (tab && (e.key === 'ArrowLeft' || e.key === 'ArrowRight')) {
    const n = panels.length, i = panels.findIndex(p => p.id === current), to = panels[(i + (e.key === 'ArrowRight' ? 1 : n - 1)) % n];
    showPanel(to.id); to.tab.focus(); e.preventDefault();
    return;
  }
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const keys = {
    '+': () => plot && plot.zoom(1.5), '=': () => plot && plot.zoom(1.5), '-': () => plot && plot.zoom(1 / 1.5), 0: () => plot && plot.fit(),
    u: () => setFolded(!state.folded), t: toggleTheme, s: () => state.op && showPanel('source'), '?': toggleHelp, Escape: () => select(null),
  };
  if (moves[e.key] && plot) move(...moves[e.key]);
  else if (e.key >= '1' && e.key <= String(panels.length)) showPanel(panels[e.key - 1].id);
  else if (keys[e.key]) keys[e.key]();
  else return;
  e.preventDefault();
}
function toggleTheme() { setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'); }
function toggleHelp() { const k = byId('keys'); k.hidden = !k.hidden; byId('help').setAttribute('aria-expanded', !k.hidden); }

function start() {
  setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  byId('name').textContent = data.name;
  byId('subtitle').textContent = [data.source, `sm_${data.sm}`, data.order && `issued ${data.order}`].filter(Boolean).join(' \u00b7 ');
  data.variants.forEach((v, i) => html('option', { value: i }, byId('variant'), data.dims.map((d, k) => `${d} = ${v.dim[k]}`).join(', ') || 'no dims'));
  byId('variant').disabled = data.variants.length < 2;
  byId('variant').addEventListener('change', e => setVariant(Number(e.target.value)));
  byId('fold').addEventListener('click', () => setFolded(!state.folded));
  byId('theme').addEventListener('click', toggleTheme);
  byId('help').addEventListener('click', toggleHelp);
  for (const p of panels) {
    p.tab = html('button', { type: 'button', role: 'tab', id: 'tab-' + p.id, 'aria-controls': p.id }, byId('tabs'), p.title);
    p.tab.addEventListener('click', () => showPanel(p.id));
    p.root = html('section', { class: 'panel', id: p.id, role: 'tabpanel', 'aria-labelledby': 'tab-' + p.id, 'data-title': p.title, hidden: '' }, byId('panels'));
    p.view = p.build(p.root);
  }
  state.listeners.push(show => {
    const p = panels.find(q => q.id === current);
    if (p.view.plot) p.view.plot.later();
    if (p.view.mark) p.view.mark(false);
    if (show && state.op) p.view.show(state.op);
  });
  document.addEventListener('keydown', onKey);
  addEventListener('beforeprint', () => { for (const p of panels) { p.root.hidden = false; refreshPanel(p); if (p.view.plot) p.view.plot.print(true); } });
  addEventListener('afterprint', () => { for (const p of panels) if (p.view.plot) p.view.plot.print(false); showPanel(current); });
  setVariant(0);
  showPanel('schedule');
}
start();
