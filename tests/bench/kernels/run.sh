#!/usr/bin/env bash
# Compiles the programs of this folder for the GPU that is there and runs them: the best configuration of each kernel, as a
# table in Markdown, and the bars of those that have one (kernels.py).
#   tests/bench/kernels/run.sh [bf16|f8|nvfp4|int4|attention ...]                                                   (default all)
# What was compiled is kept in BUILDDIR/bench-kernels (KERNELS) until a source changes; all is compiled at once.
set -u
here=$(cd "$(dirname "$0")" && pwd)
src=${SRCDIR:-$(cd "$here/../../.." && pwd)}
out=${KERNELS:-${BUILDDIR:-$src/build}/bench-kernels}
nvcc=${NVCC:-$(command -v nvcc || echo "${MAINSTEM_CUDA:-/usr/local/cuda}/bin/nvcc")}
[ $# -gt 0 ] || set -- bf16 f8 nvfp4 int4 attention
mkdir -p "$out" || exit 3

compile() { # name, source, options
    local sum
    sum=$(cat "$here"/*.cu "$here"/*.h "$src"/src/ops/*/*.cuh "$src"/src/ops/*.cuh 2>/dev/null | cksum)
    [ -x "$out/$1" ] && [ "$(cat "$out/$1.sum" 2>/dev/null)" = "$sum" ] && return 0
    # shellcheck disable=SC2086
    if "$nvcc" -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a ${3-} -I "$src/src/ops" "$here/$2" -o "$out/$1" >"$out/$1.log" 2>&1; then
        echo "$sum" >"$out/$1.sum"
    else
        rm -f "$out/$1"
    fi
}
for what in "$@"; do
    case $what in
    bf16) compile bf16 bench.cu & ;;
    attention) compile attention attention.cu & ;;
    f8) compile f8 formats.cu -DFORMAT=stem_f8 & ;;
    nvfp4) compile nvfp4 formats.cu -DFORMAT=stem_nvfp4 & ;;
    int4) compile int4 formats.cu -DFORMAT=stem_int4 & ;;
    *) echo "there is no '$what'; there are bf16, f8, nvfp4, int4, attention" >&2; exit 2 ;;
    esac
done
wait
status=0
for what in "$@"; do
    if [ ! -x "$out/$what" ]; then
        echo "$what does not compile: $out/$what.log"
        grep -m3 -E 'error' "$out/$what.log"
        status=1
        continue
    fi
    "$out/$what" >"$out/$what.txt" 2>&1 || { echo "$what: exit $?"; tail -5 "$out/$what.txt"; status=1; }
done
python3 "$here/kernels.py" "$@" --dir "$out" || status=1
exit $status
