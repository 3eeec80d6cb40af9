#!/usr/bin/env bash
# Builds Mainstem and shows its headline: 61 MoE layers on two streams, from text to a replayed CUDA graph.
# With a GPU: captured, replayed, lanes measured. Without: a small override of the same program runs on the CPU
# device and is compared with the one-stream schedule. Writes report.html.
set -eu
# shellcheck source=scripts/setup.sh
. "$(dirname "$0")/setup.sh"

setup_tools
setup_cuda
build=${BUILD:-$top/build}
setup_build "$build"
stem=$build/mainstem
model=$top/examples/dual_stream_moe.stem

say "mainstem compile examples/dual_stream_moe.stem --dim T=4"
"$stem" compile "$model" --dim T=4

gpu=0 trace=
if "$top/scripts/has_gpu.sh"; then gpu=1; fi
if [ $gpu = 1 ]; then
    # As many sets of weights as fit: one set is 4.2 GiB.
    free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | head -n 1)
    sets=$((free * 9 / 10 / 4350))
    [ $sets -gt 16 ] && sets=16
    if [ $sets -ge 1 ]; then
        small="-D SETS=$sets"
    else
        small="-D SETS=2 -D HIDDEN=512 -D EXPERTS=32 -D TOPK=4 -D INTER=64"
    fi
    say "mainstem run --device=gpu --dim T=4 $small --iters=200 --audit --poison"
    # shellcheck disable=SC2086
    "$stem" run "$model" --device=gpu --dim T=4 $small --iters=200 --audit --poison
    say "mainstem run --device=gpu --dim T=4 $small --profile=profile.json"
    # shellcheck disable=SC2086
    "$stem" run "$model" --device=gpu --dim T=4 $small --profile="$top/profile.json" && trace="$small --trace=$top/profile.json"
else
    small="-D SETS=2 -D HIDDEN=512 -D EXPERTS=32 -D TOPK=4 -D INTER=64"
    say "no GPU here: mainstem run --device=cpu --dim T=4 $small --orders=5"
    # shellcheck disable=SC2086
    "$stem" run "$model" --device=cpu --dim T=4 $small --orders=5
fi

say "mainstem report examples/dual_stream_moe.stem --dim T=4 $trace -o report.html"
# shellcheck disable=SC2086
"$stem" report "$model" --dim T=4 $trace -o "$top/report.html"
