#!/usr/bin/env bash
# Runs every libFuzzer target of a build that was configured with --enable-fuzz, in turn:
#   tests/fuzz/run.sh BUILD [SECONDS]       seconds for all of them together (default 60)
# Corpora grow in BUILD/tests/fuzz/corpus/; what crashes stays in BUILD/tests/fuzz/crashes/. The last line is the total,
# which also goes to BUILD/tests/fuzz/last.log. Exit status 0 if nothing crashed.
set -u
[ $# -ge 1 ] || { echo "usage: $0 BUILD [SECONDS]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd) top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) || exit 2
seconds=${2:-60}
out=$build/tests/fuzz
targets='front ir plan graph costs'
n=$(wc -w <<<"$targets")
share=$((seconds / n > 0 ? seconds / n : 1))
crashes=$out/crashes
mkdir -p "$crashes"
# shellcheck disable=SC2086,SC2046
make -C "$build" $(printf 'tests/fuzz/fuzz_%s ' $targets) mainstem >/dev/null || exit 3

# Seeds: what the repository has, and what the compiler makes of it.
seed() {
    local f name
    for t in $targets; do mkdir -p "$out/corpus/$t"; done
    for f in "$top"/examples/*.stem "$top"/tests/cases/*.stem; do
        name=$(basename "$f" .stem)
        cp "$f" "$out/corpus/front/$name"
        for step in expand memory; do
            "$build/mainstem" compile --no-warnings --print-after=$step --stop-after=$step -D LAYERS=2 "$f" \
                >"$out/corpus/ir/$name.$step" 2>/dev/null ||
                "$build/mainstem" compile --no-warnings --print-after=$step --stop-after=$step "$f" \
                    >"$out/corpus/ir/$name.$step" 2>/dev/null
        done
        "$build/mainstem" compile -q --no-warnings -o "$out/corpus/plan" --emit=plan -D LAYERS=2 "$f" 2>/dev/null ||
            "$build/mainstem" compile -q --no-warnings -o "$out/corpus/plan" --emit=plan "$f" 2>/dev/null
    done
    # Without the CUDA text, which says nothing here and makes a seed longer than -max_len.
    sed -i -E 's/"cuda":"(\\.|[^"\\])*"/"cuda":""/' "$out"/corpus/plan/*.plan.json
    cp "$top"/tests/golden/plan/*.json "$out/corpus/plan/"
    cp "$top"/tests/golden/sched/*.ir "$out/corpus/ir/"
    for f in "$top"/tests/lanes/data/*.txt; do head -n 5 "$f" >"$out/corpus/graph/$(basename "$f")"; done
    printf 'digraph dot {\nsubgraph cluster_1 {\nlabel="graph_1";\n"graph_1_node_0"[label="{KERNEL\\n| {ID | 0 | f}}"];\n"graph_1_node_1"[label="{MEMSET\\n}"];\n"graph_1_node_0" -> "graph_1_node_1";\n}\n}\n' \
        >"$out/corpus/graph/dot"
}

costs() {
    printf '{"mainstem_costs":1,"gpus":[\n{"name":"g","sm":90,"bandwidth":4.1e12,"ops":[\n {"op":"a","kernel":"00000000000000ff","us":4.0,"early_us":3.0},\n {"op":"b","kernel":"0000000000000002","us":2.5}],"pairs":[\n [0,1,1.25,-0.5]]}]}\n' \
        >"$out/corpus/costs/table"
}

runs=0 found=0
seed
costs
: >"$out/last.log"
for t in $targets; do
    dict=$here/$t.dict
    [ "$t" = front ] && dict=$here/stem.dict
    [ "$t" = costs ] && dict=$here/plan.dict
    # shellcheck disable=SC2086
    "$out/fuzz_$t" -dict="$dict" -max_len=12000 -timeout=20 -rss_limit_mb=3000 -max_total_time=$share -print_final_stats=1 \
        -artifact_prefix="$crashes/$t-" "$out/corpus/$t" >"$out/$t.log" 2>&1
    status=$?
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$t.log")
    runs=$((runs + ${executed:-0}))
    bad=0
    if [ $status != 0 ]; then
        bad=1
        grep -E 'ERROR|SUMMARY|broken promise' "$out/$t.log" | head -n 5
    fi
    found=$((found + bad))
    echo "$t: ${executed:-0} executions in ${share} s, $bad crashes" | tee -a "$out/last.log"
done
echo "fuzz: $runs executions, $found crashes" | tee -a "$out/last.log"
[ $found = 0 ]
