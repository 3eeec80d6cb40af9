# SPDX-License-Identifier: Apache-2.0
"""report.py PAGE...: how long a page takes to load and to draw in a headless Chromium; the least of five loads."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../browser"))
import cdp  # noqa: E402

DRAW = """(p => { let worst = 0, sum = 0, n = 0;
  for (const zoom of [1, 4, 16, 64]) {
    if (zoom > 1) p.zoom(4);
    for (let k = 0; k < 12; k++) {
      p.root.scrollLeft = p.root.scrollWidth * k / 12;
      p.root.clientWidth;
      const t = performance.now(); p.draw(); const ms = performance.now() - t;
      worst = Math.max(worst, ms); sum += ms; n++;
    }
  }
  return [sum / n, worst]; })(panels.find(p => p.id === current).view.plot)"""

b = cdp.Browser()
try:
    first = None
    print(f"{'page':<12} {'bytes':>9} {'ops':>6} {'load ms':>8} {'to first':>8}   mean and worst ms of a drawing: schedule, graph, memory")
    for path in sys.argv[1:]:
        load = min(b.open(path) for _ in range(5))
        first = first or load
        b.key("u")
        draws = []
        for panel in "123":
            b.key(panel)
            draws.append("{:.1f} {:.1f}".format(*b.js(DRAW)))
        name = os.path.basename(path).replace(".html", "")
        print(f"{name:<12} {os.path.getsize(path):>9} {b.js('state.m.ops.length'):>6} {load:>8.0f} {load / first:>8.2f}   {', '.join(draws)}")
        if b.complaints():
            print(f"{name}: {b.complaints()}")
finally:
    b.close()
