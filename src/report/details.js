'use strict';
// Which op or buffer is meant, and all that is known about it.

const state = { m: null, layout: null, folded: true, op: null, hot: null, buffer: null, listeners: [] };

function select(op, show) {
  state.op = op; state.buffer = null; state.hot = null;
  describe();
  for (const f of state.listeners) f(show);
}
function hover(op, buffer) {
  if (state.hot === op && state.hotBuffer === buffer) return;
  state.hot = op; state.hotBuffer = buffer;
  describe();
  for (const f of state.listeners) f(false);
}
// Elements with data-op or data-buffer in a drawing.
function watch(root) {
  const meant = e => { const t = e.target.closest('[data-op],[data-buffer],[data-gap]'); return t ? t.dataset : {}; };
  root.addEventListener('mousemove', e => {
    const d = meant(e);
    hover(d.op ? state.m.ops[d.op] : null, d.buffer ? state.m.buffers[d.buffer] : null);
  });
  root.addEventListener('mouseleave', () => hover(null, null));
  root.addEventListener('click', e => {
    const d = meant(e);
    if (d.gap) setFolded(false);
    else if (d.op) select(state.m.ops[d.op]);
    else if (d.buffer) { state.op = null; state.buffer = state.m.buffers[d.buffer]; describe(); for (const f of state.listeners) f(false); }
  });
}

function opLink(op) {
  const a = html('a', { class: 'op', tabindex: 0, role: 'button', 'data-select': op.id }, null, op.name);
  a.addEventListener('click', () => select(op, true));
  a.addEventListener('keydown', e => { if (e.key === 'Enter') { select(op, true); e.stopPropagation(); } });
  return a;
}
function list(parent, title, items) {
  if (!items.length) return;
  html('h3', {}, parent, title);
  const ul = html('ul', {}, parent);
  for (const item of items.slice(0, 12)) html('li', {}, ul).append(...item);
  if (items.length > 12) html('li', {}, ul, `${items.length - 12} more`);
}
function pairs(parent, rows) {
  const dl = html('dl', {}, parent);
  for (const [k, v] of rows) if (v !== '' && v !== null && v !== undefined) { html('dt', {}, dl, k); html('dd', {}, dl).append(v); }
}

function remarksAt(op) { return data.diags.filter(d => d.line === op.line && (d.column === op.column || d.text.includes("'" + op.name + "'"))); }

function whyStream(m, op) {
  const name = data.streams[op.stream], pinned = m.ops.some(o => o.pin >= 0);
  if (!data.compiled) return ['not known: read from a plan'];
  if (op.pin === op.stream) return [`pinned: on ${name} { }`];
  if (op.pin >= 0) return [`pinned to ${data.streams[op.pin]}, but everything is on one stream`];
  if (m.streamRows.length < 2 && !pinned) return ['everything is on main: no side stream pays'];
  if (pinned) return op.stream ? ['all its producers and readers are on this stream'] : ['not pinned, and not between ops of one side stream: main'];
  return op.stream ? ['off the critical path, and worth a fork'] : ['the critical path, or a side stream would not pay'];
}

const orderWords = {
  anti: 'overwrites what it reads', output: 'overwrites what it wrote', after: 'written: after', resource: 'shares a resource with it',
  memory: 'reuses its bytes',
};
function whyHere(m, op) {
  const items = [], word = m.words[m.why[2 * op.id]], other = m.why[2 * op.id + 1];
  if (word) {
    const [before, after] = word.split('@');
    items.push(after === undefined ? [word] : [before, opLink(m.ops[other]), after]);
  }
  for (const e of op.before) if (e.from.stream !== op.stream && !e.cont) items.push(['waits for ', opLink(e.from), ` on ${data.streams[e.from.stream]}` + (e.pdl ? ' (programmatic)' : '')]);
  for (const r of m.reasons) if (r[1] === op.id) items.push([orderWords[r[2]] + ': ', opLink(m.ops[r[0]]), r[3] ? ` ('${r[3]}')` : '']);
  for (const e of op.after) if (e.to.stream !== op.stream && !e.cont) items.push([op.stream && !e.to.stream ? 'issued before its reader ' : 'lets start ', opLink(e.to), ` on ${data.streams[e.to.stream]}`]);
  if (!items.length && op.id) items.push(['follows ', opLink(m.ops[op.id - 1]), ' in issue order']);
  return items;
}

