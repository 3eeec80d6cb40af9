#!/usr/bin/env bash
# Builds and runs every test that this machine can run.
#   scripts/check.sh [--full]
# --full adds: clang, sanitizers (address, undefined, thread), valgrind, distcheck, longer property tests and fuzzing.
# The last line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed. Tests that need a
# GPU are skipped where there is none, and say so.
set -u
# shellcheck source=scripts/setup.sh
. "$(dirname "$0")/setup.sh"

full=0
for arg in "$@"; do
    case $arg in
    --full) full=1 ;;
    *) die "unknown argument '$arg' (only --full)" ;;
    esac
done

passed=0 failed=0 skipped=0

# Adds up the results of one `make check`; prints what failed and why the others were skipped.
count() {
    local log=$1 name=$2
    passed=$((passed + $(grep -c '^PASS: ' "$log")))
    failed=$((failed + $(grep -cE '^(FAIL|ERROR|XPASS): ' "$log")))
    skipped=$((skipped + $(grep -c '^SKIP: ' "$log")))
    grep -E '^(FAIL|ERROR|XPASS): ' "$log" | sed "s/^/  [$name] /"
}

# One result for a step that is not a make check.
step() {
    local name=$1
    shift
    local log=$build/step-${name//[^a-z0-9]/-}.log
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1)) && say "$name: passed"
    else
        failed=$((failed + 1)) && say "$name: FAILED ($log)" && tail -n 15 "$log"
    fi
}

# make check in a build directory of its own.
suite() {
    local name=$1 dir=$2
    shift 2
    say "$name"
    (setup_build "$dir" "$@") || { failed=$((failed + 1)); return; }
    say "testing in $dir (make check; $dir/check.log)"
    make -C "$dir" -j"$(nproc)" -k check >"$dir/check.log" 2>&1
    local status=$?
    count "$dir/check.log" "$name"
    if [ $status != 0 ] && ! grep -qE '^(FAIL|ERROR|XPASS): ' "$dir/check.log"; then
        failed=$((failed + 1))
        tail -n 30 "$dir/check.log"
    fi
    show_failures "$dir"
    grep -h '^skipped: ' "$dir"/tests/*.log "$dir"/tests/*/*.log 2>/dev/null | sort -u | sed 's/^/  /'
}

show_failures() {
    local test
    grep -E '^(FAIL|ERROR): ' "$1/check.log" | sed 's/^[A-Z]*: //' | head -n 5 | while read -r test; do
        echo "---- $test"
        tail -n 25 "$1/${test%.sh}.log" 2>/dev/null || tail -n 25 "$1/$test.log"
    done
}

setup_tools
setup_cuda
build=${BUILD:-$top/build}
say "CUDA parts: $CUDA"
suite gcc "$build" --enable-werror

if [ $full = 1 ]; then
    setup_tools '
clang clang
valgrind valgrind
chromium chromium'
    export MAINSTEM_TEST_FULL=1
    suite clang "$build-clang" --enable-werror CC=clang CXX=clang++
    suite 'address and undefined sanitizers' "$build-asan" CC=clang CXX=clang++ --enable-sanitize=address,undefined \
        CFLAGS='-O1 -g' CXXFLAGS='-O1 -g'
    suite 'thread sanitizer' "$build-tsan" CC=clang CXX=clang++ --enable-sanitize=thread CFLAGS='-O1 -g' CXXFLAGS='-O1 -g'
    step 'valgrind' "$top/tests/valgrind.sh" "$build"
    step 'distcheck' make -C "$build" distcheck DISTCHECK_CONFIGURE_FLAGS="--enable-werror --with-cuda=$CUDA"
    (setup_build "$build-fuzz" CC=clang CXX=clang++ --enable-fuzz --enable-sanitize=address,undefined CFLAGS='-O1 -g') &&
        step 'fuzzing' "$top/tests/fuzz/run.sh" "$build-fuzz" "${FUZZ_SECONDS:-60}"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
