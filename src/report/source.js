'use strict';
// The text, its ops beside their lines, remarks below them.

function buildSource(panel) {
  const code = html('div', { id: 'code' });
  let lines = [];
  function chips(line, box) {
    const patterns = new Map();
    for (const op of state.m.ops) if (op.line === line) { const c = state.m.classes[op.class].name; if (!patterns.has(c)) patterns.set(c, []); patterns.get(c).push(op); }
    for (const [name, ops] of patterns) {
      const short = name.replace(/^[^.]*\]\./, ''), chip = html('button', { type: 'button', class: 'chip ' + ops[0].color, 'data-op': ops[0].id }, box, short + (ops.length > 1 ? ` \u00d7 ${ops.length}` : ''));
      chip.addEventListener('click', () => select(ops[0], true));
    }
  }
  function remarks(line) {
    const seen = new Map();
    for (const d of data.diags) if ((d.line || 0) === line) {
      const text = (d.id ? `${d.severity} STEM${d.id}: ` : d.pass ? d.pass + ': ' : '') + d.text, key = text.replace(/\[\d+\]/g, '[*]');
      if (seen.has(key)) seen.get(key).n++; else seen.set(key, { d, text, n: 1 });
    }
    for (const { d, text, n } of seen.values()) html('div', { class: 'remark ' + d.severity }, code, text + (n > 1 ? ` (and ${n - 1} more times)` : '') + (d.help.length ? ` (${d.help.join('; ')})` : ''));
  }
  function refresh() {
    panel.textContent = ''; code.textContent = ''; lines = [];
    if (data.text === null) { html('p', { class: 'note' }, panel, `The text${data.source ? ' (' + data.source + ')' : ''} is not in this report: it was made from a plan.`); return; }
    html('p', { class: 'note' }, panel, data.source || '');
    panel.appendChild(code);
    remarks(0);
    data.text.replace(/\n$/, '').split('\n').forEach((text, i) => {
      const line = html('div', { class: 'line', 'data-line': i + 1 }, code);
      html('span', { class: 'no' }, line, i + 1);
      const body = html('span', { class: 'text' }, line);
      html('span', { class: 'src' }, body, text);
      chips(i + 1, html('span', { class: 'ops' }, body));
      lines.push(line);
      remarks(i + 1);
    });
    mark(false);
  }
  function mark(show) {
    const op = state.hot || state.op;
    lines.forEach((l, i) => l.classList.toggle('on', Boolean(op) && op.line === i + 1));
    if (show && op && lines[op.line - 1]) lines[op.line - 1].scrollIntoView({ block: 'center' });
  }
  return { refresh, show() { mark(true); }, mark };
}
