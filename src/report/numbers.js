'use strict';
// Kernels in a table, and what overlap can gain.

function kernelRows(m) {
  const rows = new Map();
  for (const op of m.ops) {
    const r = rows.get(op.kernel) || { kernel: op.kernel, kinds: new Set(), count: 0, bytes: 0, flops: 0, us: 0, measured: 0 };
    rows.set(op.kernel, r);
    r.kinds.add(op.kind); r.count++; r.bytes += op.read + op.written; r.flops += op.flops; r.us += op.us; r.measured += op.end - op.start;
  }
  const perByte = m.floor_us / Math.max([...rows.values()].reduce((n, r) => n + r.bytes, 0), 1);
  for (const r of rows.values()) {
    r.time = m.measured ? r.measured : r.us;
    r.bound = r.time > 0 ? r.bytes * perByte / r.time : 0;
  }
  const all = [...rows.values()].reduce((n, r) => n + r.time, 0) || 1;
  for (const r of rows.values()) r.share = r.time / all;
  return [...rows.values()];
}

function buildNumbers(panel) {
  let by = 'time', down = true;
  const room = html('div', {}, panel);
  const columns = () => [['kernel', 'kernel'], ['count', 'launches'], ['bytes', 'bytes'], ['flops', 'flops'], ['us', 'estimated'],
    ...(state.m.measured ? [['measured', 'measured']] : []), ['share', 'share'], ['bound', 'of the bound']];
  function headroom(m) {
    const best = Math.max(m.floor_us, m.dataPath), now = m.measured ? m.length : m.estimate_us, by = m.measured ? ', estimated' : '';
    html('h2', {}, room, 'Headroom');
    const t = html('tbody', {}, html('table', { id: 'headroom' }, html('div', { class: 'wide' }, room)));
    const row = (what, us) => { const r = html('tr', {}, t); html('td', {}, r, what); html('td', {}, r, formatTime(us)); html('td', {}, r, m.total_us ? percent(us / m.total_us) : ''); };
    row('one stream: every op after the other' + by, m.total_us);
    row(m.measured ? 'this schedule, measured' : 'this schedule', now);
    if (m.measured) row('this schedule, estimated', m.estimate_us);
    row('the longest chain of data: any number of streams' + by, m.dataPath);
    row('floor: all bytes at full bandwidth', m.floor_us);
    html('p', { class: 'note' }, room, `Overlap saves ${formatTime(Math.max(m.total_us - now, 0))} of one stream's time and could save at most ` +
      `${formatTime(Math.max(m.total_us - best, 0))}; the rest takes fewer, faster or fused kernels.`);
  }
  function table(m) {
    html('h2', {}, room, 'Kernels');
    const t = html('table', { id: 'kernels' }, html('div', { class: 'wide' }, room)), head = html('tr', {}, html('thead', {}, t));
    for (const [key, title] of columns()) {
      const th = html('th', { 'aria-sort': by === key ? (down ? 'descending' : 'ascending') : 'none' }, head);
      html('button', { type: 'button' }, th, title).addEventListener('click', () => { down = by === key ? !down : key !== 'kernel'; by = key; refresh(); });
    }
    const rows = kernelRows(m).sort((a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0) * (down ? -1 : 1)), body = html('tbody', {}, t);
    for (const r of rows) {
      const tr = html('tr', {}, body), put = text => html('td', {}, tr, text);
      const first = put(r.kernel); html('div', { class: 'note', style: 'margin:0' }, first, [...r.kinds].join(', '));
      put(r.count); put(formatBytes(r.bytes)); put(formatCount(r.flops)); put(formatTime(r.us));
      if (m.measured) put(formatTime(r.measured));
      const share = put(''); html('i', { class: 'share', style: `width:${(r.share * 70).toFixed(1)}px` }, share); share.append(percent(r.share));
      put(percent(r.bound));
    }
    html('p', { class: 'note' }, room, 'The bound of a kernel is its bytes at full bandwidth; launches of few bytes are bound by latency instead.' +
      (m.measured && m.edges.some(e => e.pdl) ? ' Ops that are launched early wait within their time: measured times overlap, and their shares with them.' : ''));
  }
  function refresh() { room.textContent = ''; table(state.m); headroom(state.m); }
  return { refresh, show() {} };
}
