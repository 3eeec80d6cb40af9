#!/usr/bin/env bash
# Time from the start of a process to the end of its first replay, 61 layers, with a warm cache: through libmainstem from the
# .stem file and from a plan, and by emitted C; and what starting CUDA costs in any case. Then the sizes of sources and
# libraries. Markdown; each row is the fastest of RUNS (7). MAINSTEM, SRCDIR, BUILDDIR; needs a GPU for the times.
set -eu
: "${MAINSTEM:?}" "${SRCDIR:?}" "${BUILDDIR:?}"
cuda=${CUDA_HOME:-/usr/local/cuda}
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
example=$SRCDIR/examples/dual_stream_moe.stem
size() { cat "$@" | wc -c; }
kib() { echo "$(($(size "$@") / 1024)) KiB"; }
"$MAINSTEM" emit "$example" -o "$dir/m" --dim T=4 --name model --no-warnings ${EMBED:-} || exit 1
"$MAINSTEM" compile "$example" --dim T=4 --emit=plan -o "$dir" --no-warnings >/dev/null
mv "$dir/dual_stream_moe.plan.json" "$dir/plan.json"
for lib in libmainstem.so libmainstem-rt.so; do
    cp "$BUILDDIR/.libs/$lib" "$dir/$lib" && strip "$dir/$lib" 2>/dev/null || true
done
echo '| 61 layers, T = 4 | size |'
echo '|---|---|'
echo "| \`.stem\` file | $(size "$example") bytes |"
echo "| plan as JSON | $(kib "$dir/plan.json") |"
echo "| emitted: model.c, model.h | $(kib "$dir/m/model.c" "$dir/m/model.h") |"
echo "| emitted: model.cu | $(kib "$dir/m/model.cu") |"
echo "| emitted: kernels as data (text of a C array) | $(kib "$dir"/m/model_*.c) |"
for lib in libmainstem.so libmainstem-rt.so; do echo "| $lib, stripped | $(kib "$dir/$lib") |"; done
"$SRCDIR/scripts/has_gpu.sh" || { echo; echo 'no GPU: times not measured'; exit 0; }
$cc -std=c11 -O2 -I"$SRCDIR/src" -I"$SRCDIR/runtime" -o "$dir/start" "$SRCDIR/tests/bench/start.c" -L"$BUILDDIR/.libs" -lmainstem
$cc -std=c11 -O2 -isystem "$cuda/include" -I"$dir/m" -o "$dir/emitted" "$SRCDIR/tests/bench/start_emitted.c" "$dir"/m/model_*.c -ldl
export LD_LIBRARY_PATH=$BUILDDIR/.libs:${LD_LIBRARY_PATH:-}
echo
echo '| ms | to main | compile or read | driver | kernels (all of NVRTC and cache) | bind | graph | first replay | sum |'
echo '|---|---|---|---|---|---|---|---|---|'
row() { # PROGRAM ARGUMENTS: the fastest by its last column
    for _ in $(seq "${RUNS:-7}"); do "$@" "$(date +%s%N)"; done | awk -F'|' 'NR == 1 || $(NF - 1) + 0 < best { best = $(NF - 1) + 0; row = $0 } END { print row }'
}
"$dir/start" "$example" T=4 >/dev/null # fills the cache
row "$dir/emitted" floor
row "$dir/emitted" 4
row "$dir/start" "$dir/plan.json" T=4
row "$dir/start" "$example" T=4
