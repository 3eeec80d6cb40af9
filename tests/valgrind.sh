#!/usr/bin/env bash
# Memcheck over unit tests and the command line:  tests/valgrind.sh BUILD [REGEX: only runs of that name]
# Errors and definite leaks fail. What takes minutes under valgrind (NVRTC, heavy kernels, thousands of mutants) is left
# out or made short. The last line is the total; exit status 0 if nothing was found, 77 if there is no valgrind.
set -u
[ $# -ge 1 ] || { echo "usage: $0 BUILD [REGEX]" >&2; exit 2; }
command -v valgrind >/dev/null || { echo 'skipped: no valgrind'; exit 77; }
SRCDIR=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd) || exit 2
export SRCDIR BUILDDIR=$build MAINSTEM=$build/mainstem MAINSTEM_CACHE=$build/tests/cache STEM_SEEDS=20 CXX=${CXX:-c++}
logs=$build/tests/valgrind
mkdir -p "$logs"
tests='tests/unit/test_base tests/unit/test_plan tests/unit/test_dim tests/unit/test_ir tests/unit/test_read tests/unit/test_pass
tests/unit/test_verify tests/unit/test_front tests/unit/test_runtime tests/lanes/test_dot
tests/lanes/test_repair tests/fakecuda/test_streams tests/fakecuda/test_capture tests/fakecuda/test_graphs
tests/fakecuda/test_rt'
# shellcheck disable=SC2086
make -s -C "$build" mainstem libfakecuda.la tests/cases/test_cases tests/verify/test_mutants tests/verify/test_emitted $tests \
    >"$logs/make.log" 2>&1 || { tail -n 20 "$logs/make.log"; exit 3; }
run=0 found=0 only=${2:-.}

# check NAME COMMAND...
check() {
    local name=${1//\//-} start=$SECONDS status
    [[ $name =~ $only ]] || return 0
    shift
    run=$((run + 1))
    (cd "$build" && timeout 300 ./libtool --mode=execute valgrind --quiet --error-exitcode=9 --leak-check=full \
        --errors-for-leak-kinds=definite --show-leak-kinds=definite --num-callers=20 "$@") >"$logs/$name.log" 2>&1
    status=$?
    if [ $status = 0 ]; then
        echo "ok    $name ($((SECONDS - start)) s)"
    else
        found=$((found + 1))
        echo "FAIL  $name (exit $status): $logs/$name.log"
        grep -E '^==' "$logs/$name.log" | head -n 20
    fi
}

for t in $tests; do
    [ ! -e "$build/$t" ] || check "$t" "$build/$t"
done
check mutants "$build/tests/verify/test_mutants" --plans 10
check emitted "$build/tests/verify/test_emitted" --programs 3 --tries 1
moe='-D LAYERS=2 -D SETS=1 -D HIDDEN=128 -D EXPERTS=16 -D TOPK=2 -D INTER=64'
for file in "$SRCDIR"/examples/*.stem; do
    size=
    [ "$(basename "$file")" != dual_stream_moe.stem ] || size=$moe
    # shellcheck disable=SC2086
    check "compile-$(basename "$file" .stem)" "$MAINSTEM" compile --remarks -o "$logs" --emit=plan,cuda $size "$file"
done
# shellcheck disable=SC2086
check run-moe "$MAINSTEM" run --device=cpu --orders=1 $moe --dim T=1 "$SRCDIR/examples/dual_stream_moe.stem"
for case in c01_dual_branch c04_release_and_read c06_shared_source c09_fusion; do
    check "run-$case" "$MAINSTEM" run --device=cpu --orders=2 "$SRCDIR/tests/cases/$case.stem"
done
check verify-json "$MAINSTEM" verify "$SRCDIR/tests/golden/plan/safe.json"
check explain "$MAINSTEM" explain STEM3008
check ops "$MAINSTEM" ops linear
echo "valgrind: $run runs, $found with errors"
[ $found = 0 ]
