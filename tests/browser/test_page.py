# SPDX-License-Identifier: Apache-2.0
"""What a reader of the report sees and does: test_page.py DIR SRCDIR. DIR has the pages that run.sh made."""
import os
import sys

import cdp

directory, srcdir = sys.argv[1:3]
failures, passed = [], 0
PANELS = ["schedule", "graph", "memory", "numbers", "source"]


def check(what, got, expected=True):
    global passed
    if got == expected:
        passed += 1
    else:
        failures.append(what)
        print(f"FAIL: {what}: got {got!r}, expected {expected!r}")


def page(name):
    return os.path.join(directory, name + ".html")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def count(b, selector):
    return b.js(f"document.querySelectorAll({selector!r}).length")


def text(b, selector):
    return b.js(f"document.querySelector({selector!r})?.textContent")


def box(b, selector):
    return b.js(f"(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector({selector!r}).getBoundingClientRect())")


def panels_render(b):
    # page | ops drawn when folded | kernels
    for name, ops, kernels in [("layers", 9, 9), ("streams", 7, 4), ("hostile", 4, 2), ("plan", 18, 9), ("traced", 18, 9)]:
        b.open(page(name))
        check(f"{name}: bars", count(b, "#schedule .bar"), ops)
        b.key("2")
        b.js("panels[1].view.plot.zoom(0.4)")
        b.settle()
        check(f"{name}: nodes", count(b, "#graph .node"), ops)
        b.key("3")
        check(f"{name}: buffers", count(b, "#memory .slot") > 1)
        b.key("4")
        check(f"{name}: kernels", count(b, "#kernels tbody tr"), kernels)
        shares = b.js("[...document.querySelectorAll('#kernels tbody tr')].reduce((n, r) => n + parseFloat(r.children[5].textContent), 0)")
        if name != "traced":
            check(f"{name}: shares add up", abs(shares - 100) < 1)
        b.key("5")
        check(f"{name}: chips", count(b, "#source .chip") > 0)
        check(f"{name}: no complaints", b.complaints(), [])
    check("a trace's times are called measured", "measured" in text(b, "#tiles"))


def hover_and_click(b):
    b.open(page("layers"))
    check("at first nothing is described", text(b, "#details h2"), None)
    b.mouse(*box(b, "#schedule .bar[data-op='3']"))
    check("hover describes the op", text(b, "#details h2"), "moe[0].routed.1[0]")
    words = text(b, "#details")
    for word in ["experts_up", "kernel", "bytes", "flops", "estimated", "line", "Why on this stream", "pinned: on main", "Why issued here", "moe[0].w13"]:
        check(f"details have '{word}'", word in words)
    check("and the line is of this op", "21:18" in words)
    check("and why it is issued there", "waits for moe[0].x[0] on side" in words)
    b.mouse(5, 5)
    check("and forgets it", text(b, "#details h2"), None)
    x, y = box(b, "#schedule .bar[data-op='5']")
    b.mouse(x, y, "mousePressed"), b.mouse(x, y, "mouseReleased"), b.mouse(5, 5)
    check("a click keeps it", text(b, "#details h2"), "moe[0].shared.silu_mul.linear[0]")
    check("and what the order pass had in mind", "as late as possible: needed by moe[0].out[0], the next op on main" in text(b, "#details"))
    check("its text stands there", text(b, "#details .code").startswith("shared = linear(silu_mul(linear(x, s13)), s2);"))
    b.key("5")
    check("its line is marked", b.js("[...document.querySelectorAll('.line.on')].map(l => l.dataset.line)"), ["24"])
    b.js("document.querySelector('.line[data-line=\"18\"] .chip').click()")
    check("a line leads to its op", text(b, "#details h2"), "moe[0].x[0]")
    b.key("3")
    b.mouse(*box(b, "#memory .slot"))
    check("hover describes the buffer", text(b, "#details h2"), "moe[0].x[0]")
    check("and who keeps it alive", "Kept alive by" in text(b, "#details"))


