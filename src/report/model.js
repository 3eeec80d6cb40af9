'use strict';
// The data as objects: ops, buffers, edges of the chosen variant, and what follows from them.

const data = JSON.parse(document.getElementById('data').textContent);
const bufferKinds = ['temporary', 'input', 'output', 'weight', 'state'];
const access = ['', 'reads', 'writes', 'updates'];

function fillName(pattern, numbers) {
  let i = 0;
  return pattern.replace(/\[\*\]/g, () => '[' + numbers[i++] + ']');
}

function formatBytes(n) {
  const unit = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; n >= 1024 && i < 4; i++) n /= 1024;
  return (i ? n.toFixed(2) : n) + ' ' + unit[i];
}
function formatTime(us) { return us >= 10000 ? (us / 1000).toFixed(2) + ' ms' : us.toFixed(us < 100 ? 2 : 1) + ' us'; }
function formatCount(n) {
  const unit = ['', ' k', ' M', ' G', ' T', ' P'];
  let i = 0;
  for (; n >= 1000 && i < 5; i++) n /= 1000;
  return (i ? n.toFixed(1) : n) + unit[i];
}
function many(n) { return n === 1 ? '' : 's'; }
function percent(x) { return (100 * x).toFixed(1) + ' %'; }

function readOps(v) {
  return v.ops.map((row, id) => {
    const c = v.classes[row[0]], numbers = row.filter(x => typeof x === 'string');
    const op = Object.create(c);
    op.id = id; op.class = row[0]; op.pin = row[1]; op.layer = row[2]; op.start = row[3]; op.end = row[4];
    op.operands = row.slice(5).filter(x => typeof x === 'number').map(x => ({ buffer: Math.floor(x / 4), access: x % 4 }));
    op.name = fillName(c.name, numbers);
    op.before = []; op.after = []; op.critical = false;
    return op;
  });
}

function readBuffers(v) {
  return v.buffers.map((row, id) => ({
    id, name: fillName(v.names[row[0]], row.slice(6)), kind: row[1], bytes: row[2], offset: row[3], shape: v.shapes[row[4]],
    line: row[5], uses: [],
  }));
}

// Reader after writer: the flow of data, whatever orders it.
function dataEdges(m) {
  const writer = new Map(), edges = [];
  for (const op of m.ops) {
    const from = new Set();
    for (const o of op.operands) if (o.access & 1 && writer.has(o.buffer)) from.add(writer.get(o.buffer));
    for (const o of op.operands) {
      m.buffers[o.buffer].uses.push({ op, access: o.access });
      if (o.access & 2) writer.set(o.buffer, op.id);
    }
    for (const f of from) edges.push([f, op.id]);
  }
  return edges;
}

// Times of the first and the last use of each temporary.
function lifetimes(m) {
  for (const b of m.buffers) {
    b.start = Infinity; b.end = 0;
    for (const u of b.uses) { b.start = Math.min(b.start, u.op.begin); b.end = Math.max(b.end, u.op.end); }
  }
  const temps = m.buffers.filter(b => b.kind === 0 && b.uses.length), marks = [];
  for (const b of temps) marks.push([b.start, b.bytes], [b.end, -b.bytes]);
  marks.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let live = 0;
  m.peak = { bytes: 0, at: 0 };
  for (const [t, d] of marks) { live += d; if (live > m.peak.bytes) m.peak = { bytes: live, at: t }; }
  m.peak.op = m.ops.find(o => o.start >= m.peak.at - 1e-9);
  m.temps = temps;
}

// The longest chain of data alone: what no number of streams can go below.
function dataPath(m) {
  const end = new Float64Array(m.ops.length);
  let longest = 0, e = 0;
  for (const op of m.ops) {
    let start = 0;
    for (; e < m.data.length && m.data[e][1] === op.id; e++) start = Math.max(start, end[m.data[e][0]]);
    end[op.id] = start + op.us;
    longest = Math.max(longest, end[op.id]);
  }
  return longest;
}

