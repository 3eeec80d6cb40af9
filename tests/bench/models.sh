#!/usr/bin/env bash
# Whole models (examples/models): floor by bytes, one stream, dual stream, dual stream with early launches, streams chosen by the
# compiler, PyTorch, lanes, and the error against float64, as tables in Markdown; which bars are met.
#   tests/bench/models.sh [MODEL...] [--tokens 1,16] [--quick] [--no-compile] [--no-peers] [--no-error] [--again] ... (models.py --help)
# From the build directory, or with MAINSTEM=path/to/mainstem and SRCDIR=path/to/source set. Several GPUs share the work.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export SRCDIR=${SRCDIR:-$(cd "$here/../.." && pwd)}
export BUILDDIR=${BUILDDIR:-$SRCDIR/build}
export MAINSTEM=${MAINSTEM:-$BUILDDIR/mainstem}
if ! "$SRCDIR/scripts/has_gpu.sh"; then
    echo '(needs a GPU: not measured here)'
    exit 77
fi
export PYTHONPATH=$SRCDIR/runtime/python${PYTHONPATH:+:$PYTHONPATH}
export MAINSTEM_LIB=${MAINSTEM_LIB:-$BUILDDIR/.libs/libmainstem.so}
exec python3 -B "$here/models.py" "$@"
