#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# mainstem relane and mainstem audit on a PyTorch program that is not changed (torch_side_first.py): lanes as measured,
# outputs, times, as one table. Times are the best of two runs (RUNS=1: of one). Exits 77 where there is no GPU or no
# PyTorch.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
if ! "$SRCDIR/scripts/has_gpu.sh"; then
    echo 'skipped: no GPU'
    exit 77
fi
python=${PYTHON:-python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo 'skipped: no PyTorch'
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
program=("$python" "$SRCDIR/tests/gpu/lanes/torch_side_first.py")
for layers in 40 61; do
    for kernels in 1 2 3 4 5; do
        program+=(--case "two:$layers:$kernels")
    done
    program+=(--case "three:$layers:2" --case "nested:$layers:2")
done

# run NAME COMMAND...: its lines to NAME.jsonl
run() {
    local name=$1
    shift
    if ! timeout 120 "$@" >"$scratch/$name.jsonl" 2>"$scratch/$name.err"; then
        echo "FAIL: $name: $*"
        tail -40 "$scratch/$name.err"
        exit 1
    fi
    [ "${VERBOSE:-0}" = 0 ] || cat "$scratch/$name.err" >&2
}
run plain1 "${program[@]}"
run relaned1 "$MAINSTEM" relane -- "${program[@]}"
run audit "$MAINSTEM" audit --report="$scratch/audit.json" -- "${program[@]}"
run after "$MAINSTEM" relane --measure --report="$scratch/after.json" -- "${program[@]}"
if [ "${RUNS:-2}" != 1 ]; then
    run plain2 "${program[@]}"
    run relaned2 "$MAINSTEM" relane -- "${program[@]}"
fi

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$python" "$SRCDIR/tests/gpu/lanes/relane_table.py" "$scratch" || {
    tail -30 "$scratch/audit.err" "$scratch/after.err"
    exit 1
}
