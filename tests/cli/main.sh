#!/usr/bin/env bash
# compile, run, verify, explain, ops as a user types them, right and wrong: exit statuses, what is said, what is written.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export MAINSTEM_CACHE=$work/cache
moe=$SRCDIR/examples/dual_stream_moe.stem
small='-D LAYERS=3 -D SETS=2 -D HIDDEN=128 -D EXPERTS=8 -D TOPK=2 -D INTER=32'
. "$SRCDIR/tests/cli/expect.sh"
check() { # check 'what' command...
    n=$((n + 1))
    local what=$1
    shift
    "$@" >"$work/out" 2>&1 || { echo "$what: not so"; sed 's/^/    /' "$work/out"; failed=$((failed + 1)); }
}

# ---- finding one's way ----
expect 2 'Usage: mainstem COMMAND'
expect 0 'compile +compile a .stem file' --help
expect 0 '^mainstem [0-9]' --version
expect 2 "did you mean 'compile'" complie $moe
expect 2 'a command comes first: mainstem compile' $moe
expect 2 'which file' compile
expect 2 'one file at a time' compile $moe $moe
expect 2 "^mainstem: error: unknown option '--oder'; did you mean '--order'\?$" compile $moe --oder=x
expect 2 "^mainstem: error: unknown option '--nope'$" compile --nope
expect 2 '^      = help: `mainstem compile --help` lists what it takes$' compile --nope
expect 2 "^mainstem: error: unknown option '-quiet'; did you mean '--quiet'" compile $moe -quiet
expect 2 "^mainstem: error: unknown option '-Z'$" compile $moe -Z
expect 2 "^mainstem: error: '--d' may be --device or --define" run $moe --d=cpu
expect 2 '^mainstem: error: --device needs a value: --device=KIND$' run $moe --dev
expect 2 '^mainstem: error: -o needs a value: -o DIR$' compile $moe -qo
expect 2 '^mainstem: error: --quiet takes no value, and .3. was given$' compile $moe --quiet=3
expect 2 '^mainstem: error: unknown option .--nope.$' diff $moe --to=--nope
expect 2 '^mainstem: error: unknown option .--nope.$' relane --nope -- true
expect 2 "^mainstem: error: a command comes before the option '--nope'" --nope
expect 2 '^mainstem: error: which file' compile --
expect 0 '^Usage: mainstem run' run --help --nope
# --help has no option that the command refuses, and none twice.
for of in 'run --(passes|stop-after)=' 'verify --(passes|stop-after)=' 'bench --(arch|passes|stop-after|order|pdl|one-stream)' 'tune --(arch|passes|stop-after|costs|one-stream)' 'emit --arch=sm_XX '; do
    n=$((n + 1))
    if "$MAINSTEM" "${of%% *}" --help | grep -E -- "${of#* }"; then
        echo "mainstem ${of%% *} --help lists what it does not take"
        failed=$((failed + 1))
    fi
done
expect 0 '--arch=sm_XX,' emit --help
expect 0 '--stop-after=' compile --help
expect 0 'remark' compile "$SRCDIR/tests/cases/c02_needless_fork.stem" -qDPIN=1 --rem # a value behind its letter, none where none is needed, a name cut short
expect 2 "did you mean 'main-first'" compile $moe --order=main-frist
expect 2 'takes a number from 1 to 32' compile $moe --max-streams=0
expect 2 "no pass is called 'evnets'; did you mean 'events'" compile $moe --stop-after=evnets
expect 2 "there is no pass 'evnets'" compile $moe --passes=evnets
expect 2 'passes wants at least one' compile $moe --passes=
expect 2 'passes wants at least one' compile $moe --passes=,
expect 2 "not '1T' \(suffixes K, M, G\)" compile $moe --memory-budget=1T
expect 3 "cannot open '/no/such.stem': No such file" compile /no/such.stem
expect 3 'Is a directory' compile "$work"
expect 0 'main-first|order' compile --list-passes
expect 0 'rmsnorm\(x, ' ops
expect 0 'score = softmax|softmax' ops route
expect 2 "did you mean 'linear'" ops linera
# what the library pass thinks of two ways is what the schedules of both are estimated at: cuBLASLt's takes a fraction here
printf '%s\n' 'module mm;' 'dim T in 1..512 = 512;' 'model m(x: bf16[T, 4096]) -> bf16[T, 4096] {' \
    '  weight w: bf16[4096, 4096], v: bf16[4096, 4096];' '  h = silu(linear(x, w));' '  g = linear(x, v) on side;' '  return h + g;' '}' \
    >"$work/mm.stem"
