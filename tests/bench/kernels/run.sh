#!/usr/bin/env bash
# Compiles the programs of this folder for the GPU that is there and runs them: the best configuration of each kernel, as a
# table in Markdown, and the bars of those that have one (kernels.py).
#   tests/bench/kernels/run.sh [bf16|f8e4m3|nvfp4|int4|linear-bf16|linear-f8e4m3|linear-nvfp4|linear-int4|attention ...]   (default all)
# What was compiled is kept in BUILDDIR/bench-kernels until a source changes. NVCC names the compiler.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export SRCDIR=${SRCDIR:-$(cd "$here/../../.." && pwd)}
export BUILDDIR=${BUILDDIR:-$SRCDIR/build}
exec python3 -B "$here/kernels.py" "$@"
