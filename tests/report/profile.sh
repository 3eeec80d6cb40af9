#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mainstem run --profile under the stand-in driver, whose CUPTI has a model of time: every way of launching, memsets, eager
# segments, several specialisations; then the report of the trace.
set -u
here=$SRCDIR/tests/report
scratch=$BUILDDIR/tests/scratch/profile
rm -rf "$scratch" && mkdir -p "$scratch/cuda/lib64" || exit 99
command -v python3 >/dev/null 2>&1 || { echo 'skipped: no python3'; exit 77; }
ln -s "$BUILDDIR/.libs/libfakecuda.so" "$scratch/cuda/lib64/libcupti.so"
MAINSTEM_LIBCUDA=$BUILDDIR/.libs/libfakegpu.so MAINSTEM_NVRTC=$BUILDDIR/.libs/libfakecuda.so MAINSTEM_CUDA=$scratch/cuda
MAINSTEM_CACHE=
export MAINSTEM_LIBCUDA MAINSTEM_NVRTC MAINSTEM_CUDA MAINSTEM_CACHE FAKEGPU_PLAN
passed=0 failed=0
is() { # WHAT GOT EXPECTED
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL: $1: got '$2', expected '$3'"; fi
}

small='-D LAYERS=3 -D SETS=2 -D HIDDEN=256 -D EXPERTS=16 -D TOPK=2 -D INTER=64 --dim T=1,4'
plan() { # FILE ARGUMENT...: and the one-stream plan that results are held against
    rm -rf "$scratch/plan" "$scratch/one"
    "$MAINSTEM" compile -q --no-warnings --arch=sm_90 "$@" -o "$scratch/plan" --emit=plan || exit 99
    "$MAINSTEM" compile -q --no-warnings --arch=sm_90 "$@" --one-stream -o "$scratch/one" --emit=plan || exit 99
    PLAN=$(echo "$scratch"/plan/*.plan.json)
    FAKEGPU_PLAN=$PLAN:$(echo "$scratch"/one/*.plan.json)
}
profile() { # NAME FILE WAY ARGUMENT...
    name=$1 file=$2 way=$3 && shift 3
    word=graph && [ $way = eager ] && word=streams
    plan "$file" "$@"
    "$MAINSTEM" run --no-warnings "$file" "$@" --device=gpu --by=$way --iters=3 --profile="$scratch/$name.json" >"$scratch/out" 2>&1
    is "$name: runs" "$? $(grep -c 'of the bound' "$scratch/out")" "0 $(grep -c ' on stand-in driver' "$scratch/out")"
    is "$name: records" "$(grep -c 'GUESSED\|CONTRADICT' "$scratch/out")" 0
    python3 "$here/check_profile.py" "$PLAN" "$scratch/$name.json" $word
    is "$name: the trace is right" $? 0
}
for way in capture nodes record eager; do
    # shellcheck disable=SC2086
    profile moe-$way "$SRCDIR/examples/dual_stream_moe.stem" $way $small
    # (A segment that is never recorded cannot be recorded into a caller's capture.)
    [ $way = record ] || profile look-alikes-$way "$here/look_alikes.stem" $way
done
profile pieces "$here/look_alikes.stem" eager --one-stream --no-fuse
is 'the table has every kind of op' "$(grep -c 'pointwise\|zero\|linear\|all, as' "$scratch/out")" 4

model=$SRCDIR/examples/dual_stream_moe.stem
# shellcheck disable=SC2086
"$MAINSTEM" report --no-warnings "$model" $small --trace="$scratch/moe-capture.json" -o "$scratch/moe.html" >/dev/null
is 'the report has measured times and lanes of both specialisations' \
    "$? $(grep -o '"measured":true' "$scratch/moe.html" | wc -l | tr -d ' ') $(grep -o '"measured_lane":\[0,0' "$scratch/moe.html" | wc -l | tr -d ' ')" '0 2 2'
# shellcheck disable=SC2086
"$MAINSTEM" report --no-warnings "$model" $small --one-stream --trace="$scratch/moe-capture.json" -o "$scratch/moe.html" >"$scratch/out" 2>&1
is 'a trace of another plan is refused' "$? $(grep -c 'the trace is of another plan' "$scratch/out")" '1 1'

cd "$scratch" || exit 99
plan "$here/look_alikes.stem" --one-stream
"$MAINSTEM" run --no-warnings "$here/look_alikes.stem" --one-stream --device=gpu --profile >/dev/null 2>&1
is 'the trace has a name of its own' "$? $(ls look_alikes.profile.json)" '0 look_alikes.profile.json'
"$MAINSTEM" run "$here/look_alikes.stem" --device=cpu --profile >/dev/null 2>"$scratch/err"
is 'the CPU device has no profile' "$? $(grep -c 'emit=trace' "$scratch/err")" '2 1'
MAINSTEM_CUDA=$scratch/nowhere "$MAINSTEM" run "$here/look_alikes.stem" --device=gpu --profile >/dev/null 2>"$scratch/err"
is 'no CUPTI' "$? $(grep -c 'no CUPTI' "$scratch/err")" '3 1'

echo "profile: $passed passed, $failed failed"
[ $failed -eq 0 ]
