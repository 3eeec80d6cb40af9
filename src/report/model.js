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
    for (const u of b.uses) { b.start = Math.min(b.start, u.op.start); b.end = Math.max(b.end, u.op.end); }
  }
  const temps = m.buffers.filter(b => b.kind === 0 && b.uses.length), marks = [];
  for (const b of temps) marks.push([b.start, b.bytes], [b.end, -b.bytes]);
  marks.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let live = 0;
  m.peak = { bytes: 0, at: 0 };
  for (const [t, d] of marks) { live += d; if (live > m.peak.bytes) m.peak = { bytes: live, at: t }; }
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
  m.data = dataEdges(m);
  lifetimes(m);
  m.dataPath = dataPath(m);
  m.kinds = [...new Set(m.ops.map(o => o.kind))];
  for (const op of m.ops) op.color = 'k' + (m.kinds.indexOf(op.kind) % 8);
  m.openedBy = new Map(v.opens.map(o => [o[0], o]));
  m.byStream = data.streams.map((_, s) => m.ops.filter(o => o.stream === s));
  m.streamRows = data.streams.map((_, s) => s).filter(s => m.byStream[s].length || s === 0);
  m.rowOf = data.streams.map((_, s) => m.streamRows.indexOf(s));
  return m;
}

// What is drawn: every op, or repeated stretches once, with a gap for the others. Pieces map times to places.
function layoutTime(m, folded) {
  const pieces = [], shown = [], gaps = [];
  const first = (a, n) => { let t = Infinity; for (let i = a; i < a + n; i++) t = Math.min(t, m.ops[i].start); return t; };
  let x = 0, t = 0;
  for (const [at, period, count] of m.folds) {
    const all = !folded || count === 1, n = all ? period * count : period, next = at + period * count;
    const end = next < m.ops.length ? first(next, m.ops.length - next) : m.length;
    const stop = all ? end : Math.max(first(at + period, period), t);
    pieces.push({ x0: x, x1: x + stop - t, t0: t, cut: !all });
    for (let i = at; i < at + n; i++) shown.push(i);
    x += stop - t;
    if (!all) {
      const width = Math.max((stop - t) * 0.22, m.length * 1e-4);
      gaps.push({ x0: x, x1: x + width, count: count - 1, first: at + period, period });
      x += width;
    }
    t = Math.max(end, t);
  }
  if (!pieces.length) pieces.push({ x0: 0, x1: 1, t0: 0 });
  const placed = new Float64Array(m.ops.length).fill(-1);
  for (const i of shown) placed[i] = place(pieces, m.ops[i].start, i);
  function piece(list, time) {
    let p = list[0];
    for (const q of list) if (q.t0 <= time + 1e-9) p = q; else break;
    return p;
  }
  function place(list, time) { const p = piece(list, time); return p.x0 + time - p.t0; }
  // Where something ends that starts in a stretch drawn once: there at the latest.
  function until(start, end) { const p = piece(pieces, start), x1 = p.x0 + end - p.t0; return p.cut ? Math.min(x1, p.x1) : place(pieces, end); }
  return { units: Math.max(x, 1e-3), pieces, shown, gaps, placed, place: time => place(pieces, time), until };
}
