#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run --input and --save, on the CPU device and under the stand-in driver: the numbers that went in and came out.
set -u
here=$SRCDIR/tests/cli
scratch=$BUILDDIR/tests/scratch/tensors
command -v python3 >/dev/null 2>&1 || { echo 'skipped: no python3'; exit 77; }
rm -rf "$scratch" && mkdir -p "$scratch" || exit 99
passed=0 failed=0
is() { # WHAT GOT EXPECTED
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL: $1: got '$2', expected '$3'"; fi
}
file=$here/tensors.stem
python3 -B "$here/tensors.py" write "$scratch/in" x=1,2,3,4,5,6,7,8:2 seen=10,20,30,40:0
python3 -B "$here/tensors.py" write "$scratch/state" total=0.5,0.5,0.5,0.5:0
want='bits BF16 [2, 4] 1 2 3 4 5 6 7 8
seen F32 [4] 16 28 40 52
total F32 [4] 6.5 8.5 10.5 12.5
y F32 [2, 4] 2 4 6 8 10 12 14 16'
"$MAINSTEM" run "$file" --device=cpu --orders=4 --input="$scratch/in" --input="$scratch/state" --save="$scratch/out" >"$scratch/log" 2>&1
is 'the CPU device' "$? $(python3 -B "$here/tensors.py" show "$scratch/out")" "0 $want"
"$MAINSTEM" run "$file" --device=cpu --input="$scratch/in" --input="$scratch/out" --save="$scratch/again" >"$scratch/log" 2>&1
is 'what was saved loads, and later files win' "$? $(python3 -B "$here/tensors.py" show "$scratch/again" | grep '^[st]')" '0 seen F32 [4] 22 36 50 64
total F32 [4] 12.5 16.5 20.5 24.5'

# The same on a GPU, of builtin ops alone: the stand-in has no compiler for others.
cat >"$scratch/plain.stem" <<'END'
module plain;
model net(x: f32[2, 4]) -> (y: f32[2, 4], bits: bf16[2, 4]) { return x + x, bf16(x); }
END
"$MAINSTEM" compile -q "$scratch/plain.stem" --arch=sm_90 -o "$scratch/plan" --emit=plan || exit 99
MAINSTEM_LIBCUDA=$BUILDDIR/.libs/libfakegpu.so MAINSTEM_NVRTC=$BUILDDIR/.libs/libfakecuda.so MAINSTEM_CACHE='' \
    FAKEGPU_PLAN=$scratch/plan/plain.plan.json "$MAINSTEM" run "$scratch/plain.stem" --device=gpu --iters=2 --input="$scratch/in" \
    --save="$scratch/gpu" >"$scratch/log" 2>&1
is 'the GPU' "$? $(python3 -B "$here/tensors.py" show "$scratch/gpu")" "0 $(echo "$want" | grep '^[by]')"

cat >"$scratch/weighted.stem" <<'END'
module weighted;
model net(x: f32[4]) -> f32[4] { weight a: f32[4], b: f32[4]; return (x + a) + b; }
END
"$MAINSTEM" compile -q "$scratch/weighted.stem" --arch=sm_90 -o "$scratch/plan" --emit=plan || exit 99
python3 -B "$here/tensors.py" write "$scratch/a" a=1,2,3,4:0
python3 -B "$here/tensors.py" write "$scratch/B" B=1,2,3,4:0
for given in a B; do
    MAINSTEM_LIBCUDA=$BUILDDIR/.libs/libfakegpu.so MAINSTEM_NVRTC=$BUILDDIR/.libs/libfakecuda.so MAINSTEM_CACHE='' \
        FAKEGPU_PLAN=$scratch/plan/weighted.plan.json "$MAINSTEM" run "$scratch/weighted.stem" --device=gpu --iters=2 \
        --weights="$scratch/$given" >"$scratch/gpu$given" 2>&1
    echo $? >>"$scratch/gpu$given"
done
is 'one of two weights on the GPU' "$(grep -c "note: 1 of 2 weights are from .*a; the others are random: 'b'\$" "$scratch/gpua") $(tail -n 1 "$scratch/gpua")" '1 0'
is 'none of two weights on the GPU' "$(grep -c "error: no tensor of --weights .*the nearest to 'B' of .*B is 'b'\$" "$scratch/gpuB") $(tail -n 1 "$scratch/gpuB")" '1 1'

