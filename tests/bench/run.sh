#!/usr/bin/env bash
# Every figure of the README and docs/, as tables in Markdown on standard output.
#   tests/bench/run.sh [headline|tokens|streams|peers|kernels|models|table|lanes|compile|proof|all] [OPTION...]
# Default all; what needs a GPU says so. peers: the MoE layer by us, in Triton and in PyTorch; models: whole decode steps; kernels:
# each against its bytes; table: these three at once, each bar with pass or MISS. Options are those of layers.py or models.py.
# From the build directory, or with MAINSTEM=path/to/mainstem and SRCDIR=path/to/source set.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export SRCDIR=${SRCDIR:-$(cd "$here/../.." && pwd)}
export BUILDDIR=${BUILDDIR:-$SRCDIR/build}
export MAINSTEM=${MAINSTEM:-$BUILDDIR/mainstem}
what=${1:-all}
[ $# -gt 0 ] && shift
model=$SRCDIR/examples/dual_stream_moe.stem
gpu=0
if "$SRCDIR/scripts/has_gpu.sh"; then gpu=1; fi
wants() { [ "$what" = all ] || [ "$what" = "$1" ]; }
needs_gpu() {
    [ $gpu = 1 ] && return 0
    echo "(needs a GPU: not measured here)"
    return 1
}

if [ $gpu = 1 ]; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
fi
if wants headline; then
    echo; echo '## Schedules: 61 layers, 16 sets of weights, T = 4'; echo
    needs_gpu && "$MAINSTEM" bench "$model" --dim T=4 --iters="${ITERS:-50}"
fi
if wants tokens; then
    for t in 1 16 64; do
        echo; echo "## Schedules: T = $t"; echo
        needs_gpu && "$MAINSTEM" bench "$model" --dim T=$t --iters="${ITERS:-50}"
    done
fi
if wants streams; then
    echo; echo '## Streams chosen by measured costs'; echo
    needs_gpu && bash "$here/streams.sh"
fi
export PYTHONPATH=$SRCDIR/runtime/python${PYTHONPATH:+:$PYTHONPATH}
export MAINSTEM_LIB=${MAINSTEM_LIB:-$BUILDDIR/.libs/libmainstem.so}
if wants table; then
    echo
    needs_gpu && python3 -B "$here/table.py" "$@"
fi
if [ "$what" = peers ]; then
    echo; echo '## The MoE layer: ours, Triton kernels and PyTorch in one run'; echo
    needs_gpu && python3 -B "$here/layers.py" "$@"
fi
if [ "$what" = models ]; then
    echo; echo '## Whole models: decode steps'; echo
    needs_gpu && bash "$here/models.sh" "$@"
fi
if [ "$what" = kernels ]; then
    echo; echo '## Kernels against their bytes'; echo
    needs_gpu && bash "$here/kernels/run.sh" "$@"
fi
if wants lanes; then
    echo; echo '## Lanes: how exact the model is, for each file of measured graphs'; echo
    if [ -x "$BUILDDIR/tests/lanes/test_model" ]; then
        echo '| file | graphs | exact lanes of all nodes | exact number of lanes |'
        echo '|---|---|---|---|'
        "$BUILDDIR/tests/lanes/test_model" |
            sed -nE 's/^ +([a-z-]+\.txt) +([0-9]+) graphs, +([0-9]+) exact, +([0-9]+) with.*/| \1 | \2 | \3 | \4 |/p' |
            sed -E 's/\| (held[a-z-]*\.txt)/| \1 (held out; the others are fit)/'
    else
        echo '(make check_PROGRAMS first: tests/lanes/test_model is not built)'
    fi
    echo; echo '## Relaning a PyTorch program that is not changed'; echo
    needs_gpu && bash "$SRCDIR/tests/gpu/lanes/relane.sh"
fi
if wants compile; then
    echo; echo '## Compiling, without NVRTC'; echo
    bash "$here/compile.sh"
fi
if wants proof && [ -x "$here/proof.sh" ]; then
    echo; echo '## Proof: mutants, orders, memory, injected failures'; echo
    bash "$here/proof.sh"
fi