expect 4 '  estimate: [2-9][0-9][0-9]\.[0-9]+ us, was [1-9][0-9]\.[0-9]+ us' diff "$work/mm.stem" --to=--matmul=own
# names out of a plan may be anything, and none reaches the terminal as it is
"$MAINSTEM" compile -q "$work/mm.stem" --emit=plan -o "$work/names" >/dev/null 2>&1
sed 's/"g"/"g\\u001b[31m\\n"/' "$work/names/mm.plan.json" >"$work/names/odd.plan.json"
expect 4 "added: 'g\?\[31m\?'" diff "$work/names/mm.plan.json" "$work/names/odd.plan.json"
expect 0 'node 1 \(g\?\[31m\?\)|node 0 \(g\?\[31m\?\)' lanes "$work/names/odd.plan.json"

expect 0 'STEM1203' explain STEM1203
expect 0 'STEM1203' explain 1203
expect 0 'STEM1001' explain --all
expect 0 'events +29 \(23 for order, bound 23, at the bound; 6 more to save lanes\)' compile "$SRCDIR/tests/report/forks.stem" \
    --no-fuse --pdl=off --order=side-first --lane-repair=always
expect 0 'price: two or three streams are usual' explain STEM1239 # filled anew, not as the registry breaks lines
expect 0 '^zero\(DTYPE\[SIZE' ops zero
expect 0 'not called by this name' ops experts_up
expect 1 "'T' is a dim: --dim T=4" compile -D T=4 $moe
expect 2 "dim 'T=1,4,1': 1 is there twice" compile --dim T=1,4,1 $moe
expect 2 "'LAYERS=2': LAYERS has a value already, 1" compile -D LAYERS=1 -D LAYERS=2 $moe
expect 2 "no diagnostic is called 'STEM9999'" explain STEM9999
expect 2 'which diagnostic' explain

expect 0 'Usage' compile -h
expect 2 'looks like a plan' compile x.plan.json
expect 2 "did you mean 'events'" compile $moe --remarks=evnets

# ---- compiling ----
expect 0 'lanes +2 predicted' compile $moe
expect 0 'streams +1 ' compile $moe --one-stream
expect 0 '62 lanes for 2 streams' compile $moe --order=side-first --pdl=off
expect 2 'they need sm_90' compile $moe --pdl=on --arch=sm_80
expect 0 'sm_80' compile $moe --pdl=auto --arch=sm_80
expect 2 'pdl does not know' compile $moe --pdl=yes
expect 0 '4 specialisations share' compile $moe --dim T=1,4,16,64
expect 1 'STEM1231' compile $moe -D HIDEN=512
expect 2 'not of the form NAME=VALUE' compile $moe -D HIDDEN
expect 2 'sizes are integers' compile $moe --dim T=four
expect 1 'STEM1305' compile $moe --dim TOKENS=4
expect 1 'STEM1303' compile $moe --dim T=65
expect 1 'STEM1303' compile $moe --dim T=0
expect 2 'emit knows plan, cuda' compile $moe -o "$work" --emit=plan,ptx
expect 2 'emit knows plan, cuda' compile $moe -o "$work" --emit=
expect 2 'emit knows plan, cuda' compile $moe -o "$work" --emit=plan,
expect 0 '' compile $moe -q -o "$work/two" --emit=dot --emit=trace
check '--emit adds up' [ "$(cd "$work/two" && echo *)" = 'dual_stream_moe.dot dual_stream_moe.trace.json' ]
expect 2 'emit needs -o' compile $moe --emit=plan
expect 3 'cannot make the directory' compile $moe -o /proc/nothing
expect 0 'expand +[0-9.]+ ms' compile $moe --time-passes
expect 0 'remark: ' compile "$SRCDIR/tests/cases/c02_needless_fork.stem" -D PIN=1 --remarks
printf 'module m;\nlayer f(x: bf16[4, 8]) -> bf16[4, 8] { return rmsnrm(x); }\n' >"$work/bad.stem"
expect 1 "bad.stem:2:47: error: .*\[STEM1203\]" compile "$work/bad.stem"
expect 1 "did you mean 'rmsnorm'" compile "$work/bad.stem"
printf 'module m;\nkernel k(x: f32[4], out y: f32[4]) grid(1) block(1) {{\n  y[0] = x[0]\n}}\nmodel m(x: f32[4]) -> f32[4] { return k(x); }\n' >"$work/bad.stem"
expect 1 'bad.stem:3:14: error: the host.s compiler does not compile this inline kernel: expected' run --device=cpu "$work/bad.stem" # not a line of the unit
for wait in 'stem_wait();' 'asm volatile("griddepcontrol.wait;" ::: "memory");' 'cudaGridDependencySynchronize();'; do
    printf 'module m;\nkernel k(x: f32[4], out y: f32[4]) grid(1) block(4) waits {{\n%s y[threadIdx.x] = x[threadIdx.x]; }}\nmodel m(x: f32[4]) -> f32[4] { return k(exp(x)); }\n' "$wait" >"$work/waits.stem"
    expect 0 'bit for bit' run --device=cpu "$work/waits.stem"
