#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The schedule as text, as DOT and as a trace, and the comparison of plans, against expectations in expect/. Times and byte counts
# are taken out: they are the cost model's. UPDATE=1 rewrites the expectations.
set -u
here=$SRCDIR/tests/report
scratch=$BUILDDIR/tests/scratch/report
rm -rf "$scratch" && mkdir -p "$scratch" || exit 99
passed=0 failed=0
unset COLUMNS
ex=$SRCDIR/examples

same() { # NAME: $scratch/NAME is as expected
    [ "${UPDATE:-}" ] && mkdir -p "$here/expect" && cp "$scratch/$1" "$here/expect/$1"
    if diff -u "$here/expect/$1" "$scratch/$1"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL: $1"; fi
}
is() { # WHAT GOT EXPECTED
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL: $1: got '$2', expected '$3'"; fi
}
# The drawing without the summary above it (up to the first empty line) and without times.
drawing() {
    name=$1 && shift
    "$MAINSTEM" compile --no-warnings "$@" | sed '1,/^$/d; s/, [0-9.]* us\( each\)*//' >"$scratch/$name"
    same "$name"
}

have_utf8=
LC_ALL=C.UTF-8 locale charmap 2>/dev/null | grep -q UTF-8 && have_utf8=1
for model in dual_stream_moe qkv_three_streams piecewise inline_kernel; do
    LC_ALL=C drawing $model.ascii "$ex/$model.stem"
    [ $have_utf8 ] && LC_ALL=C.UTF-8 drawing $model.utf8 "$ex/$model.stem"
    LC_ALL=C.UTF-8 drawing $model.ascii --ascii "$ex/$model.stem"
done
LC_ALL=C drawing forks.ascii "$here/forks.stem"
LC_ALL=C drawing forks-side-first.ascii "$here/forks.stem" --order=side-first
LC_ALL=C drawing forks-one-stream.ascii "$here/forks.stem" --one-stream
LC_ALL=C drawing interleaved.ascii "$here/interleaved.stem" --no-fuse
LC_ALL=C drawing forks-sizes.ascii "$here/forks.stem" --dim T=1,4
# In parts: each begins and ends with its lines, and a stream whose ops have all been drawn is not in it.
COLUMNS=45 LC_ALL=C drawing narrow.ascii "$here/narrow.stem" --dim T=2 --no-fuse

printf 'module one;\ndim T in 1..8 = 2;\nmodel m(x: bf16[T, 128]) -> bf16[T, 128] { weight w: bf16[128, 128]; return linear(x, w); }\n' >"$scratch/one.stem"
is 'one is not many' "$("$MAINSTEM" compile --no-schedule "$scratch/one.stem" | sed -n 's/  \(ops\|streams\|weights\)  *\([0-9].*\)/\2/p' | tr '\n' ';')" \
    '1 in 1 kernel;1 (main 1 op);32.00 KiB in 1 tensor;'
is 'the summary and --explain-streams estimate alike' \
    "$("$MAINSTEM" compile --no-schedule "$here/narrow.stem" | sed -n 's/  estimate  *\([0-9.]* us\), \([0-9.]* us\) .*/\1 \2/p')" \
    "$("$MAINSTEM" compile -q --explain-streams "$here/narrow.stem" | sed -n 's/.*estimated \([0-9.]* us\) (its ops one after the other \([0-9.]* us\)).*/\1 \2/p')"
is 'no random order is not mentioned' "$("$MAINSTEM" run --device=cpu "$scratch/one.stem" | grep -c 'bit for bit: issue order, latest first$')" 1

is 'no line is wider than 100 columns in a pipe' \
    "$(for m in "$ex"/*.stem "$here"/*.stem; do LC_ALL=C "$MAINSTEM" compile --no-warnings "$m"; done | sed '/^ops\|^[a-z_]*\[/d' | awk 'length > 100' | wc -l | tr -d ' ')" 0
is '--no-schedule leaves the summary' "$("$MAINSTEM" compile --no-schedule "$here/forks.stem" | grep -c '^$')" 0
is '-q prints nothing' "$("$MAINSTEM" compile -q "$here/forks.stem")" ''

"$MAINSTEM" compile -q "$here/forks.stem" -o "$scratch/a" --emit=plan,dot,trace
is 'only what was asked for is written' "$(ls "$scratch/a" | tr '\n' ' ')" 'forks.dot forks.plan.json forks.trace.json '
sed 's/, [0-9.]* us,/,/; s/, penwidth=2.5, tool/, tool/' "$scratch/a/forks.dot" >"$scratch/forks.dot"
same forks.dot
if command -v dot >/dev/null 2>&1; then
    dot -Tsvg "$scratch/a/forks.dot" >/dev/null 2>&1
    is 'Graphviz reads it' $? 0
fi
"$MAINSTEM" compile -q "$here/forks.stem" -o "$scratch/a" --emit=dots 2>/dev/null
is 'what --emit does not know is the command line'"'"'s fault' $? 2

if command -v python3 >/dev/null 2>&1; then
    python3 "$here/check_trace.py" "$scratch/a/forks.plan.json" "$scratch/a/forks.trace.json"
    is 'the trace has the plan'"'"'s ops, tracks and edges' $? 0
fi

if command -v python3 >/dev/null 2>&1; then
    "$MAINSTEM" compile -q "$here/forks.stem" --dim T=1,4 -o "$scratch/sizes" --emit=plan,trace
    python3 "$here/check_trace.py" "$scratch/sizes/forks.plan.json" "$scratch/sizes/forks.trace.json"
    is 'and that of several sizes' $? 0
fi

