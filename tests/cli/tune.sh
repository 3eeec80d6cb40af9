#!/usr/bin/env bash
# `mainstem tune`, the table that it writes, who reads it, and `mainstem bench`, under the stand-in driver: there is no time
# there, so what is tested is what is launched, kept, written and refused.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}" "${BUILDDIR:?}"
fake=$BUILDDIR/.libs/libfakecuda.so shim=$BUILDDIR/.libs/libtune_shim.so
work=$BUILDDIR/tests/scratch/tune
rm -rf "$work" && mkdir -p "$work" || exit 99
# With a gate that the library can do.
sed 's/norm_linear(hidden, norm, gate)/linear(x, gate)/' "$SRCDIR/examples/dual_stream_moe.stem" >"$work/dual_stream_moe.stem"
moe="$work/dual_stream_moe.stem -D SETS=2 -D LAYERS=3 -D HIDDEN=256 -D EXPERTS=16 -D INTER=64"
failed=0 n=0
unset MAINSTEM_COSTS
MAINSTEM_CACHE=$work/cache
export MAINSTEM_CACHE

plans=
# shellcheck disable=SC2086
for f in '' --one-stream '--one-stream --no-fuse'; do
    i=$((n + 1)) n=$i
    "$MAINSTEM" compile -q --no-warnings $moe --dim T=1,4 $f -o "$work/$i" --emit=plan || exit 99
    plans=$plans:$work/$i/dual_stream_moe.plan.json
done
n=0
# LeakSanitizer's tracer falls over the preloaded objects now and then; the other tests look for leaks.
on_stand_in() {
    ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0:detect_leaks=0" LD_PRELOAD="$fake $shim" TUNE_PLANS=$plans MAINSTEM_CUBLASLT=${CUBLASLT-$fake} MAINSTEM_LIBCUDA=$fake MAINSTEM_NVRTC=$fake "$MAINSTEM" "$@"
}
without_cublaslt() {
    local CUBLASLT=/nowhere
    on_stand_in "$@"
}
count_notes() {
    "$@" 2>&1 | grep -c '^mainstem: note: '
    return 0
}
# STATUS PATTERN COMMAND...: the exit status, and a line of what it says.
expect() {
    local want=$1 pattern=$2 status out
    shift 2
    n=$((n + 1))
    out=$("$@" 2>&1)
    status=$?
    if [ $status != "$want" ] || ! grep -qE "$pattern" <<<"$out"; then
        echo "$*: exit $status, expected $want and /$pattern/; it said:"
        sed 's/^/    /' <<<"$out"
        failed=$((failed + 1))
    fi
}
# How many texts NVRTC compiled with the cached kernels of a directory.
cold_compilations() {
    MAINSTEM_CACHE=$1 MAINSTEM_DEBUG=cache on_stand_in "${@:2}" 2>&1 | grep -c ': compiled in '
    return 0
}
table_of() {
    echo $(sed -nE 's/^\| ([a-z][^|]*) \| (captured|node by node) .*/\1/p' "$1")
}
same() {
    n=$((n + 1))
    cmp "$1" "$2" && return
    failed=$((failed + 1))
}

