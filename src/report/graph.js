'use strict';
// The dataflow: depth to the right, lanes as rows and colours.

const NODE = 26, LANE = 42;

// Repeats that are not drawn are one node, -1, -2, ..., to the right of the repeat that is; what follows is right of that.
function foldNodes(m, gaps) {
  const node = i => {
    let a = 0, b = gaps.length - 1;
    while (a < b) { const k = (a + b + 1) >> 1; if (gaps[k].first <= i) a = k; else b = k - 1; }
    const g = gaps[a];
    return g && i >= g.first && i < g.first + g.count * g.period ? -1 - a : i;
  };
  return { node, drawn: i => { const n = node(i); return n < 0 ? gaps[-1 - n].first - gaps[-1 - n].period + (i - gaps[-1 - n].first) % gaps[-1 - n].period : i; } };
}

// Depth in the graph, counted over the ops that are drawn; ops of one lane and depth go below each other.
function layoutGraph(m, ops, gaps) {
  const depth = new Map(), used = new Map(), at = new Map(), rows = [], set = new Set(ops), shown = [], folds = foldNodes(m, gaps);
  let least = 0, deep = 0, gap = 0;
  for (const i of ops) {
    for (; gap < gaps.length && gaps[gap].first <= i; gap++) {
      shown.push(-1 - gap);
      depth.set(-1 - gap, deep + 1);
      deep = least = deep + 2;
    }
    let d = least;
    for (const e of m.ops[i].before) if (set.has(e.from.id)) d = Math.max(d, depth.get(e.from.id) + 1);
    shown.push(i);
    depth.set(i, d);
    deep = Math.max(deep, d);
  }
  for (; gap < gaps.length; gap++) { shown.push(-1 - gap); depth.set(-1 - gap, ++deep); }
  const laneOf = i => { const lane = m.lane[i < 0 ? gaps[-1 - i].first - gaps[-1 - i].period : i]; return lane === undefined ? -1 : lane; };
  const lanes = [...new Set(shown.map(laneOf))].sort((a, b) => a - b);
  const most = new Map(lanes.map(l => [l, 1]));
  for (const i of shown) {
    const lane = laneOf(i), key = lane + '/' + depth.get(i), n = used.get(key) || 0;
    used.set(key, n + 1);
    most.set(lane, Math.max(most.get(lane), n + 1));
    at.set(i, { lane, depth: depth.get(i), n });
  }
  let y = 34;
  for (const lane of lanes) { rows.push({ lane, y, n: most.get(lane) }); y += most.get(lane) * LANE; }
  const top = new Map(rows.map(r => [r.lane, r.y]));
  for (const p of at.values()) p.y = top.get(p.lane) + p.n * LANE;
  let deepest = 0;
  for (const p of at.values()) deepest = Math.max(deepest, p.depth);
  const low = e => at.get(e.from).depth, high = e => at.get(e.to).depth;
  return {
    at, rows, height: y + 6, units: deepest + 1, shown, nodes: new Extents(shown, i => at.get(i).depth, i => at.get(i).depth + 1),
    edges: new Extents(foldEdges(graphEdges(m), folds), low, high),
  };
}

// Edges of repeats that are not drawn, as edges of their node; what each repeat gets from outside is drawn at the first.
function foldEdges(edges, folds) {
  const seen = new Map();
  const add = (from, to, kind) => {
    const key = from + '>' + to, e = seen.get(key);
    if (!e) seen.set(key, { from, to, kind }); else if (e.kind === 'soft') e.kind = kind;
  };
  for (const e of edges) if (folds.node(e.to) >= 0) add(folds.node(e.from), e.to, e.kind);
  for (const e of edges) {
    const from = folds.node(e.from), to = folds.node(e.to);
    if (to < 0 && from !== to && !seen.has(from + '>' + folds.drawn(e.to))) add(from, to, e.kind);
  }
  return [...seen.values()];
}

// What is drawn between nodes: the graph's edges, and data that no edge of its own carries.
function graphEdges(m) {
  const data = new Set(m.data.map(([a, b]) => a * 1e6 + b)), list = [];
  for (const e of m.edges) {
    const carries = data.delete(e.from.id * 1e6 + e.to.id);
    list.push({ from: e.from.id, to: e.to.id, kind: e.pdl ? 'pdl' : e.cont ? 'cont' : carries ? '' : 'soft' });
  }
  for (const k of data) list.push({ from: Math.floor(k / 1e6), to: k % 1e6, kind: '' });
  return list;
}

