#!/usr/bin/env bash
# What goes wrong around the compiler: memory that runs out, outputs that cannot be written, input that is no text or no
# JSON, options that a command cannot honour. Each has a documented status and says what to do; nothing ends by a signal.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
work=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export MAINSTEM_CACHE=$work/cache
unset MAINSTEM_COSTS
moe=$SRCDIR/examples/dual_stream_moe.stem
n=0 failed=0

# expect STATUS 'pattern' arguments...: the pattern (extended, "" for any) must occur in what is printed.
expect() {
    local status=$1 pattern=$2 out got
    shift 2
    n=$((n + 1))
    out=$("$MAINSTEM" "$@" 2>&1 </dev/null)
    got=$?
    if [ $got != "$status" ] || { [ -n "$pattern" ] && ! grep -qE -- "$pattern" <<<"$out"; }; then
        echo "mainstem $*: exit $got, expected $status and /$pattern/; it said:"
        sed 's/^/    /' <<<"$out"
        failed=$((failed + 1))
    fi
}
wrong() {
    echo "$*"
    failed=$((failed + 1))
}

# ---- memory ----

# KIB SUFFIX COMMAND...: within so much address space it works, or says that memory ran out. Counts the latter.
short=0
within() {
    local limit=$1 got
    shift
    n=$((n + 1))
    (ulimit -v "$limit" && exec "$MAINSTEM" "$@") >"$work/out" 2>&1 </dev/null
    got=$?
    if [ $got = 3 ] && grep -q '^mainstem: error: out of memory' "$work/out"; then
        short=$((short + 1))
    elif [ $got != 0 ]; then
        wrong "mainstem $* within $limit KiB: exit $got; it said:" "$(head -c 400 "$work/out")"
    fi
}
"$MAINSTEM" compile "$moe" -D LAYERS=400 -q -o "$work/big" --emit=plan || exit 99
if (ulimit -v 100000 && exec "$MAINSTEM" --version) >"$work/out" 2>&1; then # not with AddressSanitizer, which takes terabytes
    for limit in 14000 17000 20000 23000 26000 29000 32000; do
        within $limit compile "$moe" -D LAYERS=400
        within $limit verify "$work/big/dual_stream_moe.plan.json"
        within $limit report "$moe" -D LAYERS=400 -o "$work/page.html"
    done
    [ $short -ge 6 ] || wrong "memory ran out $short times only: the limits are no test"
fi

# ---- options that would change nothing ----
small='-D LAYERS=1 -D SETS=1 -D HIDDEN=64 -D EXPERTS=4 -D TOPK=2 -D INTER=32'
plan=$work/big/dual_stream_moe.plan.json
"$MAINSTEM" compile "$moe" -q --print-after=expand >"$work/moe.ir" || exit 99
expect 2 'order: bench compares the schedules: --ways chooses' bench "$moe" --order=program
expect 2 'pdl: bench compares the schedules' bench "$moe" --pdl=off
expect 2 'arch: bench compiles for the GPU that is there' bench "$moe" --arch=sm_80
expect 2 'costs: tune makes the table: -o FILE names it' tune "$moe" --costs=none
expect 2 'arch: tune compiles for the GPU' tune "$moe" --arch=sm_80
expect 2 "order is for programs: '.*json' is compiled already" verify "$plan" --order=program
expect 2 'define is for programs' report "$plan" -D LAYERS=1
expect 2 'dim is for programs' diff "$plan" "$plan" --dim T=1
expect 0 'do the same' diff "$plan" "$plan" --color=never
expect 2 'dim is for .stem files' compile "$work/moe.ir" --from=ir --dim T=4
expect 2 'D is for .stem files' compile "$work/moe.ir" --from=ir -D LAYERS=4
for option in --by=nodes --iters=3 --memory=pool --gpu=0; do
    # shellcheck disable=SC2086
    expect 2 "${option%=*} is for a GPU" run "$moe" $small --device=cpu $option
done
# shellcheck disable=SC2086
{
    MAINSTEM_LIBCUDA=/nowhere expect 0 'note: there is no GPU, for which --iters is' run "$moe" $small --iters=3
    expect 0 '2 random legal orders' run "$moe" $small --orders=2
}

# ---- inline kernels: that do not compile, and that touch what is not theirs; one status, whoever compiles ----
kernel() { # STATEMENT: a program whose op 'b', of line 7, is a kernel of 64 threads of it
    printf '%s\n' 'module own;' 'kernel twice(in x: f32[64], out y: f32[64]) grid(1) block(64)' '{{' '    int i = threadIdx.x;' "    $1" '}}' \
        'model net(x: f32[64]) -> f32[64] { a = x + x; b = twice(a); return b + a; }' >"$work/own.stem"
}
kernel 'y[i] = x[i]'
expect 1 'own.stem:5: error: the host.s compiler does not compile this inline kernel: expected .;. before' run --device=cpu "$work/own.stem"
expect 1 '^    5 \|     y\[i\] = x\[i\]$' run --device=cpu "$work/own.stem"
if ls "${MAINSTEM_CUDA:-/usr/local/cuda}"/lib64/libnvrtc.so* >"$work/out" 2>&1; then
    expect 1 'own.stem:5: error: NVRTC does not compile this inline kernel: expected a ";"' compile -q "$work/own.stem" -o "$work/x"
    expect 1 'own.stem:5: error: NVRTC does not compile this inline kernel' emit "$work/own.stem" -o "$work/x"
fi
kernel 'y[i] = 2.0f * x[i];'
expect 0 'equal to the one-stream schedule' run --device=cpu "$work/own.stem"
kernel 'y[i] = x[i + 1];'
expect 1 "own.stem:7: error: op 'b' \(kernel:twice\) ended by signal 11 .*: it touches memory right behind operand 1 of 2" run --device=cpu "$work/own.stem"
kernel 'y[i + 1] = x[i];'
expect 1 'it touches memory right behind operand 2 of 2' run --device=cpu "$work/own.stem"
kernel 'y[i - 1] = x[i];'
expect 1 "own.stem:7: op 'b' \(kernel:twice\): the kernel writes 4 bytes before operand 2 of 2, which has 256" run --device=cpu "$work/own.stem"
kernel 'y[i * 100000000] = x[i];'
expect 1 'ended by signal 11 .*: it touches memory far from its operands' run --device=cpu "$work/own.stem"
kernel 'if (i == 3) __builtin_trap(); y[i] = x[i];'
expect 1 "op 'b' \(kernel:twice\) ended by signal [45] " run --device=cpu "$work/own.stem"

echo "$((n - failed)) of $n as they should be"
[ $failed = 0 ]
