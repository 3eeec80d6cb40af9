#!/bin/sh
# Every 20th measured graph again on the device that is here. The model is of one driver: on another the comparison is
# only printed. On a driver that the model was measured on, graphs of kernels and ordinary edges must be exact.
set -u
: "${SRCDIR:=.}" "${BUILDDIR:=.}"
data=$SRCDIR/tests/lanes/data
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
"$BUILDDIR/tests/gpu/lanes/calibrate" --every=20 "$data/small.txt" "$data/random.txt" "$data/forks.txt" \
    "$data/edges.txt" "$data/kinds.txt" >/dev/null 2>"$out"
status=$?
cat "$out"
[ $status -eq 0 ] || exit $status
grep -q 'driver 580\.' "$out" || { echo "not a driver that the model was measured on: nothing is compared"; exit 0; }
awk '/^[^ ].*:/ { kernels = $0 ~ /(small|random|forks)\.txt/ }
     / all / && kernels { bad += $2 != $3; rows++ }
     END { exit !(rows == 3 && bad == 0) }' "$out"
