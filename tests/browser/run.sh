#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The report in a real browser: reports of several programs are made and test_page.py looks at them in a headless Chromium.
set -u
if ! command -v "${CHROMIUM:-chromium}" >/dev/null 2>&1 && ! command -v chromium-browser >/dev/null 2>&1 &&
    ! command -v google-chrome >/dev/null 2>&1; then
    echo 'skipped: no Chromium (Debian: apt-get install chromium)'
    exit 77
fi
command -v python3 >/dev/null 2>&1 || { echo 'skipped: no python3'; exit 77; }
here=$SRCDIR/tests/browser
scratch=$BUILDDIR/tests/scratch/browser
rm -rf "$scratch" && mkdir -p "$scratch" || exit 99

report() { # NAME FILE [ARGUMENT...]
    name=$1 && shift
    "$MAINSTEM" report --no-warnings --no-fuse "$@" -o "$scratch/$name.html" >/dev/null || exit 1
}
model=$SRCDIR/examples/dual_stream_moe.stem
report layers "$model" --dim T=1,4
report side_first "$model" -D LAYERS=12 --dim T=4 --order=side-first --pdl=off
report many "$model" -D LAYERS=1112 --dim T=4
report streams "$SRCDIR/examples/qkv_three_streams.stem"
report interleaved "$SRCDIR/tests/report/interleaved.stem"
report pieces "$SRCDIR/examples/piecewise.stem"
report folded "$here/folded.stem"
hostile="$scratch/a \"b\" <i>c & 'ü'.stem"
cp "$here/hostile.stem" "$hostile"
report hostile "$hostile"
"$MAINSTEM" compile "$model" --no-fuse -D LAYERS=2 --dim T=4 -q -o "$scratch" --emit=plan,trace || exit 1
"$MAINSTEM" report "$scratch/dual_stream_moe.plan.json" -o "$scratch/plan.html" >/dev/null || exit 1
report traced "$model" -D LAYERS=2 --dim T=4 --trace "$scratch/dual_stream_moe.trace.json"
# As measured: a device whose lanes are not the streams, where each op starts 1 us late and the side branch 10 us.
python3 - "$scratch/dual_stream_moe.trace.json" "$scratch/measured.json" <<'END' || exit 1
import json
import sys
trace = json.load(open(sys.argv[1], encoding="utf-8"))
late = 0
for e in trace["traceEvents"]:
    if e["ph"] == "X":
        late += 10 if e["tid"] else 1
        e["ts"] += late
        e["args"]["lane"] = 2 * e["tid"] + (e["args"]["op"] > 9) * (e["tid"] > 0)
json.dump(trace, open(sys.argv[2], "w", encoding="utf-8"))
END
report measured "$model" -D LAYERS=2 --dim T=4 --trace "$scratch/measured.json"

"$MAINSTEM" diff --no-warnings --no-fuse --pdl=off "$model" --dim T=4 --to=--order=side-first -o "$scratch/diff.html" >/dev/null
"$MAINSTEM" diff --no-warnings --no-fuse "$model" --dim T=4 "$SRCDIR/examples/qkv_three_streams.stem" -o "$scratch/diff_all.html" >/dev/null
"$MAINSTEM" diff --no-warnings "$hostile" --to=--one-stream -o "$scratch/diff_hostile.html" >/dev/null
"$MAINSTEM" diff --no-warnings "$model" --dim T=4 "$model" -o "$scratch/diff_none.html" >/dev/null || exit 1

exec python3 -B "$here/test_page.py" "$scratch" "$SRCDIR"