done
printf 'module m;\nkernel k(x: f32[4], out y: f32[4]) grid(1) block(2) {{ y[threadIdx.x] = x[threadIdx.x]; }}\nmodel m(x: f32[4]) -> f32[4] { return k(x); }\n' >"$work/half.stem"
expect 0 'max [-0-9.e]+ NOT FINITE: 2 of 4 bits' run --device=cpu "$work/half.stem"
printf 'module m;\nkernel k(x: f32[4], out y: f32[4]) grid(1) block(4) {{ y[threadIdx.x] = 1; ((float *)x)[threadIdx.x] = 2; }}\nmodel m(x: f32[4]) -> f32[4] { return k(x); }\n' >"$work/writes.stem"
expect 1 'it writes operand 1 of 2, which is for reading' run --device=cpu "$work/writes.stem"
expect 0 'NAME.plan.json' verify --help
printf 'module vast;\nmodel m(x: f32[4]) -> f32[4] { state s: f32[524288, 262144]; return x + s[0, 0:4]; }\n' >"$work/vast.stem"
expect 3 'make it smaller with -D$' run --device=cpu "$work/vast.stem"
expect 3 'make it smaller with -D: -D SETS=2 ' run --device=cpu $moe -D LAYERS=1000 -D SETS=1000
if [ -w /dev/full ]; then
    "$MAINSTEM" compile --help >/dev/full 2>"$work/out"
    check 'help that cannot be written' test "$? $(grep -c 'cannot write to standard output' "$work/out")" = '3 1'
fi
printf '\377\000\001{{{' >"$work/bytes.stem"
expect 1 'STEM10' compile "$work/bytes.stem"
printf '\357\273\277module m; model f(x: f32[4]) -> f32[4] { return x + 1.0; }' >"$work/bom.stem"
expect 0 'ops +1 ' compile "$work/bom.stem"
: >"$work/empty.stem"
expect 1 'error: ' compile "$work/empty.stem"

sed "s/^module .*/module $(printf 'm%.0s' {1..300});/" "$SRCDIR/examples/gqa_decode.stem" >"$work/long.stem"
expect 1 'the name is longer than 64 characters' emit "$work/long.stem" -o "$work/long" --embed=none
expect 1 'name=NAME gives another' emit "$work/long.stem" -o "$work/long" --embed=none
expect 0 '' emit "$work/long.stem" -o "$work/long" --embed=none --name=short

