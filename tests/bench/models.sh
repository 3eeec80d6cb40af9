#!/usr/bin/env bash
# Whole models (examples/models): floor by bytes, one stream, dual stream, dual stream with early launches, PyTorch, lanes, and
# the error against float64. One table in Markdown.
#   tests/bench/models.sh [MODEL...] [--tokens 1,16] [--no-compile] ...       (models.py says what else)
# From the build directory, or with MAINSTEM=path/to/mainstem and SRCDIR=path/to/source set.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export SRCDIR=${SRCDIR:-$(cd "$here/../.." && pwd)}
export BUILDDIR=${BUILDDIR:-$SRCDIR/build}
export MAINSTEM=${MAINSTEM:-$BUILDDIR/mainstem}
if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L >/dev/null 2>&1; then
    echo '(needs a GPU: not measured here)'
    exit 77
fi
python3 "$here/models.py" "$@" || exit
export PYTHONPATH=$SRCDIR/runtime/python${PYTHONPATH:+:$PYTHONPATH}
export MAINSTEM_LIB=${MAINSTEM_LIB:-$BUILDDIR/.libs/libmainstem.so}
[ -e "$MAINSTEM_LIB" ] || exit 0
echo
for model in deepseek_v2_lite kimi_k25_rank qwen3_30b_a3b; do
    case " $* " in *" $model "*) ;; *[a-z]_[a-z0-9]*) continue ;; esac
    python3 "$here/peers/model_error.py" $model "$SRCDIR/examples/models/$model.stem"
done
