#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# mainstem audit and mainstem relane on a program of the CUDA runtime (runtime_program.cu), linked statically and
# shared: child graphs, memory and conditional nodes, updates, threads, fork. Each case gives what it gives alone; graphs
# that are understood get fewer lanes, the others are left as they are and said to be. Exits 77 where there is no GPU or no nvcc.
# PROGRAMS=DIR: programs built elsewhere, DIR/static and DIR/shared.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
if ! "$SRCDIR/scripts/has_gpu.sh"; then
    echo 'skipped: no GPU'
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ -z "${PROGRAMS-}" ] && [ ! -x "$nvcc" ]; then
    echo 'skipped: no nvcc'
    exit 77
fi
failed=0
fail() {
    echo "FAIL: $*"
    failed=$((failed + 1))
}

for linked in static shared; do
    program=${PROGRAMS-$scratch}/$linked
    if [ -z "${PROGRAMS-}" ] &&
        ! "$nvcc" -std=c++17 -arch=native -cudart $linked -o "$program" \
            "$SRCDIR/tests/gpu/lanes/runtime_program.cu"; then
        fail "$linked: cannot be built"
        continue
    fi
    out=$scratch/$linked
    if ! timeout 60 "$program" >"$out.plain"; then
        fail "$linked: the program does not run by itself"
        continue
    fi
    for way in audit relane; do
        measure=; [ $way = relane ] && measure=--measure
        timeout 100 "$MAINSTEM" $way $measure --report="$out.$way.json" -- "$program" >"$out.$way" 2>"$out.$way.err" ||
            fail "$linked, $way: exit status $?"
        diff "$out.plain" "$out.$way" >"$out.diff" || fail "$linked, $way: other results: $(cat "$out.diff")"
    done
    "${PYTHON:-python3}" - "$linked" "$out.audit.json" "$out.relane.json" <<'EOF' || failed=$((failed + 1))
import json
import sys

linked, *paths = sys.argv[1:]
bad = []
for way, path in zip(("audit", "relane"), paths):
    processes = json.load(open(path, encoding="utf-8"))["processes"]
    graphs = [g for p in processes for g in p["graphs"]]
    if len(processes) != 1 or processes[0].get("error"):
        bad.append(f"{way}: one process without an error was expected: {processes}")
    print(f"\n{linked}, {way}\n")
    print("| nodes | kinds | graphs | replays | updates | lanes before | after | measured | edges added | status |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for g in sorted(graphs, key=lambda g: (g["status"], g["nodes"])):
        if g["graphs"] < 3 and g["status"] == "done" and len(g["kinds"]) == 1 and not g["updates"]:
            continue  # the many graphs
        print("|", " | ".join(str(x) for x in (
            g["nodes"], " ".join(f"{n} {k}" for k, n in g["kinds"].items()), g["graphs"], g["replays"], g["updates"],
            g["lanes_before"], g["lanes_after"], g["lanes_measured"], g["edges_added"], g["status"])), "|")
    for g in graphs:
        unknown = set(g["kinds"]) & set("aifo")
        if g["failed"] or g["updates_failed"] or g["edges_left"]:
            bad.append(f"{way}: failed: {g}")
        if unknown and g["status"] == "done":
            bad.append(f"{way}: touched though not understood: {g}")
        want = g["lanes_after" if way == "relane" else "lanes_before"]
        if set(g["kinds"]) <= {"k", "g"} and g["replays_measured"] and g["lanes_measured"] != want:
            bad.append(f"{way}: measured and predicted lanes differ: {g}")
    if not [g for g in graphs if g["status"] == "done"] or not [g for g in graphs if g["status"] == "unknown"]:
        bad.append(f"{way}: graphs of both sorts were expected")
for b in bad:
    print("FAIL:", b)
sys.exit(bool(bad))
EOF
done
[ $failed = 0 ] && echo "the same results in all cases"
[ $failed = 0 ]