# Tensors of one weight in two files, given one by one or by their directory; and more of them than the program takes.
cat >"$scratch/stacked.stem" <<'END'
module stacked;
const E = 3;
model net(x: f32[E, 2]) -> (y: f32[E, 2]) { weight w: f32[E, 2] = "e.{*}"; return x + w; }
END
mkdir -p "$scratch/shards"
python3 -B "$here/tensors.py" write "$scratch/x" x=0,0,0,0,0,0:3
python3 -B "$here/tensors.py" write "$scratch/shards/1.safetensors" e.0=1,2:0 e.2=5,6:0
python3 -B "$here/tensors.py" write "$scratch/shards/2.safetensors" e.1=3,4:0
for given in "--weights=$scratch/shards" "--weights=$scratch/shards/1.safetensors --weights=$scratch/shards/2.safetensors"; do
    # shellcheck disable=SC2086 # the arguments are words
    "$MAINSTEM" run "$scratch/stacked.stem" --device=cpu --input="$scratch/x" $given --save="$scratch/y" >"$scratch/log" 2>&1
    is "a weight in two files: $given" "$? $(python3 -B "$here/tensors.py" show "$scratch/y") $(grep -c warning "$scratch/log")" '0 y F32 [3, 2] 1 2 3 4 5 6 0'
done
python3 -B "$here/tensors.py" write "$scratch/x" x=0,0,0,0:2
"$MAINSTEM" run "$scratch/stacked.stem" -D E=2 --device=cpu --weights="$scratch/shards" >"$scratch/log" 2>&1
is 'more experts than the program has' "$? $(grep warning "$scratch/log")" \
    "0 mainstem: warning: weight 'w' takes 2 tensors by number, and there are more: 'e.2' is not read"

# Ranks that load their parts of one checkpoint: what they compute adds up to what one that has all of it computes.
cat >"$scratch/ranks.stem" <<'END'
module ranks;
const RANKS = 1, RANK = 0, H = 4, I = 4 / RANKS;
model net(x: f32[1, H]) -> (y: f32[1, H]) {
  weight w13: f32[2 * I, H] = "{gate,up}[{RANK}/{RANKS}]", w2: f32[H, I] = "down[:, {RANK} / {RANKS}]";
  return linear(silu_mul(linear(x, w13)), w2);
}
END
python3 -B "$here/tensors.py" write "$scratch/mlp" gate=1,2,-3,1,0,2,1,-1,2,2,1,1,-1,0,3,1:4 up=1,0,2,1,-1,1,1,3,2,0,1,-2,1,1,1,1:4 \
    down=1,-2,3,4,5,1,-7,2,9,8,1,-1,3,1,2,5:4
