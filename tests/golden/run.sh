#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Golden tests of the front end: each diag/NAME.stem must give the diagnostics in NAME.err (arguments, if any, in
# NAME.args); each diagnostic of the language must occur in one of them. UPDATE=1 rewrites the expectations.
set -u
here=$SRCDIR/tests/golden
dump=$BUILDDIR/tests/golden/front_dump
scratch=$BUILDDIR/tests/scratch/golden
mkdir -p "$scratch"
cd "$here" || exit 99
passed=0 failed=0

for file in diag/*.stem; do
    name=${file%.stem}
    args=
    [ -f "$name.args" ] && args=$(cat "$name.args")
    # shellcheck disable=SC2086 # the arguments are words
    "$dump" expand "$file" $args >"$scratch/out" 2>"$scratch/err"
    status=$?
    if [ "${UPDATE:-}" ]; then
        cp "$scratch/err" "$name.err"
    fi
    want=1
    grep -q ': error: ' "$scratch/err" || want=0
    if [ $status -ne $want ] || [ -s "$scratch/out" ]; then
        echo "FAIL: $file: exit status $status, expected $want"
        failed=$((failed + 1))
    elif ! cmp -s "$scratch/err" "$name.err"; then
        echo "FAIL: $file"
        diff -u "$name.err" "$scratch/err"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done

# 1006 and 1241 need large files: unit tests cover them.
for id in $(sed -n 's/^STEM_DIAG(\(1[0-3][0-9][0-9]\),.*/\1/p' "$SRCDIR/src/base/diag.def"); do
    case $id in 1006 | 1241) continue ;; esac
    case $id in 125?) continue ;; esac # the ops' own tests cover these
    if grep -q "\[STEM$id\]" diag/*.err; then
        passed=$((passed + 1))
    else
        echo "FAIL: no golden test shows STEM$id"
        failed=$((failed + 1))
    fi
done

echo "golden: $passed passed, $failed failed"
[ $failed -eq 0 ]