function buildGraph(panel) {
  let g = null;
  const note = html('p', { class: 'note' }, panel);
  const plot = new Plot(panel, 'Graph: dataflow to the right, lanes as rows', {
    id: 'graph', left: 92, first: 128, least: 8, most: 400, height: () => g.height, units: () => g.units,
    draw(p, group, view) {
      for (const r of g.rows) {
        svg('line', { class: 'rule', x1: 0, x2: view.width, y1: r.y + r.n * LANE - 8, y2: r.y + r.n * LANE - 8 }, p.svg);
        svg('text', { class: 'head', x: 12, y: r.y + 17 }, p.svg).textContent = r.lane < 0 ? 'no lane' : 'lane ' + r.lane;
      }
      drawGraphEdges(g, group, view);
      drawNodes(g, group, view);
    },
  });
  watch(plot.svg);
  const legend = html('div', { class: 'legend' }, panel);
  html('span', {}, legend, 'solid: data'); html('span', {}, legend, 'faint: order only'); html('span', {}, legend, 'dashed: programmatic');
  html('span', {}, legend, 'dotted: continuation'); html('span', {}, legend, 'ring: opens a lane');
  return {
    plot,
    layout: () => g,
    refresh() {
      g = layoutGraph(state.m, state.layout.shown, state.layout.gaps);
      const n = new Set(state.m.lane.filter(x => x >= 0)).size, s = state.m.streamRows.length, m = state.m;
      note.textContent = `${n} lane${n === 1 ? '' : 's'} ${m.measured_lane ? `measured (${m.lanes} predicted)` : 'predicted'} for ${s} stream${s === 1 ? '' : 's'}; ` +
        (n > s ? 'the rings show where the driver opens more than the streams need.' + (g.rows.length < n ? ' Not all are in the repeats drawn: u unfolds.' : '') : 'rows and colours are lanes.');
    },
    show(op) { const p = g.at.get(op.id); if (p) plot.show(p.depth, p.depth + 1); },
  };
}

function nodeBox(g, id, view) {
  const p = g.at.get(id), w = Math.max(Math.min(view.scale - 26, 190), 5);
  return { x: view.x(p.depth) + 4, y: p.y, w };
}
function drawNodes(g, group, view) {
  g.nodes.each(view.from, view.to, id => {
    const p = g.at.get(id), op = state.m.ops[id], b = nodeBox(g, id, view);
    if (id < 0) {
      const gap = state.layout.gaps[-1 - id];
      svg('rect', { class: 'gap', x: b.x, y: b.y, width: b.w, height: NODE, rx: 5, 'data-gap': gap.first }, group);
      const text = '\u00d7 ' + (gap.count + 1);
      if (textWidth(text) < b.w) svg('text', { class: 'dim', x: b.x + b.w / 2, y: b.y + 17, 'text-anchor': 'middle' }, group).textContent = text;
      return;
    }
    const mark = state.op === op ? ' sel' : state.hot === op ? ' hot' : '';
    svg('rect', { class: `node k${p.lane < 0 ? 7 : p.lane % 7}${mark}`, x: b.x, y: b.y, width: b.w, height: NODE, rx: 5, 'data-op': id }, group);
    if (state.m.openedBy.has(id)) svg('rect', { class: 'opens', x: b.x - 2, y: b.y - 2, width: b.w + 4, height: NODE + 4, rx: 6 }, group);
    const text = fit(state.layout.label(op), b.w - 9);
    if (text) svg('text', { x: b.x + 5, y: b.y + 17 }, group).textContent = text;
  });
}
function drawGraphEdges(g, group, view) {
  const meant = state.hot || state.op;
  let n = 0;
  g.edges.each(view.from - 1, view.to + 1, e => {
    if (++n > 1500) return;
    const a = g.at.get(e.from), b = g.at.get(e.to), p = nodeBox(g, e.from, view), q = nodeBox(g, e.to, view);
    const kind = e.kind + (meant && (e.from === meant.id || e.to === meant.id) ? ' near' : '');
    if (b.depth - a.depth > 1 && p.y === q.y) { // around what lies between
      const x1 = p.x + p.w, y = p.y + NODE + 9;
      svg('path', { class: 'edge ' + kind, d: `M${x1 - 8} ${p.y + NODE}C${x1} ${y} ${x1} ${y} ${x1 + 14} ${y}L${q.x - 10} ${y}C${q.x} ${y} ${q.x} ${y} ${q.x + 6} ${q.y + NODE}` }, group);
    } else arrow(group, p.x + p.w, p.y + NODE / 2, q.x, q.y + NODE / 2, kind);
  });
}
