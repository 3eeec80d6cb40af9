#!/usr/bin/env bash
# Builds and runs every test that this machine can run.
#   scripts/check.sh [--full[=PHASE,...]]
#
#   (no argument)   gcc: build with gcc and -Werror, make check
#   --full          that, and all of these
#   --full=LIST     these alone
#     archs           every kernel for every architecture (make check: for sm_90)
#     clang           the same with clang
#     asan            address and undefined sanitizers
#     tsan            thread sanitizer
#     valgrind        memcheck over unit tests and the command line (tests/valgrind.sh)
#     distcheck       a tarball that builds, checks and installs elsewhere
#     long            more random programs and mutants than make check has (LONG=N: N times as many, default 10)
#     fuzz            libFuzzer (FUZZ_SECONDS, default 60)
#
# A phase that fails does not keep the others from running; a table at the end has the result and the time of each. The
# last line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed. Tests that need a GPU are
# skipped where there is none, and say so. Build directories are BUILD (default build) and BUILD-PHASE; JOBS sets how
# many compilers and tests run at a time.
set -u
# shellcheck source=scripts/setup.sh
. "$(dirname "$0")/setup.sh"

all='archs clang asan tsan valgrind distcheck long fuzz'
phases=gcc
for arg in "$@"; do
    case $arg in
    --full) phases="gcc $all" ;;
    --full=*) phases=${arg#--full=} phases=${phases//,/ } ;;
    -h | --help) sed -n '2,/^set -u/{/^set -u/d; s/^# \{0,1\}//; p}' "$0"; exit 0 ;;
    *) die "unknown argument '$arg' (--help says which there are)" ;;
    esac
done
for phase in $phases; do
    [[ " gcc $all " = *" $phase "* ]] || die "no phase '$phase': gcc ${all}"
done

build=${BUILD:-$top/build}
passed=0 failed=0 skipped=0
export JOBS=${JOBS:-$(nproc)}

# Adds up the results of one `make check`; prints what failed and why the others were skipped.
count() {
    local log=$1
    passed=$((passed + $(grep -c '^PASS: ' "$log")))
    failed=$((failed + $(grep -cE '^(FAIL|ERROR|XPASS): ' "$log")))
    skipped=$((skipped + $(grep -c '^SKIP: ' "$log")))
    grep -E '^(FAIL|ERROR|XPASS): ' "$log" | sed 's/^/  /'
}

show_failures() {
    local test
    grep -E '^(FAIL|ERROR): ' "$1/check.log" | sed 's/^[A-Z]*: //' | head -n 5 | while read -r test; do
        echo "---- $test"
        tail -n 25 "$1/${test%.sh}.log" 2>/dev/null || tail -n 25 "$1/$test.log"
    done
}

# make check in a build directory of its own: DIRECTORY [configure arguments].
suite() {
    local dir=$1 status
    (setup_build "$@") || { failed=$((failed + 1)); return; }
    say "testing in $dir (make check; $dir/check.log)"
    make -C "$dir" -j"$JOBS" -k check >"$dir/check.log" 2>&1
    status=$?
    count "$dir/check.log"
    if [ $status != 0 ] && ! grep -qE '^(FAIL|ERROR|XPASS): ' "$dir/check.log"; then
        failed=$((failed + 1))
        tail -n 30 "$dir/check.log"
    fi
    show_failures "$dir"
    grep -h '^skipped: ' "$dir"/tests/*.log "$dir"/tests/*/*.log 2>/dev/null | sort -u | sed 's/^/  /'
}

# One result for what is not a make check: NAME COMMAND...
step() {
    local log=$build/step-$1.log
    shift
    "$@" >"$log" 2>&1
    case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) && grep '^skipped: ' "$log" ;;
    *) failed=$((failed + 1)) && tail -n 15 "$log" && echo "  ($log)" ;;
    esac
}

# The build that `make check` tests, for phases that look at it in another way.
plain_build() {
    (setup_build "$build" --enable-werror) || { failed=$((failed + 1)); return 1; }
}

# What a phase needs beyond a build: a line "command package" each. Where it cannot be had, the phase fails.
with_tools() {
    (setup_tools "$1") || { failed=$((failed + 1)); return 1; }
}

sanitized() {
    suite "$build-$1" CC=clang CXX=clang++ --enable-sanitize="$2" CFLAGS='-O1 -g' CXXFLAGS='-O1 -g'
}

phase_gcc() { suite "$build" --enable-werror; }
phase_archs() {
    plain_build && step archs-build make -C "$build" -j"$JOBS" tests/unit/test_kernels &&
        step archs env STEM_ALL_ARCHS=1 MAINSTEM_CACHE="$build/tests/cache" "$build/tests/unit/test_kernels"
}
phase_clang() { with_tools 'clang clang' && suite "$build-clang" --enable-werror CC=clang CXX=clang++; }
phase_asan() { with_tools 'clang clang' && sanitized asan address,undefined; }
phase_tsan() { with_tools 'clang clang' && sanitized tsan thread; }
phase_valgrind() { with_tools 'valgrind valgrind' && plain_build && step valgrind "$top/tests/valgrind.sh" "$build"; }
phase_distcheck() {
    plain_build &&
        step distcheck make -C "$build" -j"$JOBS" distcheck DISTCHECK_CONFIGURE_FLAGS="--enable-werror --with-cuda=$CUDA"
}
phase_long() {
    local n=${LONG:-10}
    plain_build || return
    step long-build make -C "$build" -j"$JOBS" tests/prop/test_prop_pass tests/prop/test_values
    step long-passes env STEM_SEEDS=$((1200 * n)) "$build/tests/prop/test_prop_pass"
    step long-values env VALUES_TEXTS=$((400 * n)) "$build/tests/prop/test_values"
    step long-proof env BUILDDIR="$build" SRCDIR="$top" PLANS=$((1500 * n)) PROGRAMS=$((400 * n)) "$top/tests/bench/proof.sh"
}
phase_fuzz() {
    with_tools 'clang clang' || return
    (setup_build "$build-fuzz" CC=clang CXX=clang++ --enable-fuzz --enable-sanitize=address,undefined CFLAGS='-O1 -g') ||
        { failed=$((failed + 1)); return; }
    step fuzz "$top/tests/fuzz/run.sh" "$build-fuzz" "${FUZZ_SECONDS:-60}"
}

setup_tools
setup_cuda
say "CUDA parts: $CUDA"
[ "$phases" != "gcc $all" ] || (setup_tools 'chromium chromium') # for the tests of the report's page
mkdir -p "$build"
table=
for phase in $phases; do
    say "phase $phase"
    before="$passed $failed $skipped" start=$SECONDS
    "phase_$phase"
    read -r p f s <<<"$before"
    result=passed
    [ "$failed" = "$f" ] || result=FAILED
    [ $((passed + failed)) != $((p + f)) ] || result=skipped
    line=$(printf '%-10s %-8s %4d s  %3d passed, %d failed, %d skipped' "$phase" $result $((SECONDS - start)) \
        $((passed - p)) $((failed - f)) $((skipped - s)))
    say "$line"
    table+="$line"$'\n'
done
[ "$phases" = "${phases%% *}" ] || printf '\n%s' "$table"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