// Measured: how long after its edges allowed it.
function lateness(m, op) {
  if (!m.measured || !op.before.length) return '';
  const ready = Math.max(...op.before.map(e => (e.pdl ? e.from.start : e.from.end))), late = op.start - ready;
  return late > 3 ? `${formatTime(late)} after its edges allowed it: the device was busy, or the launch late` : '';
}

const laneWords = ['it has no parent', 'its parent forks, and another child went on in that lane', 'no parent handed it a lane'];
function describeOp(box, op) {
  const m = state.m, lane = m.lane[op.id];
  html('h2', {}, box, op.name);
  pairs(box, [
    ['op', op.kind + (op.attrs ? ` (${op.attrs})` : '')], [op.work === 'launch' ? 'kernel' : op.work, op.kernel],
    ['launch', op.work === 'launch' ? `${op.grid.join(' x ')} blocks of ${op.block.join(' x ')}` + (op.smem ? `, ${formatBytes(op.smem)} shared` : '') : ''],
    ['issued', `${op.id + 1} of ${m.ops.length}` + (m.segments.length > 1 ? `, segment ${op.segment}` : '')],
    ['time', `${formatTime(op.end - op.start)} ${m.measured ? `measured, ${formatTime(op.us)} estimated` : 'estimated'}, from ${formatTime(op.start)}`],
    ['began', lateness(m, op)],
    ['bytes', `${formatBytes(op.read)} read, ${formatBytes(op.written)} written`], ['flops', formatCount(op.flops)],
    ['stream', data.streams[op.stream]], ['lane', lane === undefined || lane < 0 ? '' : m.measured_lane ? `${lane} (measured)` : `${lane} (predicted)`],
    ['resource', op.resource], ['launched', op.pdl ? 'programmatically: may start before its predecessor ends' : ''],
    ['critical', op.critical ? 'on the critical path' : ''], ['line', op.line ? sourceLink(op) : ''],
  ]);
  if (op.line && data.text !== null) html('p', { class: 'code' }, box, sourceText(op.line));
  list(box, 'Why on this stream', whyStream(m, op).map(t => [t]));
  list(box, 'Why issued here', whyHere(m, op));
  if (m.openedBy.has(op.id)) {
    const [, why, by] = m.openedBy.get(op.id);
    list(box, m.measured_lane ? 'Opens a lane, as predicted' : 'Opens a lane', [by >= 0 ? [laneWords[why] + ': ', opLink(m.ops[by])] : [laneWords[why]]]);
  }
  list(box, 'Buffers', op.operands.map(o => [`${access[o.access]} ${m.buffers[o.buffer].name}: ${m.buffers[o.buffer].shape}, ${formatBytes(m.buffers[o.buffer].bytes)}`]));
  list(box, 'Remarks', remarksAt(op).map(d => [(d.pass ? d.pass + ': ' : '') + d.text]));
}
let sourceLines = null;
function sourceText(line) {
  sourceLines = sourceLines || data.text.split('\n');
  return (sourceLines[line - 1] || '').trim();
}
function sourceLink(op) {
  const a = html('a', { class: 'op', tabindex: 0, role: 'button' }, null, `${op.line}:${op.column}`);
  a.addEventListener('click', () => { showPanel('source'); });
  return a;
}
function describeBuffer(box, b) {
  const lastByStream = new Map();
  for (const u of b.uses) lastByStream.set(u.op.stream, u.op);
  html('h2', {}, box, b.name);
  pairs(box, [['kind', bufferKinds[b.kind]], ['type', b.shape], ['bytes', formatBytes(b.bytes)],
    ['address', b.kind ? '' : `${b.offset} to ${b.offset + b.bytes}`], ['alive', `${formatTime(b.start)} to ${formatTime(b.end)}`]]);
  list(box, 'Kept alive by', [...lastByStream.values()].map(op => [opLink(op), `, last on ${data.streams[op.stream]}`]));
  list(box, 'Used by', b.uses.map(u => [access[u.access] + ': ', opLink(u.op)]));
}
function describe() {
  const box = document.getElementById('details'), op = state.hot || (state.hotBuffer ? null : state.op), b = state.hotBuffer || state.buffer;
  box.textContent = '';
  if (op) describeOp(box, op);
  else if (b) describeBuffer(box, b);
  else html('p', { class: 'note' }, box, 'Point at an op or a buffer, or use the arrow keys, to see what it does, what it costs, and why it is where it is.');
}