# ---- what is written: deterministic, complete, judged safe ----
# shellcheck disable=SC2086
{
    expect 0 '' compile $moe $small --dim T=1,4 -o "$work/a" --emit=plan,cuda
    expect 0 '' compile $moe $small --dim T=1,4 -o "$work/b" --emit=plan,cuda
}
check 'the same input gives the same bytes' cmp "$work/a/dual_stream_moe.plan.json" "$work/b/dual_stream_moe.plan.json"
check 'the same input gives the same CUDA' cmp "$work/a/dual_stream_moe.cu" "$work/b/dual_stream_moe.cu"
expect 0 'safe: [0-9]+ ops' verify "$work/a/dual_stream_moe.plan.json"
expect 0 'safe: 549 ops' verify $moe --no-fuse
sed 's/\["wait",1,/["wait",0,/' "$work/a/dual_stream_moe.plan.json" >"$work/broken.json"
expect 1 'error: ' verify "$work/broken.json"
head -c 1000 "$work/a/dual_stream_moe.plan.json" >"$work/cut.json"
expect 1 'cut.json: ' verify "$work/cut.json"
expect 3 'cannot open' verify "$work/none.json"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; p = json.load(open(sys.argv[1])); p["variants"] = []; json.dump(p, open(sys.argv[2], "w"))' \
        "$work/a/dual_stream_moe.plan.json" "$work/novariant.json"
    expect 1 'no variant' verify "$work/novariant.json"
    python3 -c 'import json, sys; p = json.load(open(sys.argv[1])); p["variants"][1] = p["variants"][0]; json.dump(p, open(sys.argv[2], "w"))' \
        "$work/a/dual_stream_moe.plan.json" "$work/twice.json"
    expect 1 'variants\[1\]: the same sizes as an earlier variant' verify "$work/twice.json"
fi

# ---- the textual program: printed, read back, the same ----
for model in "$SRCDIR"/examples/*.stem "$SRCDIR"/examples/models/*.stem; do
    name=$(basename "$model" .stem)
    "$MAINSTEM" compile "$model" -q --print-after=expand --no-warnings 2>/dev/null >"$work/$name.ir"
    "$MAINSTEM" compile "$work/$name.ir" --from=ir -q --print-after=expand --no-warnings \
        2>"$work/err" >"$work/$name.again.ir"
    check "$name: the program reads back as it was printed" cmp "$work/$name.ir" "$work/$name.again.ir"
done

# ---- the README's layer is what it says ----
{
    echo 'module readme; const HIDDEN = 64, EXPERTS = 8, TOPK = 2, INTER = 32; dim T in 1..8;'
    awk '/^```stem$/ { on = 1; next } /^```$/ { on = 0 } on' "$SRCDIR/README.md"
} >"$work/readme.stem"
expect 0 'streams +2 .*main 4 ops, side 3 ops' compile "$work/readme.stem"

# ---- NVRTC compiles once ----
check 'standard input is read once for all that a command compiles' \
    sh -c '"$1" run - --device=cpu <"$2" >"$3/stdin" && "$1" diff - --to=--one-stream <"$4" >"$3/diff"; [ $? = 4 ] && grep -q "bit for bit" "$3/stdin"' \
    sh "$MAINSTEM" "$SRCDIR/examples/inline_kernel.stem" "$work" "$SRCDIR/examples/qkv_three_streams.stem"
if MAINSTEM_DEBUG=cache "$MAINSTEM" compile "$SRCDIR/examples/inline_kernel.stem" -q -o "$work/c" >"$work/first" 2>&1; then
    check 'a cubin was written' test -s "$work/c/inline_kernel.sm_90.cubin"
    MAINSTEM_DEBUG=cache "$MAINSTEM" compile "$SRCDIR/examples/inline_kernel.stem" -q -o "$work/c" >"$work/second" 2>&1
    check 'the first run compiled' grep -qiE 'compil|miss|stored|wrote' "$work/first"
    check 'the second run came from the cache' grep -qiE 'hit|from the cache|found' "$work/second"
    sed 's/blockIdx.x/blokIdx.x/' "$SRCDIR/examples/inline_kernel.stem" >"$work/typo.stem"
    expect 1 'typo.stem[(:][0-9]+' compile "$work/typo.stem" -q -o "$work/d"
else
    echo 'note: no NVRTC, cubins are not checked'
    expect 3 'NVRTC' compile "$SRCDIR/examples/inline_kernel.stem" -o "$work/c"
fi

# ---- running ----
# shellcheck disable=SC2086
{
    expect 0 'bit for bit' run "$SRCDIR/tests/gpu/attention_ops.stem" --device=cpu --dim T=1,5 --orders=2
    expect 0 'bit for bit' run "$SRCDIR/examples/gqa_decode.stem" --device=cpu --dim T=3 --orders=2
    expect 0 'bit for bit' run $moe $small --device=cpu --dim T=1,3 --orders=2
    expect 2 'need a GPU' run $moe $small --device=cpu --chaos
    expect 2 "does not know 'tpu'" run $moe $small --device=tpu
    expect 3 'more than this machine has|GiB' run $moe --device=cpu -D SETS=61 -D HIDDEN=16384 -D INTER=2048
}

# Memory that runs out half-way is said, once. A sanitizer's shadow memory leaves no room for the limit.
if (ulimit -v 300000 && "$MAINSTEM" --version) >/dev/null 2>&1; then
    n=$((n + 1))
    (ulimit -v 300000 && exec "$MAINSTEM" run "$SRCDIR/examples/models/kimi_k25_rank.stem" -D LAYERS=2 -D EXPERTS=64 --device=cpu) \
        >"$work/out" 2>&1
    status=$?
    if [ $status != 3 ] || [ "$(grep -vc '^mainstem: warning' "$work/out")" != 1 ] || ! grep -q "out of memory: '" "$work/out"; then
        echo "memory runs out: exit $status, expected 3; it said:"
        sed 's/^/    /' "$work/out"
        failed=$((failed + 1))
    fi
else
    echo 'note: no limit of memory here, running out of it is not tried'
fi

MAINSTEM_LIBCUDA=/no/libcuda.so
export MAINSTEM_LIBCUDA
# shellcheck disable=SC2086
{
    expect 3 'libcuda' run $moe $small --device=gpu
    expect 0 'on the CPU device' run $moe $small
    for option in --audit --chaos --compare=cpu --poison --profile; do
        expect 3 'no CUDA driver: .*/no/libcuda' run $moe $small $option
        expect 3 'need a GPU' run $moe $small $option
    done
    expect 3 'libcuda' bench $moe $small
    # faults of the input and of the command line are said before it
    for command in bench tune; do
        expect 3 '^mainstem: error: no CUDA driver' $command $moe $small
        expect 3 "cannot open '/no/such.stem'" $command /no/such.stem
        expect 1 'STEM1303' $command $moe --dim T=0
        expect 1 'empty.stem:.*error: ' $command "$work/empty.stem"
        expect 2 'sizes are integers' $command $moe --dim T=four
        expect 2 'one-stream' $command $moe --one-stream
    done
    for command in bench tune run verify; do
        expect 2 "stop-after leaves no plan: it is for 'mainstem compile'" $command $moe $small --stop-after=parse
        expect 2 'passes leaves no plan' $command $moe $small --passes=streams
    done
    expect 3 "^mainstem: error: cannot write '$work/no/x': No such file" run $moe $small --save="$work/no/x"
    check 'nothing ran before that' test -z "$("$MAINSTEM" run $moe $small --save="$work/no/x" 2>/dev/null)"
    expect 3 "cannot write '$work': Is a directory" run $moe $small --save="$work"
    expect 3 "^mainstem: error: cannot write '$work/no/x': No such file" bench $moe $small --json="$work/no/x"
}

