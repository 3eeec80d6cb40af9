#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# mainstem lanes: the report of a small graph word for word, drawings, and what it says to files that are no graphs.
# UPDATE=1 rewrites the expectation.
set -u
: "${MAINSTEM:?}" "${BUILDDIR:?}" "${SRCDIR:?}"
data=$SRCDIR/tests/cli/data
scratch=$BUILDDIR/tests/scratch/lanes
rm -rf "$scratch"
mkdir -p "$scratch"
passed=0 failed=0

result() {
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $2"
        sed 's/^/      /' "$scratch/out" "$scratch/err"
    fi
}

# status N PATTERN ARGS...: exits with N, and standard error has PATTERN
status() {
    local want=$1 pattern=$2 got
    shift 2
    "$MAINSTEM" lanes "$@" >"$scratch/out" 2>"$scratch/err"
    got=$?
    [ $got = "$want" ] && { [ -z "$pattern" ] || grep -qE -- "$pattern" "$scratch/err"; }
    result $? "mainstem lanes $*: exit status $got, expected $want and '$pattern'"
}

# bad TEXT PATTERN [NAME]: a file with this text is at fault
bad() {
    local file=$scratch/${3:-graph.txt}
    printf '%b' "$1" >"$file"
    status 1 "$2" "$file"
    [ ! -s "$scratch/out" ]
    result $? "nothing is printed for a file that is at fault: $1"
}

status 0 '' "$data/layers.dot"
[ "${UPDATE:-}" ] && cp "$scratch/out" "$data/layers.out"
diff -u "$data/layers.out" "$scratch/out" >"$scratch/diff"
result $? "the report of layers.dot changed: $(cat "$scratch/diff")"
status 0 '' --driver=580 --html="$scratch/page.html" --dot="$scratch/drawing.dot" "$data/layers.dot"
grep -q '<html' "$scratch/page.html" && grep -q '^digraph' "$scratch/drawing.dot"
result $? 'drawings are written'
printf 'A 3 | 0>1 0>2\nB 1\n' >"$scratch/two.txt"
status 0 '' "$scratch/two.txt"
grep -q '^A: 3 nodes' "$scratch/out" && grep -q '^B: 1 node' "$scratch/out"
result $? 'each graph of a file is reported'

status 2 'which file'
status 2 'one file at a time' a b
status 2 "no model of driver '9'" --driver=9 "$data/layers.dot"
status 2 'unknown option' --no-such-option
status 3 'cannot open' /no/such/file
status 3 'cannot write' --dot=/no/such/directory/x.dot "$data/layers.dot"

bad 'x' ':1:2: error: .*STEM4100'
bad 'A 2 | 0>1\nB 2 | 0>1 1>0\n' ':2:1: error: the edges have a cycle.*STEM4102'
bad 'A 2 | 0>7\n' ':1:.*STEM41'
bad 'digraph dot {\n"graph_1_node_0" -> \n' 'STEM41'
bad '\1\2\0377\0\1\n\0\2\nx\n' ':1:4: error: this file is not text: byte 3 is zero.*STEM4100'
[ "$(grep -c 'error:' "$scratch/err")" = 1 ] && ! LC_ALL=C grep -q "$(printf '[\001-\010\200-\377]')" "$scratch/err"
result $? 'a file that is not text: one error, and none of its bytes as they are'
bad 'digraph dot { a -> b; }' ':1:15: error: there are edges in this text, but no node is declared.*STEM4104'
printf 'digraph dot { graph_1_node_0; graph_1_node_5; graph_1_node_0 -> graph_1_node_5; }' >"$scratch/bare.dot"
status 0 "'graph_1_node_5' has no label: taken for a kernel" "$scratch/bare.dot"
grep -q '^graph: 2 nodes, 1 edge, 1 lane (at least 1)' "$scratch/out"
result $? 'nodes without labels are kernels'
printf 'digraph dot { a [label="MEMSET"]; b [label="EMPTY"]; a -> b; }' >"$scratch/none.dot"
status 0 '' "$scratch/none.dot"
grep -q ' 0 lanes (at least 0)' "$scratch/out"
result $? 'no kernel, no lane at least'
bad '' ':1:1: error: there are no graphs in this text.*STEM4104'
bad '# a remark alone\n' 'STEM4104'
status 1 'STEM4104' /dev/null
bad '// a program\nprogram p {\n}\n' ':[0-9]+:[0-9]+: error: this is a program, not a graph: compile it.*STEM4108' model.stem
bad '{"a": 1}' 'mainstem_plan' plan.json
bad '{"a": ' 'error' plan.json

echo "lanes: $passed passed, $failed failed"
[ $failed = 0 ]