def keyboard(b):
    b.open(page("layers"))
    for key, expected in [("ArrowRight", "moe[0].route.norm_linear[0]"), ("ArrowRight", "moe[0].route[0]"), ("ArrowDown", "moe[0].shared.silu_mul.linear[0]"),
                          ("ArrowRight", "moe[0].shared.silu_mul[0]"), ("ArrowLeft", "moe[0].shared.silu_mul.linear[0]"), ("ArrowUp", "moe[0].route[0]"),
                          ("ArrowUp", "moe[0].route[0]"), ("Escape", None)]:
        b.key(key)
        check(f"{key}", text(b, "#details h2"), expected)
    width = "document.querySelector('#schedule .bar[data-op=\"3\"]').getBoundingClientRect().width"
    before = b.js(width)
    b.key("+")
    check("+ enlarges", b.js(width) > before * 1.3)
    b.key("-")
    b.key("0")
    check("0 shows all again", abs(b.js(width) - before) < 1)
    b.key("u")
    check("u unfolds", b.js("state.layout.shown.length"), 549)
    b.key("u")
    check("and folds", b.js("state.layout.shown.length"), 9)
    for i, name in enumerate(PANELS):
        b.key(str(i + 1))
        check(f"{i + 1} shows {name}", b.js("[...document.querySelectorAll('.panel:not([hidden])')].map(p => p.id)"), [name])
    b.js("document.getElementById('tab-source').focus()")
    b.key("ArrowRight")
    check("arrows move between tabs", b.js("document.activeElement.id"), "tab-schedule")
    b.key("t")
    check("t changes the theme", b.js("document.documentElement.dataset.theme"), "dark")
    b.key("?")
    check("? shows the keys", b.js("!document.getElementById('keys').hidden"))
    b.js("const v = document.getElementById('variant'); v.value = 1; v.dispatchEvent(new Event('change'))")
    check("another specialisation", b.js("state.m.dim"), [4])
    check("no complaints from the keyboard", b.complaints(), [])


STRUCTURE = """[...document.querySelectorAll('body *')].filter(e => !['SCRIPT', 'OPTION', 'NOSCRIPT'].includes(e.tagName)).map(e => {
  const r = e.getBoundingClientRect();
  return [e.tagName, e.getAttribute('class'), Math.round(r.x), Math.round(r.y), Math.round(r.width), Math.round(r.height)].join(' ');
})"""


