#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# mainstem relane and mainstem audit: exit statuses, signals, output, and the whole library in a program that plays
# the driver's part (tests/inject/program).
set -u
: "${MAINSTEM:?}" "${BUILDDIR:?}"
scratch=$BUILDDIR/tests/scratch/relane
rm -rf "$scratch"
mkdir -p "$scratch/cuda/lib64" "$scratch/empty" "$scratch/tmp"
ln -s "$BUILDDIR/.libs/libfakecupti.so" "$scratch/cuda/lib64/libcupti.so"
export MAINSTEM_CUDA=$scratch/cuda MAINSTEM_LIBCUDA=$BUILDDIR/.libs/libfakecuda.so TMPDIR=$scratch/tmp
unset CUDA_INJECTION64_PATH MAINSTEM_INJECT MAINSTEM_INJECT_LIBRARY
program=$BUILDDIR/tests/inject/program
passed=0 failed=0

result() { # result OK? WHAT
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $2"
        sed 's/^/      /' "$scratch/out" "$scratch/err"
    fi
}

# status N ARGS...: `mainstem ARGS` exits with N
status() {
    local want=$1 got
    shift
    "$MAINSTEM" "$@" >"$scratch/out" 2>"$scratch/err"
    got=$?
    [ $got = "$want" ]
    result $? "mainstem $*: exit status $got, expected $want"
}
out() { grep -qE -- "$1" "$scratch/out"; result $? "output lacks: $1"; }
err() { grep -qE -- "$1" "$scratch/err"; result $? "standard error lacks: $1"; }
no_err() { ! grep -qE -- "$1" "$scratch/err"; result $? "standard error has: $1"; }

# What the command does is what mainstem does.
for way in relane audit; do
    status 0 $way -- true
    err 'no report'
    status 7 $way -- sh -c 'exit 7'
    status 7 $way sh -c 'exit 7'
    status 127 $way -- /no/such/command
    err '/no/such/command: No such file'
    status 127 $way -- no-such-command-at-all
    status 126 $way -- "$scratch/cuda"
    status 143 $way -- sh -c 'kill -TERM $$'
    status 2 $way
    err 'which command'
    status 2 $way --
    status 2 $way --no-such-option -- true
    status 2 $way --max-nodes=many -- true
    status 2 $way --max-nodes=0 -- true
    status 0 $way --quiet -- echo --quiet -- x
    [ "$(cat "$scratch/out")" = '--quiet -- x' ]
    result $? 'the arguments of the command are its own'
    no_err .
    status 0 $way --help
done
status 2 relane --no-measure -- true
status 2 audit --measure -- true
echo input | "$MAINSTEM" relane -q -- cat >"$scratch/out" 2>"$scratch/err"
[ "$(cat "$scratch/out")" = input ]
result $? 'standard input reaches the command'

# A signal that reaches mainstem alone is handed on.
"$MAINSTEM" relane -q -- sh -c 'trap "exit 9" TERM; touch "$0"; while :; do sleep 0.05; done' "$scratch/ready" \
    >"$scratch/out" 2>"$scratch/err" &
pid=$!
while [ ! -e "$scratch/ready" ]; do sleep 0.05; done
kill -TERM $pid
wait $pid
got=$?
[ $got = 9 ]
result $? "a signal is handed on: exit status $got, expected 9"

# The whole of it. Six lanes become two; the graph is as it was afterwards.
status 0 relane --report="$scratch/r.json" -- "$program"
[ "$(cat "$scratch/out")" = 'edges 20, while instantiating 24, after 20
edges 20, while instantiating 24, after 20' ]
result $? 'edges are there while the graph is instantiated, and only then'
err '^ +2 +16 +20 +4 +6 +2 +2 +- +4 .* relaned'
cp "$scratch/r.json" "$scratch/out"
for fact in '"format": "mainstem-inject-report-1"' '"mode": "relane"' '"lanes_before": 6' '"lanes_after": 2' '"graphs": 2'; do
    out "$fact"
done
status 0 relane --measure -- "$program"
err '^ +2 +16 +20 +4 +6 +2 +2 +3 +4 .* relaned' # the stand-in's kernels run on three streams
status 0 audit -- "$program"
out 'edges 20, while instantiating 20, after 20'
err '^ +2 +16 +20 +4 +6 +2 +2 +3 +4 .* could be relaned'
FAKECUPTI_NO_ID=1 status 0 audit -- "$program"
err '^ +2 +16 +20 +4 +6 +2 +2 +3 +4 .* could be relaned'
status 0 audit --no-measure -- "$program"
err '^ +2 +16 +20 +4 +6 +2 +2 +- +4 .* could be relaned'
status 0 relane -- "$program" child
out 'edges 21, while instantiating 25, after 21'
err '^ +2 +17 +21 +4 +6 +2 +2 .* relaned' # the child graph goes on with the last lane
status 0 relane -- "$program" alloc
out 'edges 21, while instantiating 21, after 21'
err '^ +2 +17 +21 +0 +6 +6 +2 .* left alone: 1 allocation node'
status 0 relane --max-nodes=10 -- "$program"
err 'left alone: too large'
status 5 relane -- "$program" layers 1 exit 5
err 'nothing to gain'
status 0 relane -- "$program" fork
[ "$(grep -c 'process' "$scratch/err")" = 1 ]
result $? 'a forked child reports nothing'
status 134 relane -- "$program" abort # no exit handlers: what was written after the first instantiation
err '^ +1 +16 +20 +4 .* relaned'
status 0 relane -- sh -c '"$0" & "$0" layers 7; wait' "$program"
[ "$(grep -c '^mainstem: process' "$scratch/err")" = 2 ]
result $? 'each process of the command has its report'

# Whatever is missing, the command runs.
for way in relane audit; do
    MAINSTEM_CUDA=$scratch/empty status 3 $way -- "$program" exit 3
    out 'edges 20, while instantiating 20, after 20'
    err 'nothing was .*: no CUPTI was found'
    FAKECUPTI_TAKEN=1 status 3 $way -- "$program" exit 3
    out 'edges 20, while instantiating 20, after 20'
    err 'another tool'
    MAINSTEM_LIBCUDA=/no/such/driver.so status 3 $way -- "$program" exit 3
    out 'edges 20, while instantiating 20, after 20'
    err 'the driver lacks'
    MAINSTEM_INJECT_LIBRARY=/no/such.so status 3 $way -- "$program" exit 3
    out 'edges 20, while instantiating 20, after 20'
    err 'was not found'
    TMPDIR=$scratch/nowhere status 3 $way -- "$program" exit 3
    err 'no directory for reports'
done
CUDA_INJECTION64_PATH=/other/tool.so status 0 relane -- "$program"
err 'CUDA_INJECTION64_PATH was /other/tool.so'
status 0 relane --report="$scratch/no/such/r.json" -- "$program"
err 'cannot write'

# The library alone, without instructions, does nothing.
CUDA_INJECTION64_PATH=$BUILDDIR/.libs/libmainstem-inject.so "$program" >"$scratch/out" 2>"$scratch/err"
out 'edges 20, while instantiating 20, after 20'
no_err .
[ -z "$(ls "$scratch/tmp")" ]
result $? 'temporary files are removed'

echo "relane: $passed passed, $failed failed"
[ $failed = 0 ]