changes() { # NAME ARGUMENT...: from the plan of forks.stem to what the arguments make of it
    name=$1 && shift
    rm -rf "$scratch/b" && "$MAINSTEM" compile -q --no-warnings "$here/forks.stem" -o "$scratch/b" --emit=plan "$@"
    "$MAINSTEM" diff "$scratch/a/forks.plan.json" "$scratch/b/forks.plan.json" >"$scratch/raw"
    is "$name: exit status" $? 4
    sed 's/: [0-9.]* us, was [0-9.]* us/: other/; /bytes/s/[0-9][0-9]*/N/g' "$scratch/raw" >"$scratch/$name"
    same "$name"
}
changes diff-side-first --order=side-first --pdl=off
changes diff-one-stream --one-stream
changes diff-sizes --dim T=1,4
"$MAINSTEM" diff "$scratch/a/forks.plan.json" "$scratch/a/forks.plan.json" >"$scratch/raw"
is 'a plan does the same as itself' "$? $(cat "$scratch/raw")" '0 the plans do the same'
cp "$scratch/b/forks.plan.json" "$scratch/<b>&.json"
"$MAINSTEM" diff "$scratch/a/forks.plan.json" "$scratch/<b>&.json" -o "$scratch/diff.html" >/dev/null
is 'side by side' "$? $(grep -c '<section>' "$scratch/diff.html") $(grep -c '<b>' "$scratch/diff.html") $(grep -c '&lt;b>&amp;' "$scratch/diff.html")" '4 2 0 2'

# Programs instead of plans: B with other options, or another file.
differ() { # NAME ARGUMENT...
    name=$1 && shift
    "$MAINSTEM" diff --no-warnings "$@" >"$scratch/raw"
    is "$name: exit status" $? 4
    sed 's/: [0-9.]* us, was [0-9.]* us/: other/; /bytes/s/[0-9][0-9]*/N/g' "$scratch/raw" >"$scratch/$name"
    same "$name"
}
differ diff-to "$here/forks.stem" --pdl=off --no-fuse --to=--order=side-first
differ diff-programs "$here/forks.stem" "$here/interleaved.stem" --no-fuse
is 'a program does the same as its plan' "$("$MAINSTEM" diff "$here/forks.stem" "$scratch/a/forks.plan.json")" 'the plans do the same'
"$MAINSTEM" diff "$here/forks.stem" >/dev/null 2>"$scratch/err"
is 'one file and nothing to do to it' "$? $(grep -c 'or --to=OPTION' "$scratch/err")" '2 1'
for word in order=side-first '' - --; do
    "$MAINSTEM" diff "$here/forks.stem" --to="$word" >"$scratch/out" 2>"$scratch/err"
    is "--to=$word" "$? $(grep -c 'such as --to=--matmul=own' "$scratch/err")" '2 1'
done
"$MAINSTEM" diff "$here/forks.stem" "$scratch/a/forks.plan.json" --to=--pdl=off >/dev/null 2>&1
is 'a plan cannot be compiled otherwise' $? 2
"$MAINSTEM" diff "$here/forks.stem" "$here/nothing.stem" >/dev/null 2>&1
is 'a program that is not there' $? 3
"$MAINSTEM" diff "$scratch/a/forks.plan.json" "$scratch/nothing.json" 2>/dev/null
is 'a file that is not there' $? 3
echo '{' >"$scratch/bad.json"
"$MAINSTEM" diff "$scratch/a/forks.plan.json" "$scratch/bad.json" 2>/dev/null
is 'a file that is no plan' $? 1

# Why ops are where they are: a remark for each op, for who asks.
remarks() { # NAME ARGUMENT...
    name=$1 && shift
    "$MAINSTEM" compile -q --no-warnings --remarks=order "$@" 2>&1 >/dev/null | sed -n 's/.*remark: //p' | grep -v ': the only op on main that was ready \[' |
        head -16 >"$scratch/$name"
    same "$name"
}
remarks remarks-main-first "$here/reasons.stem" --pdl=off --no-fuse
remarks remarks-program "$here/forks.stem" --order=program
remarks remarks-side-first "$here/forks.stem" --order=side-first
is 'all other remarks say nothing of single ops' "$("$MAINSTEM" compile -q "$here/forks.stem" --remarks=all 2>&1 | grep -c 'is issued')" 0

# The page from a plan, and with a trace; what the page looks like is tested in a browser.
"$MAINSTEM" report "$scratch/a/forks.plan.json" -o "$scratch/plan.html" >/dev/null
is 'a report of a plan' $? 0
"$MAINSTEM" report "$here/forks.stem" --trace "$scratch/a/forks.trace.json" -o "$scratch/traced.html" >/dev/null
is 'a report with times from a trace' "$? $(grep -c '"measured":true' "$scratch/traced.html")" '0 1'
echo '{"traceEvents": [{"ph": "X", "name": "x", "ts": 0, "dur": 1}]}' >"$scratch/short.json"
"$MAINSTEM" report "$here/forks.stem" --trace "$scratch/short.json" -o "$scratch/no.html" >/dev/null 2>"$scratch/err"
is 'a trace that lacks ops' "$? $(grep -c 'no event is about op' "$scratch/err")" '1 1'
"$MAINSTEM" report "$here/forks.stem" --trace "$scratch/bad.json" -o "$scratch/no.html" >/dev/null 2>&1
is 'a trace that is no JSON' "$?" 1
"$MAINSTEM" report "$here/forks.stem" -o "$scratch/1.html" >/dev/null && "$MAINSTEM" report "$here/forks.stem" -o "$scratch/2.html" >/dev/null
cmp -s "$scratch/1.html" "$scratch/2.html"
is 'the same input gives the same page' $? 0

echo "report: $passed passed, $failed failed"
[ $failed -eq 0 ]