python3 -B "$here/tensors.py" write "$scratch/one" x=1,2,3,-1:1
for rank in '1 0' '2 0' '2 1'; do
    "$MAINSTEM" run "$scratch/ranks.stem" -D RANKS=${rank% *} -D RANK=${rank#* } --device=cpu --weights="$scratch/mlp" \
        --input="$scratch/one" --save="$scratch/rank$rank" >"$scratch/log" 2>&1 || cat "$scratch/log"
done
is 'the sum of two ranks' "$(python3 -B "$here/tensors.py" show "$scratch/rank2 0" "$scratch/rank2 1")" \
    "$(python3 -B "$here/tensors.py" show "$scratch/rank1 0")"
"$MAINSTEM" run "$scratch/ranks.stem" -D RANKS=2 -D RANK=2 --device=cpu --weights="$scratch/mlp" >"$scratch/log" 2>&1
is 'a rank that is none' "$? $(grep -c 'R below N' "$scratch/log")" '1 2'

fails() { # STATUS WORDS ARGUMENT...
    status=$1 words=$2 && shift 2
    "$MAINSTEM" run "$file" --device=cpu "$@" >"$scratch/log" 2>&1
    is "$*" "$? $(grep -c "$words" "$scratch/log")" "$status 1"
}
python3 -B "$here/tensors.py" write "$scratch/shape" x=1,2,3:0
python3 -B "$here/tensors.py" write "$scratch/other" z=1:0
fails 1 'x' --input="$scratch/shape"
fails 1 'no tensor of --input is an input or a state of the program; it has: x, seen, total' --input="$scratch/other"
# Names that meet partly, or nearly.
python3 -B "$here/tensors.py" write "$scratch/partly" x=1,2,3,4,5,6,7,8:2 Seen=1,2,3,4:0 w=1:0
fails 0 "warning: .*partly: no input or state of the program is called 'Seen', 'w'\$" --input="$scratch/partly"
python3 -B "$here/tensors.py" write "$scratch/capital" X=1,2,3,4,5,6,7,8:2
fails 1 "; the nearest to 'X' of .*capital is 'x'" --input="$scratch/capital"
fails 0 'equal to the one-stream' --input="$scratch/out" # outputs are the program's
is 'no warning of what --save wrote' "$(grep -c warning "$scratch/log")" 0
fails 1 'no tensor of --weights is a weight of the program; it has: none' --weights="$scratch/in"
cat >"$scratch/weights.stem" <<'END'
module weights;
model net(x: f32[4]) -> f32[4] { weight a: f32[4], b: f32[4], c: f32[4]; return x * a + b * c; }
END
file=$scratch/weights.stem
python3 -B "$here/tensors.py" write "$scratch/some" b=1,2,3,4:0 q=1:0
fails 0 "note: 1 of 3 weights are from .*some; the others are random: 'a', 'c'\$" --weights="$scratch/some"
python3 -B "$here/tensors.py" write "$scratch/none" B=1,2,3,4:0
fails 1 "no tensor of --weights is a weight of the program; it has: a, b, c; the nearest to 'B' of .*none is 'b'" --weights="$scratch/none"
python3 -B "$here/tensors.py" write "$scratch/empty"
fails 1 'no tensor of --weights is a weight of the program; it has: a, b, c$' --weights="$scratch/empty"
python3 -B "$here/tensors.py" write "$scratch/rest" a=1,2,3,4:0 c=1,2,3,4:0
fails 0 'equal to the one-stream' --weights="$scratch/some" --weights="$scratch/rest"
is 'no note where all are there' "$(grep -c note: "$scratch/log")" 0
file=$here/tensors.stem
fails 3 'nothing' --input="$scratch/nothing"
fails 2 'one size for each --dim' --dim T=1,2 --save="$scratch/out"
fails 3 'cannot write' --save="$scratch/nowhere/out"

# States too large to be fetched: what is said of them is what the CPU device says, and where they differ is found.
on_stand_in() { # NAME OPTION...
    name=$1
    shift
    "$MAINSTEM" compile -q --no-warnings "$scratch/$name.stem" --arch=sm_90 -o "$scratch/plan" --emit=plan || exit 99
    MAINSTEM_LIBCUDA=$BUILDDIR/.libs/libfakegpu.so MAINSTEM_NVRTC=$BUILDDIR/.libs/libfakecuda.so MAINSTEM_CACHE='' \
        FAKEGPU_PLAN=$scratch/plan/$name.plan.json "$MAINSTEM" run "$scratch/$name.stem" --device=gpu --iters=1 "$@" >"$scratch/log" 2>&1
}
cat >"$scratch/large.stem" <<'END'
module large;
model net(x: bf16[4, 512], slot: i32[4]) -> bf16[4, 512] {
  state cache: bf16[4224, 64, 512], small: bf16[4, 512];
  cache_store(inout cache, x, slot);
  return x + small;
}
END
on_stand_in large
is 'a large state on the GPU' "$?" 0
grep -E '^  (state|output) ' "$scratch/log" >"$scratch/gpu.lines"
"$MAINSTEM" run "$scratch/large.stem" --device=cpu 2>/dev/null | grep -E '^  (state|output) ' >"$scratch/cpu.lines"
is 'figures of three' "$(grep -c . "$scratch/gpu.lines")" 3
is 'the same figures as on the CPU device' "$(cat "$scratch/gpu.lines")" "$(cat "$scratch/cpu.lines")"
cat >"$scratch/mark.c" <<'END'
#include "mainstem_rt.h"
int mark(const struct stem_call *call, struct CUstream_st *stream);
int mark(const struct stem_call *call, struct CUstream_st *stream)
{
    static unsigned short n;
    (void)stream;
    ((unsigned short *)call->operands[0])[2500000] = ++n;
    return 0;
}
END
cat >"$scratch/marked.stem" <<END
module marked;
extern mark(inout cache: bf16[270336, 512]) from "$scratch/mark.so";
model net(x: bf16[4, 512]) -> bf16[4, 512] {
  state cache: bf16[270336, 512];
  mark(inout cache);
  return x + x;
}
END
${CC:-cc} -shared -fPIC -I "$SRCDIR/runtime" -o "$scratch/mark.so" "$scratch/mark.c" || exit 99
on_stand_in marked --by=eager
is 'a state that differs' "$? $(grep -o 'DIFFERS.*' "$scratch/log")" \
    '4 DIFFERS from the one-stream schedule after 0 equal replays: cache, first in elements 2097152 to 4194303'

# The example of an extern function: rotated on and back.
cp "$SRCDIR/examples/extern_function.stem" "$scratch"
${CC:-cc} -Wall -Wextra -Werror -shared -fPIC -I "$SRCDIR/runtime" -o "$scratch/rotate_rows.so" "$SRCDIR/examples/rotate_rows.c" || exit 99
(cd "$scratch" && "$MAINSTEM" run extern_function.stem --device=cpu --dim T=2,8 --orders=20 >log 2>&1)
is 'rows that are rotated on and back' "$(sed -n 's/.*output difference: f32\[\([0-9]*\).* min \(.*\) mean.*/\1 \2/p' "$scratch/log")" \
    '2 0 max 0
8 0 max 0'
echo "tensors: $passed passed, $failed failed"
[ $failed -eq 0 ]