def themes(b):
    for name in ["layers", "side_first"]:
        seen = {}
        for theme in ["light", "dark"]:
            b.open(page(name), theme)
            check(f"{name}: the system's theme", b.js("document.documentElement.dataset.theme"), theme)
            seen[theme] = []
            for i, panel in enumerate(PANELS):
                b.key(str(i + 1))
                seen[theme].append(b.js(STRUCTURE))
                b.screenshot(os.path.join(directory, f"{name}-{panel}-{theme}.png"))
            seen[theme + " colours"] = b.js("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
        for i, panel in enumerate(PANELS):
            check(f"{name}: {panel}: same elements in the same places", seen["light"][i] == seen["dark"][i])
            check(f"{name}: {panel}: there is something", len(seen["light"][i]) > 60)
        check(f"{name}: but other colours", seen["light colours"][0] != seen["dark colours"][0] and seen["light colours"][1] != seen["dark colours"][1])


def hostile(b):
    b.open(page("hostile"))
    for i in range(5):
        b.key(str(i + 1))
    check("nothing in the text ran", b.js("window.hurt === undefined"))
    check("no element came from the text", count(b, "i:not(.swatch):not(.share), img, #panels b, #panels script"), 0)
    source = read(os.path.join(srcdir, "tests/browser/hostile.stem"))
    check("the text is shown as it is", b.js("[...document.querySelectorAll('.src')].map(e => e.textContent).join('\\n') + '\\n'"), source)
    check("and so is its path", text(b, "#subtitle").endswith("issued main-first") and "a \"b\" <i>c & 'ü'.stem" in text(b, "#subtitle"))
    check("no complaints", b.complaints(), [])


def memory_is_disjoint(b):
    b.open(page("streams"))
    b.key("u")
    overlaps = b.js("""state.m.temps.flatMap((a, i) => state.m.temps.slice(i + 1).filter(b =>
      a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes && a.start < b.end - 1e-6 && b.start < a.end - 1e-6).map(b => a.name + ' ' + b.name))""")
    check("no two buffers share bytes at one time", overlaps, [])
    b.key("3")
    check("every temporary is drawn", count(b, "#memory .slot"), b.js("state.m.temps.length"))


def lanes(b):
    b.open(page("side_first"))
    b.key("2")
    b.key("u")
    check("recorded side-first, each layer opens a lane", count(b, "#graph text.head"), 13)
    check("and rings show where", b.js("state.m.opens.length"), 13)


def measured(b):
    b.open(page("measured"))
    check("lanes are measured", "lanes measured, 2 predicted" in text(b, "#tiles"))
    check("as many as the trace has", b.js("new Set(state.m.lane).size"), 3)
    b.key("2")
    check("and are the graph's rows", [text(b, "#graph .note"), count(b, "#graph text.head")],
          ["3 lanes measured (2 predicted) for 2 streams; the rings show where the driver opens more than the streams need.", 3])
    b.key("1")
    x, y = box(b, "#schedule .bar[data-op='5']")
    b.mouse(x, y)
    check("hover says so", "(measured)" in text(b, "#details") and "estimated" in text(b, "#details"))
    check("and how late an op began", "after its edges allowed it" in text(b, "#details"))
    check("no complaints about what was measured", b.complaints(), [])


def interleaved(b):
    b.open(page("interleaved"))
    check("repeats that interleave fold", b.js("state.m.folds.map(f => f[2])"), [1, 19, 1])
    check("an op of the first is whole before the gap", b.js("state.layout.gaps.every(g => g.overlap && state.layout.shown.every(i => i >= g.first || "
                                                            "state.layout.placed[i] + state.m.ops[i].end - state.m.ops[i].start <= g.x0 + 1e-6))"))
    check("names say of which layer", b.js("[...document.querySelectorAll('#schedule svg text')].some(t => t.textContent === 'l[1].x')"))


def differences(b):
    b.open(page("diff"))
    check("repeats are said once", [text(b, ".times .t"), count(b, ".times")], ["61 times:", 1])
    check("what was moved stands on both sides", [count(b, ".r.moved"), count(b, ".r.gone"), count(b, ".r.new")], [8, 0, 0])
    check("and says how far", text(b, ".r.moved span:nth-child(7)"), "now issued 4 later")
    check("numbers that differ stand out", b.js("[...document.querySelectorAll('tr.d td:first-child')].map(e => e.textContent)"), ["lanes predicted"])
    check("no complaints about a comparison", b.complaints(), [])
    b.screenshot(os.path.join(directory, "diff-light.png"))
    b.open(page("diff"), "dark")
    check("dark as the system is", b.js("matchMedia('(prefers-color-scheme: dark)').matches && getComputedStyle(document.documentElement).colorScheme"), "light dark")
    b.open(page("diff_all"))
    check("nothing in common", [count(b, ".r.moved"), count(b, ".r.gone"), count(b, ".r.new")], [0, 9, 7])
    b.open(page("diff_hostile"))
    check("names of the other program are text", count(b, "i, img, b"), 0)
    check("and are there as they are", "<i>c & 'ü'" in text(b, "p"))
    check("still no complaints", b.complaints(), [])
    b.open(page("diff_none"))
    check("nothing differs", [text(b, "pre"), count(b, "tr.d"), count(b, ".r.moved, .r.gone, .r.new, .r.changed")], ["the plans do the same", 0, 0])


def ten_thousand(b):
    ms = b.open(page("many"))
    check("10 000 ops", b.js("state.m.ops.length"), 10008)
    b.key("u")
    worst, slowest = 0, 0
    for panel in ["1", "2", "3"]:
        b.key(panel)
        for zoom in [1, 8, 60]:
            if zoom > 1:
                b.js(f"(p => p.zoom({zoom}))(panels.find(p => p.id === current).view.plot)")
            for part in [0, 0.4, 0.9]:
                b.js(f"(r => r.scrollLeft = r.scrollWidth * {part})(document.querySelector('.panel:not([hidden]) .plot'))")
                b.settle()
                slowest = max(slowest, b.js("(p => { const t = performance.now(); p.draw(); return performance.now() - t; })(panels.find(p => p.id === current).view.plot)"))
                worst = max(worst, count(b, ".panel:not([hidden]) .plot svg *"))
                check(f"panel {panel}, zoom {zoom}, at {part}: something is in view", count(b, ".panel:not([hidden]) :is(.bar, .node, .slot)") > 0)
    check("only what is visible has elements", worst < 5000)
    check("no complaints with 10 000 ops", b.complaints(), [])
    print(f"10 000 ops: loaded in {ms:.0f} ms, slowest drawing {slowest:.1f} ms, at most {worst} elements")


def folded_graph(b):
    b.open(page("folded"))
    b.key("2")
    b.js("panels[1].view.plot.zoom(0.7)")
    b.settle()
    place = "(s => { const r = document.querySelector(s).getBoundingClientRect(); return [r.left, r.right]; })"
    gap, after = b.js(place + "('#graph .gap')"), b.js("[...document.querySelectorAll('#graph .node')].slice(-2).map(n => n.getBoundingClientRect().left)")
    layer = b.js("Math.max(...[...document.querySelectorAll('#graph .node')].slice(0, -2).map(n => n.getBoundingClientRect().right))")
    check("the other repeats are one node", [count(b, "#graph .gap"), text(b, "#graph .gap + text")], [1, "\u00d7 12"])
    check("to the right of the repeat that is drawn", layer < gap[0])
    check("and what follows is right of them", all(x > gap[1] for x in after))
    edges = b.js("panels[1].view.layout().edges.items.map(i => i.item).filter(e => e.from < 0 || e.to < 0).map(e => [Math.min(e.from, 0), Math.min(e.to, 0)])")
    check("joined with both", [[0, -1] in edges, [-1, 0] in edges], [True, True])
    check("labels keep the head and the last part", b.js("fit('layers[0].attention.rmsnorm', 110)").split("\u2026")[1], "rmsnorm")
    check("and begin as the name does", b.js("fit('layers[0].attention.rmsnorm', 110)").startswith("l"))
    check("narrow ones keep the head of the last part", b.js("fit('layers[0].attention.rmsnorm', 40)").startswith("r"))
    b.key("u")
    check("unfolded there is no such node", count(b, "#graph .gap"), 0)
    check("no complaints about folds", b.complaints(), [])


def printing(b):
    b.open(page("layers"))
    b.js("dispatchEvent(new Event('beforeprint'))")
    check("all panels are printed", count(b, ".panel:not([hidden])"), 5)
    check("and drawn", count(b, "#graph .node"), 9)
    b.js("dispatchEvent(new Event('afterprint'))")
    check("then one is left", count(b, ".panel:not([hidden])"), 1)
    check("a PDF comes out", len(b.call("Page.printToPDF")["data"]) > 10000)


def size():
    n = os.path.getsize(page("layers"))
    check("61 layers stay under 2 MB", n < 2_000_000)
    check("no address of anything else is in the page", "http://" in read(page("layers")).replace("http://www.w3.org/2000/svg", ""), False)
    print(f"61 layers, two specialisations: {n} bytes; 10 000 ops: {os.path.getsize(page('many'))} bytes")


def main():
    b = cdp.Browser()
    try:
        print(f"61 layers: loaded in {b.open(page('layers')):.0f} ms")
        for test in [panels_render, hover_and_click, keyboard, themes, hostile, memory_is_disjoint, lanes, measured, interleaved, differences, ten_thousand, folded_graph, printing]:
            test(b)
    finally:
        b.close()
    size()
    print(f"browser: {passed} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