# ---- in place: what the program writes into an input starts anew for every run, and is compared ----
cat >"$work/inout.stem" <<'S'
module inout_input;
kernel addto(inout a: f32[8], in b: f32[8]) grid(1) block(8) {{ a[threadIdx.x] += b[threadIdx.x]; }}
model m(x: f32[8], inout acc: f32[8]) -> f32[8] { addto(inout acc, x); return acc * 2.0; }
S
expect 0 'in place acc: f32' run "$work/inout.stem" --device=cpu --orders=3
# two parts of one value, handed to a layer that writes both, hold what two values hold: outputs got0 and want0, ... are the same
parts_alike() { # parts_alike OPTION...
    "$MAINSTEM" run "$SRCDIR/tests/cli/data/parts.stem" --device=cpu --orders=5 "$@" >"$work/parts" 2>&1 &&
        [ "$(sed -n 's/^  output got.*bits //p' "$work/parts")" = "$(sed -n 's/^  output want.*bits //p' "$work/parts")" ] &&
        [ "$(grep -c '^  output got' "$work/parts")" = 4 ]
}
check 'parts written by a layer are those of two values' parts_alike
check 'parts, on one stream' parts_alike --one-stream
check 'parts, with copies' parts_alike --streams=auto --max-streams=4 --inplace=copy
# a plan says so, and one that does not is refused
"$MAINSTEM" compile -q "$work/inout.stem" --emit=plan -o "$work/inout" >/dev/null 2>&1
expect 0 'safe|every order' verify "$work/inout/inout_input.plan.json"
sed 's/,"inout":true//' "$work/inout/inout_input.plan.json" >"$work/inout/lent.plan.json"
check 'the plan marks what is updated' grep -q '"name":"acc".*"inout":true' "$work/inout/inout_input.plan.json"
expect 1 "'addto' .* writes to the input 'acc', which its caller only lends \[STEM3018\]" verify "$work/inout/lent.plan.json"