# shellcheck disable=SC2086
{
    expect 0 'a.json: [0-9]+ ops and [0-9]+ pairs measured on stand-in driver, 0 ops were known$' on_stand_in tune $moe --dim T=1,4 -o "$work/a.json"
    ops=$(grep -c '"op":' "$work/a.json") pairs=$(grep -cE '^ \[[0-9]+,[0-9]+,' "$work/a.json")
    # seven kinds without fusion, two shapes: each has its time, and the three of the shared expert meet the four of the routed ones
    expect 0 '' test "$ops" -ge 18 -a "$pairs" -ge 24
    expect 0 "b.json: $ops ops and $pairs pairs measured" on_stand_in tune $moe --dim T=1,4 -o "$work/b.json"
    same "$work/a.json" "$work/b.json"
    expect 0 "b.json: 0 ops and 0 pairs measured .* $ops ops were known\$" on_stand_in tune $moe --dim T=1,4 -o "$work/b.json"
    same "$work/a.json" "$work/b.json"

    # another kernel: it and its pairs are measured again; the table of another GPU stays
    sed '0,/"kernel":"[0-9a-f]*"/s//"kernel":"00000000000000aa"/; s/"gpus":\[/"gpus":[{"name":"other","sm":80,"ops":[],"pairs":[]},/' \
        "$work/a.json" >"$work/b.json"
    expect 0 "b.json: 1 ops and [1-9][0-9]* pairs measured .* $((ops - 1)) ops were known\$" on_stand_in tune $moe --dim T=1,4 -o "$work/b.json"
    expect 0 '"name":"other"' cat "$work/b.json"
    expect 0 "b.json: $ops ops and $pairs pairs measured .* 0 ops were known\$" on_stand_in tune $moe --dim T=1,4 --again -o "$work/b.json"

    # bounded, and gone on with
    expect 0 '0 ops and 0 pairs measured .*no time for the others' on_stand_in tune $moe --dim T=1,4 --seconds=0 -o "$work/c.json"
    expect 0 "$ops ops and 5 pairs measured" on_stand_in tune $moe --dim T=1,4 --pairs=5 -o "$work/c.json"
    expect 0 "0 ops and $((pairs - 5)) pairs measured" on_stand_in tune $moe --dim T=1,4 -o "$work/c.json"
    same "$work/a.json" "$work/c.json"
    expect 2 'seconds takes a number' on_stand_in tune $moe --seconds=soon
    expect 3 'cannot write' on_stand_in tune $moe --dim T=1,4 -o "$work/no/costs.json"

    # what is no table
    head -c 200 "$work/a.json" >"$work/bad.json"
    expect 1 'bad.json: line [0-9]+, column [0-9]+: ' on_stand_in tune $moe --dim T=1,4 -o "$work/bad.json"
    expect 1 'bad.json: line [0-9]+, column [0-9]+: ' "$MAINSTEM" compile $moe --costs="$work/bad.json"
    echo '{"mainstem_costs":1,"gpus":[{"name":"g","sm":90,"ops":[{"op":"a","kernel":"00000000000000ff","us":-1}],"pairs":[]}]}' >"$work/bad.json"
    expect 1 'bad.json: gpus\[0\].ops\[0\].us: -1 is not in 0' "$MAINSTEM" compile $moe --costs="$work/bad.json"
    expect 3 "^mainstem: error: cannot read '$work': Is a directory" "$MAINSTEM" compile $moe --costs="$work"
    expect 3 'cannot read .*none.json' "$MAINSTEM" compile $moe --costs="$work/none.json"

    # who reads it: asked for, by the environment, beside the cached kernels
    auto='--streams=auto --explain-streams -q'
    expect 0 'T = 4: .*([0-9]+) of \1 ops measured' "$MAINSTEM" compile $moe $auto --dim T=1,4 --costs="$work/a.json"
    expect 0 'T = 4: .*, 0 of [0-9]+ ops measured' "$MAINSTEM" compile $moe $auto --dim T=1,4
    expect 0 'T = 4: .*([0-9]+) of \1 ops measured' env MAINSTEM_COSTS="$work/a.json" "$MAINSTEM" compile $moe $auto
    expect 0 'T = 4: .*, 0 of [0-9]+ ops measured' env MAINSTEM_COSTS="$work/a.json" "$MAINSTEM" compile $moe $auto --costs=none
    expect 1 'costs=none goes on without it' env MAINSTEM_COSTS="$work/bad.json" "$MAINSTEM" compile $moe $auto
    expect 3 'cannot read .*none.json' env MAINSTEM_COSTS="$work/none.json" "$MAINSTEM" compile $moe $auto
    expect 3 "MAINSTEM_COSTS names it; --costs=none goes on without it; 'mainstem tune' makes it\$" env MAINSTEM_COSTS="$work/none.json" "$MAINSTEM" compile $moe $auto
    expect 0 'none.json: .* ops and .* pairs measured' env MAINSTEM_COSTS="$work/none.json" ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0:detect_leaks=0" LD_PRELOAD="$fake $shim" \
        TUNE_PLANS="$plans" MAINSTEM_CUBLASLT="$fake" MAINSTEM_LIBCUDA="$fake" MAINSTEM_NVRTC="$fake" "$MAINSTEM" tune $moe --dim T=1,4
    mkdir -p "$work/cache" && cp "$work/a.json" "$work/cache/costs.json"
    expect 0 'T = 4: .*([0-9]+) of \1 ops measured' "$MAINSTEM" compile $moe $auto
    expect 0 '([0-9]+) of \1 ops measured' "$MAINSTEM" report $moe --explain-streams -o "$work/page.html"
    expect 0 "shared.silu_mul' \(2 ops, 500.0 us\) forks to 'side': .*it saves 500.0 us, .*\(measured\)" "$MAINSTEM" compile $moe $auto
    expect 0 'the file pins ops' "$MAINSTEM" compile $moe -q --explain-streams
    sed 's/"kernel":"[0-9a-f]*"/"kernel":"00000000000000aa"/' "$work/a.json" >"$work/b.json"
    expect 0 "has 'linear\(.*, but of another kernel: it does not count" "$MAINSTEM" compile $moe -q --remarks=streams --costs="$work/b.json"

    # products were measured both ways, and the faster one is taken, for however few tokens; without the library one way
    expect 0 '"matmul\(bf16\[1,256\], \*bf16\[16,256\]\) bf16\[1,16\]"' cat "$work/a.json"
    sed -E '/"op":"matmul/s/"us":[0-9.]+/"us":1.000/' "$work/a.json" >"$work/b.json"
    expect 0 'route.linear: by cuBLASLt \(measured: 250.0 us of our own, 1.0 us by cuBLASLt\)' \
        "$MAINSTEM" compile $moe -q --remarks=library --costs="$work/b.json"
    expect 0 'route.linear: our own kernel \(measured: 250.0 us of our own, 250.0 us by cuBLASLt\)' \
        "$MAINSTEM" compile $moe -q --remarks=library --costs="$work/a.json"
    # what is compiled to run here does without what is not here, says so once, and has fewer ops then
    expect 0 '^mainstem: note: cuBLASLt is faster for some products here, but cannot be found' \
        without_cublaslt bench $moe --dim T=4 --iters=1 --ways=one,chosen --costs="$work/b.json"
    expect 0 '^1$' count_notes without_cublaslt bench $moe --dim T=4 --iters=1 --ways=one,chosen --costs="$work/b.json"
    expect 0 '^0$' count_notes on_stand_in bench $moe --dim T=4 --iters=1 --ways=one,chosen --costs="$work/b.json"
    expect 3 'no cuBLASLt: .*--matmul=own' without_cublaslt bench $moe --dim T=4 --iters=1 --ways=one --matmul=cublaslt
    expect 0 'ops and .* pairs measured' without_cublaslt tune $moe --dim T=1,4 -o "$work/d.json"
    expect 1 '^0$' grep -c matmul "$work/d.json"
    expect 0 'ops and .* pairs measured' on_stand_in tune $moe --dim T=1,4 --matmul=own -o "$work/e.json"
    same "$work/d.json" "$work/e.json"

    # bench: every schedule, every specialisation, the floor
    expect 0 'T = 1, stand-in driver, .*; floor [0-9.]+ us: [0-9.]+ [KMG]iB at the [0-9.]+ TB/s of a copy' on_stand_in bench $moe --dim T=1,4 --iters=2
    expect 0 '^\| chosen streams \| node by node \| [0-9]+ \| .* \| yes \|$' on_stand_in bench $moe --dim T=4 --iters=2

    # nine schedules have two texts of kernels, with programmatic launches and without: each goes through NVRTC once,
    # as the runtime's own kernels do
    expect 0 '^3$' cold_compilations "$work/cold" bench $moe --dim T=1,4 --iters=1
    expect 0 '^0$' cold_compilations "$work/cold" bench $moe --dim T=1,4 --iters=1
    expect 0 '^2$' cold_compilations "$work/cold2" bench $moe --dim T=1,4 --iters=1 --ways=one,chosen

    # some of the ways, and the same as JSON
    on_stand_in bench $moe --dim T=1,4 --iters=3 --ways=chosen,one-nopdl --json="$work/bench.json" >"$work/bench.txt" 2>&1
    expect 0 '^one stream, no PDL chosen streams one stream, no PDL chosen streams$' table_of "$work/bench.txt"
    expect 0 '^as printed$' python3 "$SRCDIR/tests/cli/bench_json.py" "$work/bench.json" "$work/bench.txt"
    expect 2 "ways does not know 'man'; did you mean 'main'" on_stand_in bench $moe --ways=one,man
    expect 2 'ways wants at least one' on_stand_in bench $moe --ways=
    expect 3 'cannot write' on_stand_in bench $moe --dim T=1 --iters=1 --ways=one --json="$work/no/bench.json"
}
echo "$((n - failed)) of $n as they should be"
[ $failed = 0 ]
