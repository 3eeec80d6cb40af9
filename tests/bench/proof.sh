#!/usr/bin/env bash
# What is proven, as a table in Markdown: mutants of plans, random programs in legal orders, bytes over the bound, injected
# failures, fuzzing, and how long the verifier takes. Run it from anywhere with BUILDDIR set to a configured build; it
# builds the test programs that it needs. Exit status 0 only if every figure that must be 0 is 0.
#   PLANS=200000 PROGRAMS=2000    for more of both (the defaults take about ten seconds)
#   FUZZ_LOG=FILE                 of tests/fuzz/run.sh (default: that of BUILDDIR or BUILDDIR-fuzz, if there is one)
set -u
: "${BUILDDIR:?}" "${SRCDIR:?}"
MAINSTEM=${MAINSTEM:-$BUILDDIR/mainstem}
t=$BUILDDIR/tests
bad=0
make -s -C "$BUILDDIR" mainstem libfakecuda.la tests/verify/test_mutants tests/verify/test_emitted tests/verify/test_pipeline \
    tests/prop/test_prop_pass tests/fakecuda/test_runtime >/dev/null || exit 3

row() { echo "| $1 | $2 |"; }
must_be_0() { [ "$1" = 0 ] || { bad=1; echo "  **$2 is not 0**"; }; }
numbers() { grep -oE '[0-9]+(\.[0-9]+)?' <<<"$1" | tr '\n' ' '; }

echo '| what | figure |'
echo '|---|---|'

last=$("$t/verify/test_mutants" --plans "${PLANS:-2000}" | tail -n 1) || bad=1
read -r tried unsafe accepted correct rejected <<<"$(numbers "$last")"
row 'mutants of random plans, truth by every legal execution' "$tried, $unsafe unsafe, $accepted of these accepted"
row 'correct random plans' "$correct, $rejected rejected"
must_be_0 "$accepted" 'unsafe mutants accepted'
must_be_0 "$rejected" 'correct plans rejected'

last=$("$t/verify/test_emitted" --programs "${PROGRAMS:-400}" | tail -n 1) || bad=1
read -r tried unsafe accepted correct ops rejected <<<"$(numbers "$last")"
row 'mutants of emitted plans (examples, cases, random programs)' "$tried, $unsafe unsafe, $accepted of these accepted"
row 'correct emitted plans' "$correct with $ops ops, $rejected rejected"
must_be_0 "$accepted" 'unsafe mutants accepted'
must_be_0 "$rejected" 'emitted plans rejected'

last=$("$t/verify/test_pipeline" --programs "${PROGRAMS:-400}" | tail -n 1) || bad=1
read -r programs ops events reuse rejected runs differing <<<"$(numbers "$last")"
row 'random programs through all passes, executed' \
    "$programs ($ops ops; $events with events, $reuse reusing memory); $runs runs in legal orders, $differing with other bits"
must_be_0 "$differing" 'runs with other bits'
must_be_0 "$rejected" 'programs rejected'

last=$("$t/fakecuda/test_runtime" 2>&1 | grep 'failures injected') || bad=1
read -r tried handled <<<"$(sed -E 's/.*\(([0-9]+) failures injected, ([0-9]+) handled badly.*/\1 \2/' <<<"$last")"
row 'driver calls made to fail, one at a time' "$tried; $handled with a leak, an open capture, a lost flag or a poor message"
must_be_0 "$handled" 'failures handled badly'

log=${FUZZ_LOG:-}
[ -n "$log" ] || for log in "$BUILDDIR/tests/fuzz/last.log" "$BUILDDIR-fuzz/tests/fuzz/last.log"; do [ -f "$log" ] && break; done
if [ -f "$log" ]; then
    row 'fuzzing (text, IR, plans, graphs)' "$(tail -n 1 "$log" | sed 's/^fuzz: //')"
    must_be_0 "$(sed -n '$s/.* \([0-9]*\) crashes/\1/p' "$log")" 'crashes'
else
    row 'fuzzing (text, IR, plans, graphs)' 'not run here: tests/fuzz/run.sh'
fi

for f in "$SRCDIR"/examples/*.stem; do
    slab=$("$MAINSTEM" compile --no-warnings "$f" | sed -nE 's/^ *slab *(.*)$/\1/p' | head -n 1)
    row "slab of $(basename "$f" .stem)" "$slab"
done
ratio=$("$t/prop/test_prop_pass" 2>/dev/null | sed -nE 's/.*slab \/ bound: ([0-9.]+) on average over ([0-9]+) programs.*/\1 \2/p') || bad=1
row "slab of random programs" "$(awk '{ printf "+%.1f %% on average over %d", 100 * ($1 - 1), $2 }' <<<"$ratio")"

# verify: best of 3
verify() {
    local best='' ms
    for _ in 1 2 3; do
        ms=$("$MAINSTEM" compile --no-warnings --time-passes "$@" 2>&1 | awk '$1 == "verify" { print $2 }')
        if [ -z "$best" ] || awk "BEGIN { exit !($ms < $best) }"; then best=$ms; fi
    done
    echo "$best ms"
}
row 'verifier, 61 layers (549 ops)' "$(verify "$SRCDIR/examples/dual_stream_moe.stem" --dim T=4)"
row 'verifier, 100001 ops on two streams' "$(verify "$SRCDIR/tests/cases/c01_dual_branch.stem" -D N=20000)"
exit $bad
