#!/usr/bin/env bash
# Every path on a real GPU: each example, each way of launching, with poisoned memory, delays, per-op comparison with the
# CPU references, and measured lanes; with programmatic launches and without (PDL='auto off'). FLAGS are added to every run.
# SHARD=2/8 runs every eighth check from the third on, so that eight of these can share a GPU. Exits 77 where there is no GPU.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
if ! "$SRCDIR/scripts/has_gpu.sh"; then
    echo 'skipped: no GPU'
    exit 77
fi
ex=$SRCDIR/examples
small='-D SETS=2 -D HIDDEN=512 -D EXPERTS=32 -D TOPK=4 -D INTER=64'
fail=0 n=0 seen=0 iters=20
shard=${SHARD:-0/1}

# The next check is this shard's: counts it.
mine() {
    seen=$((seen + 1))
    [ $(((seen - 1) % ${shard#*/})) = ${shard%/*} ] && n=$((n + 1))
}

check() {
    mine || return 0
    local out
    # shellcheck disable=SC2086
    if out=$("$MAINSTEM" run "$@" --pdl=$pdl ${FLAGS-} --device=gpu --iters=$iters 2>&1); then
        echo "ok    $* --pdl=$pdl"
        [ "${VERBOSE:-0}" = 0 ] || sed 's/^/      /' <<<"$out"
    else
        echo "FAIL  $* --pdl=$pdl (exit $?)"
        sed 's/^/      /' <<<"$out"
        fail=$((fail + 1))
    fi
}

# What is fused changes no bit.
bits() { "$MAINSTEM" run "$@" --pdl=$pdl ${FLAGS-} --device=gpu --iters=2 2>&1 | sed -n 's/.*output \([^:]*\).*\( bits .*\)/\1\2/p'; }
same_bits() {
    mine || return 0
    local want got
    want=$(bits "$@" --no-fuse)
    got=$(bits "$@")
    if [ "$want" ] && [ "$got" = "$want" ]; then
        echo "ok    $*: fused, the same bits --pdl=$pdl"
    else
        printf 'FAIL  %s --pdl=%s: fused, other bits\n%s\n%s\n' "$*" $pdl "$want" "$got"
        fail=$((fail + 1))
    fi
}

# The extern function of the examples, where there is a compiler for it.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpu.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
${CC:-cc} -shared -fPIC -I "$SRCDIR/runtime" -o "$scratch/rotate_rows.so" "$ex/rotate_rows.c" || exit 99
extern_function() {
    pushd "$scratch" >/dev/null || exit 99
    check "$ex/extern_function.stem" "$@"
    popd >/dev/null || exit 99
}

everything() {
iters=20
# shellcheck disable=SC2086
for by in capture nodes record eager; do
    check $ex/dual_stream_moe.stem $small --dim T=1,4,16,64 --by=$by --poison
    check $ex/qkv_three_streams.stem --by=$by --poison
    check $ex/dsa_indexer.stem --by=$by --poison
    check $ex/gqa_decode.stem --by=$by --poison
    check $ex/inline_kernel.stem --by=$by --poison
    [ $by = record ] || check $ex/piecewise.stem --by=$by --poison
    extern_function --dim T=2,8 --by=$by --poison
done
# shellcheck disable=SC2086
{
    check $ex/dual_stream_moe.stem $small --dim T=4 --compare=cpu
    check $ex/qkv_three_streams.stem --compare=cpu
    check $ex/dsa_indexer.stem --compare=cpu
    check $ex/gqa_decode.stem --compare=cpu
    check $ex/inline_kernel.stem --compare=cpu
    check $ex/dual_stream_moe.stem $small --dim T=4 --chaos
    check $ex/qkv_three_streams.stem --chaos
    check $ex/dsa_indexer.stem --chaos
    check $ex/gqa_decode.stem --chaos
    check $ex/dual_stream_moe.stem $small --dim T=4 --audit
    check $ex/dual_stream_moe.stem $small --dim T=4 --audit --by=nodes
    check $ex/dual_stream_moe.stem $small --dim T=4 --audit --by=record
    check $ex/qkv_three_streams.stem --audit
    check $ex/dual_stream_moe.stem $small --dim T=4 --memory=pool --by=eager --poison
    check $ex/dual_stream_moe.stem $small --dim T=4 --memory=pool --by=capture --poison
    check $ex/dual_stream_moe.stem $small --dim T=4 --order=side-first --poison
    check $ex/dual_stream_moe.stem $small --dim T=4 --order=program --poison
}
# shellcheck disable=SC2086
for t in 1 4 16 64; do
    same_bits $ex/dual_stream_moe.stem $small --dim T=$t
done
same_bits $ex/qkv_three_streams.stem
same_bits $ex/piecewise.stem
for t in 1 4 16; do
    same_bits "$SRCDIR/tests/gpu/latent_ops.stem" --dim T=$t
done
check "$SRCDIR/tests/gpu/attention_ops.stem" --dim T=1,4,40 --compare=cpu
check "$SRCDIR/tests/gpu/attention_ops.stem" --chaos --poison
check "$SRCDIR/tests/gpu/latent_ops.stem" --dim T=1,4,16,40 --compare=cpu
check "$SRCDIR/tests/gpu/latent_ops.stem" --chaos --poison
check "$SRCDIR/tests/gpu/format_ops.stem" --dim T=1,4,8,16,40,200 --compare=cpu
check "$SRCDIR/tests/gpu/packed_ops.stem" --dim T=4,24,40 --compare=cpu
check "$SRCDIR/tests/gpu/format_ops.stem" --chaos --poison
check "$SRCDIR/tests/gpu/norm_ops.stem" --dim T=1,4,16,70 --compare=cpu
check "$SRCDIR/tests/gpu/norm_ops.stem" --chaos --poison
check "$SRCDIR/tests/gpu/conversions.stem" --compare=cpu
# Products by cuBLASLt, however few tokens.
for by in capture nodes record eager; do
    check "$SRCDIR/tests/gpu/products.stem" --dim T=1,17,128,300 --matmul=cublaslt --by=$by --poison
done
check "$SRCDIR/tests/gpu/products.stem" --dim T=1,17,128 --matmul=cublaslt --compare=cpu
check "$SRCDIR/tests/gpu/products.stem" --matmul=cublaslt --chaos --poison --by=nodes
check "$SRCDIR/tests/gpu/products.stem" --matmul=cublaslt --memory=pool --by=eager --poison
check "$SRCDIR/tests/gpu/products.stem" --matmul=cublaslt --audit --by=nodes
check "$SRCDIR/tests/gpu/products.stem" --matmul=cublaslt --profile="${BUILDDIR:-/tmp}/products.profile.json" --by=nodes
same_bits "$SRCDIR/tests/gpu/products.stem" --matmul=cublaslt
# Failures from the field (tests/cases): every branch delayed in turn, the slab poisoned, 200 replays against one stream.
iters=200
for case in "$SRCDIR"/tests/cases/c*.stem; do
    check "$case" --chaos --poison
    check "$case" --chaos --poison --by=nodes
done
for options in N=61 READER=0 SIDE=0 OWNED=1 PIN=1; do
    for case in $(grep -lE "const.* ${options%=*} = " "$SRCDIR"/tests/cases/c*.stem); do
        # `release` of what the caller owns is an error, not a program
        [ "$options ${case##*/}" = 'OWNED=1 c04_release_and_read.stem' ] || check "$case" -D $options --chaos --poison
    done
done
check "$SRCDIR/tests/cases/c08_inplace.stem" --inplace=wait --chaos --poison
check "$SRCDIR/tests/cases/c08_inplace.stem" --inplace=copy --chaos --poison
}
for pdl in ${PDL:-auto off}; do
    everything
done
echo "$((n - fail)) of $n runs as they should be"
[ $fail = 0 ]
