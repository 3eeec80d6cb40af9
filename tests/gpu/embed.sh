#!/usr/bin/env bash
# The foreign projects of examples/embed on a GPU: emitted with one bucket and with four, kernels as cubins and as source,
# built as their owners would, and run: C with a Makefile, C++ with CMake, PyTorch. Kernels of another architecture are
# refused by name. Exits 77 where there is no GPU; CMake and torch are left out where they are missing.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
cuda=${CUDA_HOME:-/usr/local/cuda}
if ! "$SRCDIR/scripts/has_gpu.sh"; then
    echo 'skipped: no GPU'
    exit 77
fi
[ -f "$cuda/include/cuda.h" ] || { echo 'skipped: no cuda.h'; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/embed.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
fail=0 n=0
check() { # WHAT COMMAND...
    local what=$1 out
    shift
    n=$((n + 1))
    out=$("$@" 2>&1)
    case $? in
    0) echo "ok    $what" ;;
    77) echo "left out: $what: $out" && return ;;
    *) echo "FAIL  $what" && fail=1 ;;
    esac
    sed 's/^/      /' <<<"$out"
}
build_c() { make -s -C "$dir/c" VENDOR="$1" CUDA_HOME="$cuda" clean all; }
in_c() { build_c "$1" && "$dir/c/decode"; }
in_cmake() {
    command -v cmake >/dev/null || { echo 'no cmake'; return 77; }
    rm -rf "$dir/build"
    CUDA_HOME=$cuda cmake -S "$dir/cmake" -B "$dir/build" -DVENDOR="$1" >"$dir/log" 2>&1 &&
        cmake --build "$dir/build" >>"$dir/log" 2>&1 || { cat "$dir/log"; return 1; }
    "$dir/build/buckets"
}
in_pytorch() { CUDA_HOME=$cuda python3 "$SRCDIR/examples/embed/pytorch/embed.py" "$@"; }
emit() { "$MAINSTEM" emit "$SRCDIR/examples/qkv_three_streams.stem" --name qkv --no-warnings "$@"; }
refused() { # kernels that this GPU cannot run
    local out
    emit --dim T=4 --arch="$1" -o "$dir/other" && build_c "$dir/other" || return 1
    out=$("$dir/c/decode" 2>&1) && return 1
    echo "$out"
    grep -q "the kernels were built for $1, this GPU is of sm_" <<<"$out"
}
cp -r "$SRCDIR/examples/embed/c" "$SRCDIR/examples/embed/cmake" "$dir" && chmod -R u+w "$dir/c" "$dir/cmake"
for buckets in 4 1,4,16,64; do
    for embed in cubin source; do
        vendor=$dir/vendor-$buckets-$embed
        check "emit T=$buckets --embed=$embed" emit --dim "T=$buckets" --embed=$embed -o "$vendor"
        check "C, T=$buckets, $embed" in_c "$vendor"
        [ $embed = cubin ] || continue
        check "CMake, T=$buckets" in_cmake "$vendor"
        check "PyTorch, T=$buckets" in_pytorch "$vendor"
        [ $buckets = 4 ] || check "PyTorch, T=$buckets, 5 tokens" in_pytorch "$vendor" 5
    done
done
major=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | cut -d. -f1)
[ "$major" = 8 ] && other=sm_90 || other=sm_80
check "kernels for $other" refused $other
echo "$n checks"
exit $fail