function readVariant(index) {
  const v = data.variants[index], m = Object.assign({}, v);
  m.index = index;
  m.ops = readOps(v);
  m.buffers = readBuffers(v);
  m.edges = [];
  for (let i = 0; i < v.edges.length; i += 3) {
    const e = { from: m.ops[v.edges[i]], to: m.ops[v.edges[i + 1]], pdl: (v.edges[i + 2] & 1) > 0, cont: (v.edges[i + 2] & 2) > 0 };
    m.edges.push(e); e.from.after.push(e); e.to.before.push(e);
    if (e.pdl) e.to.pdl = true;
  }
  for (const i of v.critical) m.ops[i].critical = true;
  for (let s = 0; s < v.segments.length; s++)
    for (let i = v.segments[s][0]; i < v.segments[s][0] + v.segments[s][1]; i++) m.ops[i].segment = s;
  // What is launched early touches nothing before the ops that it waits for have ended.
  for (const op of m.ops) op.begin = Math.min(op.end, op.before.reduce((t, e) => Math.max(t, e.from.end), op.start));
  m.data = dataEdges(m);
  lifetimes(m);
  m.dataPath = dataPath(m);
  m.kinds = [...new Set(m.ops.map(o => o.kind))];
  for (const op of m.ops) op.color = 'k' + (m.kinds.indexOf(op.kind) % 14);
  m.predicted = m.lane;
  if (m.measured_lane) m.lane = m.measured_lane;
  m.openedBy = new Map(v.opens.map(o => [o[0], o]));
  m.byStream = data.streams.map((_, s) => m.ops.filter(o => o.stream === s));
  m.streamRows = data.streams.map((_, s) => s).filter(s => m.byStream[s].length || s === 0);
  m.rowOf = data.streams.map((_, s) => m.streamRows.indexOf(s));
  return m;
}

// Shortest and longest time from one repeat's first start to the next one's.
function repeatTimes(m, at, period, count) {
  const begin = k => { let t = Infinity; for (let i = at + k * period; i < at + (k + 1) * period; i++) t = Math.min(t, m.ops[i].start); return t; };
  let low = Infinity, high = 0;
  for (let k = 0; k + 1 < count; k++) { const t = begin(k + 1) - begin(k); low = Math.min(low, t); high = Math.max(high, t); }
  return [low, high];
}

// What is drawn: every op, or repeated stretches once, with a gap for the others. Pieces map times to places.
function layoutTime(m, folded) {
  const pieces = [], shown = [], gaps = [], short = new Uint8Array(m.ops.length);
  const first = (a, n) => { let t = Infinity; for (let i = a; i < a + n; i++) t = Math.min(t, m.ops[i].start); return t; };
  let x = 0, t = 0;
  for (const [at, period, count] of m.folds) {
    const all = !folded || count === 1, n = all ? period * count : period, next = at + period * count;
    const end = next < m.ops.length ? first(next, m.ops.length - next) : m.length;
    const stop = all ? end : Math.max(first(at + period, period), t);
    // Where repeats overlap, what is drawn of one runs on beyond the start of the next.
    let drawn = stop;
    if (!all) for (let i = at; i < at + period; i++) drawn = Math.max(drawn, m.ops[i].end);
    pieces.push({ x0: x, x1: x + drawn - t, t0: t, cut: !all });
    const layer = folded && m.ops[at].layer, one = layer >= 0 && m.ops.slice(at, at + n).every(o => o.layer === layer);
    for (let i = at; i < at + n; i++) { shown.push(i); short[i] = one; }
    x += drawn - t;
    if (!all) {
      const width = Math.max((stop - t) * 0.22, m.length * 1e-4);
      gaps.push({ x0: x, x1: x + width, count: count - 1, first: at + period, period, overlap: drawn > stop * (1 + 1e-6), each: m.measured ? repeatTimes(m, at, period, count) : null });
      x += width;
    }
    t = Math.max(end, t);
  }
  if (!pieces.length) pieces.push({ x0: 0, x1: 1, t0: 0 });
  const placed = new Float64Array(m.ops.length).fill(-1);
  for (const i of shown) placed[i] = place(pieces, m.ops[i].start);
  function piece(list, time) {
    let a = 0, b = list.length - 1;
    while (a < b) { const k = (a + b + 1) >> 1; if (list[k].t0 <= time + 1e-9) a = k; else b = k - 1; }
    return list[a];
  }
  function place(list, time) { const p = piece(list, time); return p.x0 + time - p.t0; }
  // Where something ends that starts in a stretch drawn once: there at the latest.
  function until(start, end) { const p = piece(pieces, start), x1 = p.x0 + end - p.t0; return p.cut ? Math.min(x1, p.x1) : place(pieces, end); }
  const seen = o => placed[o.id] >= 0, end = o => placed[o.id] + o.end - o.start;
  return {
    units: Math.max(x, 1e-3), pieces, shown, gaps, placed, label: op => (short[op.id] ? op.name.replace(/^[^.]*\]\./, '') : op.name), place: time => place(pieces, time), until,
    bars: m.byStream.map(ops => new Extents(ops.filter(seen), o => placed[o.id], end)),
    forks: new Extents(m.edges.filter(e => seen(e.from) && seen(e.to) && !e.cont && (e.from.stream !== e.to.stream || e.pdl)),
      e => Math.min(end(e.from), placed[e.to.id]), e => Math.max(end(e.from), placed[e.to.id])),
    slots: new Extents(m.temps.filter(b => b.uses.some(u => seen(u.op))), b => place(pieces, b.start), b => until(b.start, b.end)),
  };
}