# ---- weights by name ----
cat >"$work/w.stem" <<'S'
module w;
layer f(x: f32[2, 4]) -> f32[2, 4] { weight g: f32[4]; return rmsnorm(x, g); }
S
make_weights() { # name dtype shape bytes
    local header="{\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[0,$4]}}"
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
    head -c "$4" /dev/zero
}
weight=$("$MAINSTEM" compile "$work/w.stem" -q -o "$work/w" --emit=plan >/dev/null 2>&1; grep -oE '"name": *"[^"]*g"' "$work/w/w.plan.json" | head -n 1 | sed 's/.*"\([^"]*\)"$/\1/')
make_weights "$weight" F32 '[4]' 16 >"$work/good.safetensors"
make_weights "$weight" F32 '[5]' 20 >"$work/shape.safetensors"
make_weights "$weight" BF16 '[4]' 8 >"$work/dtype.safetensors"
expect 0 'min -?0 max -?0 ' run "$work/w.stem" --device=cpu --weights="$work/good.safetensors"
expect 1 'F32\[5\], the program wants F32\[4\]' run "$work/w.stem" --device=cpu --weights="$work/shape.safetensors"
expect 1 'BF16\[4\], the program wants F32\[4\]' run "$work/w.stem" --device=cpu --weights="$work/dtype.safetensors"
expect 3 'not a .safetensors file' run "$work/w.stem" --device=cpu --weights="$work/w.stem"
expect 3 'cannot open' run "$work/w.stem" --device=cpu --weights="$work/none.safetensors"
# By the names of a checkpoint: a directory of two files.
cat >"$work/named.stem" <<'END'
module named;
model m(x: f32[4]) -> f32[4] {
  weight w: f32[4] = "layers.0.{a,b}.w";
  return x * w;
}
END
mkdir "$work/checkpoint"
make_weights layers.0.a.w F32 '[1]' 4 >"$work/checkpoint/1.safetensors"
make_weights layers.0.b.w F32 '[3]' 12 >"$work/checkpoint/2.safetensors"
expect 0 'min -?0 max -?0 ' run "$work/named.stem" --device=cpu --weights="$work/checkpoint"
expect 1 "no tensor 'layers.0.b.w', which is wanted for weight 'w'" run "$work/named.stem" --device=cpu --weights="$work/checkpoint/1.safetensors"
expect 1 "no tensor 'layers.0.a.w', which is wanted for weight 'w'" run "$work/named.stem" --device=cpu --weights="$work/good.safetensors"

# Many states: the first few, and one line that has the bits of the others.
states="$SRCDIR/examples/models/kimi_k25_rank.stem -D LAYERS=12 -D HIDDEN=64 -D VOCAB=64 -D HEADS=1 -D EXPERTS=8 -D TOPK=2 -D INTER=32 -D DENSE=32
    -D CONTEXT=64 -D SEQUENCES=1 -D NOPE=32 -D HEAD=32 -D LATENT=32 -D ROPE=16 -D QRANK=32 -D SETS=1 --device=cpu"
# shellcheck disable=SC2086
expect 0 '^  \.\.\. 8 more states, all finite \(--verbose lists them\); bits of what follows the first 4: [0-9a-f]{16}$' run $states
# shellcheck disable=SC2086
check 'four states are listed' test "$("$MAINSTEM" run $states | grep -c '^  state ')" = 4
# shellcheck disable=SC2086
check 'all states are listed' test "$("$MAINSTEM" run $states --verbose | grep -c -e '^  state ' -e more)" = 12

# ---- a file that is none is written to, not replaced ----
mkfifo "$work/pipe"
timeout 20 wc -c "$work/pipe" >"$work/count" &
# shellcheck disable=SC2086
expect 0 'KiB' report $moe $small -o "$work/pipe"
wait $!
check 'a pipe stays a pipe' test -p "$work/pipe"
check 'what was written came through it' test "$(cut -d " " -f1 "$work/count")" -gt 10000

echo "$((n - failed)) of $n as they should be"
[ $failed = 0 ]
