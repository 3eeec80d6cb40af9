#!/usr/bin/env bash
# What emitted C costs: size of the sources and time to compile them; with a GPU, the CPU time of an eager launch and of a
# graph launch against the bare driver calls. Prints tables in Markdown.
set -eu
: "${MAINSTEM:?}" "${SRCDIR:?}"
cuda=${CUDA_HOME:-/usr/local/cuda}
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo '| program | buckets | NAME.c | NAME.h | NAME.cu | kernels as data | cc -O2 | object |'
echo '|---|---|---|---|---|---|---|---|'
size() { wc -c <"$1"; }
row() { # EXAMPLE DIMS
    local out=$dir/$1
    rm -rf "$out"
    "$MAINSTEM" emit "$SRCDIR/examples/$1.stem" -o "$out" --dim "T=$2" --no-warnings --embed=source
    local start end
    start=$(date +%s%N)
    $cc -std=c11 -O2 -isystem "$cuda/include" -c -o "$out/o.o" "$out/$1.c"
    end=$(date +%s%N)
    echo "| $1 | $2 | $(size "$out/$1.c") | $(size "$out/$1.h") | $(size "$out/$1.cu") | $(size "$out/${1}_source.c") | $(((end - start) / 1000000)) ms | $(size "$out/o.o") |"
}
for example in dual_stream_moe dsa_indexer gqa_decode qkv_three_streams piecewise inline_kernel; do
    row $example 4
done
row dual_stream_moe 1,4,16,64
"$SRCDIR/scripts/has_gpu.sh" || { echo; echo 'no GPU: launch overhead not measured'; exit 0; }
"$MAINSTEM" emit "$SRCDIR/examples/qkv_three_streams.stem" -o "$dir/qkv" --dim T=4 --name qkv --no-warnings
$cc -std=c11 -O2 -isystem "$cuda/include" -I"$dir/qkv" -o "$dir/overhead" "$SRCDIR/tests/bench/emit_overhead.c" "$dir/qkv/qkv_cubin.c" -ldl
echo
"$dir/overhead"
