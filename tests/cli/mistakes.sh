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
. "$SRCDIR/tests/cli/expect.sh"
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
    if [ $got = 3 ] && grep -qE '^(mainstem|[^ ]*:[0-9]+): error: .*out of memory' "$work/out"; then
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

if (ulimit -v 100000 && exec "$MAINSTEM" --version) >"$work/out" 2>&1; then
    "$MAINSTEM" run --device=cpu "$SRCDIR/examples/qkv_three_streams.stem" >"$work/out" 2>&1 # the host's compiler needs more
    for limit in 60000 80000 86000; do # in the end it is an inline kernel's copy of its operands that finds no room
        within $limit run --device=cpu "$SRCDIR/examples/qkv_three_streams.stem"
    done
fi

# ---- what a command reads it does not overwrite, by whatever name ----
cat >"$work/own.stem" <<'S'
module own;
model m(x: f32[4]) -> f32[4] { weight w: f32[4]; return exp(x) + w; }
S
cp "$work/own.stem" "$work/kept"
ln "$work/own.stem" "$work/link"
"$MAINSTEM" compile "$work/own.stem" -q -o "$work/own" --emit=plan || exit 99
cp "$work/own/own.plan.json" "$work/own.json"
for out in "$work/own.stem" "$work/link"; do
    expect 3 "'$out' is what this command reads: it is not overwritten" report "$work/own.stem" -o "$out"
    expect 3 'is what this command reads' run --device=cpu "$work/own.stem" --save="$out"
    expect 3 'is what this command reads' diff "$work/own.stem" "$work/own.json" -o "$out"
done
expect 3 'is what this command reads' report "$work/own.json" -o "$work/own.json"
expect 3 'is what this command reads' lanes "$work/own.json" --dot="$work/own.json"
expect 3 'is what this command reads' lanes "$work/own.json" --html="$work/own.json"
cmp -s "$work/own.stem" "$work/kept" && cmp -s "$work/own.json" "$work/own/own.plan.json" || wrong 'an input was overwritten'
expect 0 '' run --device=cpu "$work/own.stem" --save="$work/own.st"
expect 0 '' run --device=cpu "$work/own.stem" --save="$work/own.st" # a file of an earlier run is overwritten

# ---- a run that is killed while it writes leaves nothing behind ----
cat >"$work/kill.c" <<'EOF'
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
/* What is written to a file ends the program, and so does giving it its name. */
ssize_t write(int fd, const void *data, size_t n)
{
    struct stat s;
    if (!fstat(fd, &s) && S_ISREG(s.st_mode) && getenv("KILL"))
        raise(SIGKILL);
    return syscall(SYS_write, fd, data, n);
}
int rename(const char *from, const char *to)
{
    if (strstr(to, "kept") && getenv("KILL"))
        raise(SIGKILL);
    return (int)syscall(SYS_rename, from, to);
}
EOF
if ${CC:-cc} -shared -fPIC -o "$work/kill.so" "$work/kill.c" 2>"$work/out"; then
    for round in new over; do
        n=$((n + 1))
        {
            KILL=1 ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0:detect_leaks=0" LD_PRELOAD=$work/kill.so \
                "$MAINSTEM" report "$work/own.stem" -o "$work/kept.html" >"$work/out" 2>&1
            status=$?
        } 2>"$work/said" # the shell says that it was killed
        [ $status = 137 ] || wrong "it was not killed: $(cat "$work/out")"
        [ "$(cd "$work" && echo kept.html*)" = "$([ $round = new ] && echo 'kept.html*' || echo kept.html)" ] || wrong "a killed run left $(cd "$work" && echo kept.html*)"
        expect 0 '' report "$work/own.stem" -o "$work/kept.html"
    done
fi

# ---- no plan; no cache ----
for command in compile emit; do
    expect 2 'there is no plan after --passes=streams: nothing was written' $command "$work/own.stem" --passes=streams -o "$work/none"
    expect 2 'there is no plan after --stop-after=check: nothing was written' $command "$work/own.stem" --stop-after=check -o "$work/none"
done
MAINSTEM_CACHE=/dev/null expect 0 'ops +1' compile "$work/own.stem"
MAINSTEM_CACHE= XDG_CACHE_HOME=$work/own.stem expect 0 'ops +1' compile "$work/own.stem"
MAINSTEM_COSTS=none expect 0 'ops +1' compile "$work/own.stem"
MAINSTEM_COSTS=$work/nothing expect 3 'MAINSTEM_COSTS names it' compile "$work/own.stem"

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
expect 2 'no-verify: here the verdict is the output' verify "$moe" --no-verify
expect 2 'no-verify: here the verdict is the output' verify "$plan" --no-verify
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

# ---- files that are not what they are taken for ----
cp "$plan" "$work/plan" # without its ending
"$MAINSTEM" compile "$moe" -q -o "$work/big" --emit=dot || exit 99
# Names out of a plan, in what is said of it: none of their bytes that a terminal would obey.
printf '\342\200\256evil\\u001b[31m\\n' >"$work/evil"
for from in '"access":"read"' '"kind":"input"' '"sm":90'; do
    to="${from%:*}:\"$(cat "$work/evil")\""
    [ "$from" = '"sm":90' ] && to="\"$(cat "$work/evil")\":1,$from"
    n=$((n + 1))
    text=$(cat "$plan")
    printf '%s' "${text/"$from"/"$to"}" >"$work/evil.json"
    "$MAINSTEM" verify "$work/evil.json" >"$work/out" 2>&1
    status=$?
    [ $status = 1 ] && grep -q 'unknown [a-z]* "???evil?\[31m?"' "$work/out" && [ "$(wc -l <"$work/out")" = 1 ] ||
        wrong "evil names: $status, $(cat -v "$work/out")"
done
sed '0,/"access":"read"/s//"access":"wrote"/' "$plan" >"$work/evil.json"
expect 1 'access: unknown word "wrote"; it is one of read, write, readwrite$' verify "$work/evil.json"
: >"$work/empty"
echo '{' >"$work/broken.json"
head -c 3000 "$plan" >"$work/cut.json"
printf 'module m;\r\nmodel f(x: f32[4]) -> f32[4] {\r\n  return y + 1.0;\r\n}\r\n' >"$work/crlf.stem"
printf 'module m;\nmodel f(x: f32[4, 8]) -> f32[4, 8] {\n  // caf\351 \377\n  weight w: f32[8, 16];\n  return linear(x, w);\n}\n' >"$work/latin.stem"
printf 'module m;\nmodel f(x: f32[4]) -> f32[4] {\n  weight \303\251: f32[4];\n  return x;\n}\n' >"$work/letter.stem"
expect 0 'safe: ' verify "$work/plan"
expect 0 'lanes' lanes "$work/plan"
expect 0 'do the same' diff "$work/plan" "$plan"
expect 2 'looks like a plan' compile "$work/plan"
for command in verify report compile; do
    expect 2 "is a graph in DOT: 'mainstem lanes' reads it" $command "$work/big/dual_stream_moe.dot"
done
for command in verify lanes 'report -o x.html' "diff $plan"; do
    # shellcheck disable=SC2086
    {
        expect 1 'broken.json: line 2, column 0: ' $command "$work/broken.json"
        expect 1 'cut.json: line [0-9]+, column [0-9]+: ' $command "$work/cut.json"
    }
done
for bad in empty broken.json; do
    expect 1 "$bad: line [0-9]+: " report "$moe" --trace="$work/$bad" -o "$work/x.html"
    expect 1 "$bad: line [0-9]+, column 0: " compile "$moe" --costs="$work/$bad"
done
expect 1 "crlf.stem:3:10: error: unknown name 'y'" compile "$work/crlf.stem"
expect 1 '^    3 \|   return y \+ 1.0;$' compile "$work/crlf.stem"
expect 1 'latin.stem:5:20: error: the last sizes of x and w differ' compile "$work/latin.stem"
expect 1 'given are x: f32\[4, 8\], w: f32\[8, 16\]' compile "$work/latin.stem"
expect 1 'names are letters of ASCII' compile "$work/letter.stem"

# ---- pipes, which can be read once ----
for command in 'run --device=cpu' 'run --orders=2' compile verify report; do
    [ "$command" = report ] && command="report -o $work/x.html"
    # shellcheck disable=SC2086
    expect 0 '' $command <(cat "$work/own.stem")
done
expect 0 'do the same' diff <(cat "$work/own.stem") <(cat "$work/own.stem")
mkfifo "$work/fifo"
cat "$work/own.stem" >"$work/fifo" &
expect 0 'equal to the one-stream schedule' run --device=cpu "$work/fifo"

# ---- outputs that cannot be written ----
expect 3 "cannot write '$work': Is a directory" report "$moe" -o "$work"
expect 3 "cannot write '/dev/full': No space left" report "$moe" -o /dev/full
expect 3 'Not a directory' compile "$moe" -q -o "$work/empty"
for command in --help --version ops "compile $moe" 'explain --all' "run $moe $small --device=cpu" "run $SRCDIR/examples/inline_kernel.stem --device=cpu"; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    "$MAINSTEM" $command >/dev/full 2>"$work/out" </dev/null
    status=$?
    [ $status = 3 ] && grep -q 'cannot write to standard output' "$work/out" || wrong "$command to a full device: $status, $(cat "$work/out")"
    # shellcheck disable=SC2086
    "$MAINSTEM" $command 2>"$work/out" </dev/null | head -n 1 >/dev/null
    grep -v 'WARNING: ASan' "$work/out" >"$work/said" && wrong "$command into a pipe that is closed: $(cat "$work/said")"
done

# ---- words ----
expect 2 "device does not know 'rocm'; it takes auto, gpu or cpu" run "$moe" --device=rocm
expect 2 "arch does not know '90'; did you mean 'sm_90'\?" compile "$moe" --arch=90
expect 2 "arch does not know 'gfx'; it takes sm_80, sm_90, sm_100 or sm_120" compile "$moe" --arch=gfx
expect 2 "there is no pass 'foo'" compile "$moe" --passes=foo
expect 2 'help: `--list-passes` lists them' compile "$moe" --passes=foo
expect 2 "ways does not know 'foo'; there are one-nopdl, one, .*, all$" bench "$moe" --ways=foo
expect 2 "unknown option '--const'; did you mean '-D NAME=VALUE'\?" compile "$moe" --const=LAYERS=1
expect 1 "there is no dim 'LAYERS'" compile "$moe" --dim LAYERS=1
expect 1 "help: 'LAYERS' is a const: -D LAYERS=1 overrides it" compile "$moe" --dim LAYERS=1
MAINSTEM_LIBCUDA=/nowhere expect 3 'there is no GPU, and on the CPU device the program needs' run "$moe" -D HIDDEN=32768 -D INTER=4096

printf 'module m;\nconst Q = 1_000;\ndim T in 1..16;\nmodel f(x: f32[T, Q]) -> f32[T, Q] { return exp(x); }\n' >"$work/dim.stem"
expect 2 "dim 'T=2': T has sizes already; several are one list, --dim T=1,2" compile "$work/dim.stem" --dim T=1 --dim T=2
expect 0 'T=12' compile "$work/dim.stem" --dim T=1_2 -D Q=1_0
expect 1 'Q=1__0' compile "$work/dim.stem" -D Q=1__0
expect 3 "cannot make the directory '$work/none/sub/': there is no '$work/none' that it could be in" compile -q "$work/dim.stem" -o "$work/none/sub/"
expect 3 "there is no '$work/none' that it could be in" emit "$work/own.stem" -o "$work/none/sub"
long=$(printf '%050000d' 0)
printf 'module m;\nmodel f(x: f32[4]) -> f32[4] { return a%s; }\n' "$long" >"$work/long.stem"
expect 1 "unknown name 'a0{900,} ... \([0-9]+ bytes\) ... 0+'" compile "$work/long.stem"
n=$((n + 1))
[ "$("$MAINSTEM" compile "$work/long.stem" 2>&1 | wc -c)" -lt 6000 ] || wrong 'a name of 50000 bytes is said whole'
printf 'module m;\nmodel f(x: f32[4]) -> f32[4] { return x%s; }\n' "$(printf ' + x%.0s' {1..300})" >"$work/sum.stem"
expect 1 'help: every operator of a chain like a . b . c is a level, too' compile "$work/sum.stem"

# ---- inline kernels: that do not compile, and that touch what is not theirs; one status, whoever compiles ----
kernel() { # STATEMENT: a program whose op 'b', of line 7, is a kernel of 64 threads of it
    printf '%s\n' 'module own;' 'kernel twice(in x: f32[64], out y: f32[64]) grid(1) block(64)' '{{' '    int i = threadIdx.x;' "    $1" '}}' \
        'model net(x: f32[64]) -> f32[64] { a = x + x; b = twice(a); return b + a; }' >"$work/own.stem"
}
kernel 'y[i] = x[i]'
expect 1 'own.stem:5:16: error: the host.s compiler does not compile this inline kernel: expected .;. (before|after)' run --device=cpu "$work/own.stem"
n=$((n + 1))
[ "$("$MAINSTEM" run --device=cpu "$work/own.stem" 2>&1 | grep -c 'expected')" = 1 ] || { echo 'a compiler is repeated'; failed=$((failed + 1)); }
expect 1 '^      \|                \^' run --device=cpu "$work/own.stem"
expect 1 '^    5 \|     y\[i\] = x\[i\]$' run --device=cpu "$work/own.stem"
nvrtc=$(ls "${MAINSTEM_CUDA:-/usr/local/cuda}"/lib64/libnvrtc.so* 2>"$work/out")
if [ -n "$nvrtc" ]; then
    expect 1 'own.stem:5:5: error: NVRTC does not compile this inline kernel: expected a ";"' compile -q "$work/own.stem" -o "$work/x"
    expect 1 'own.stem:5:5: error: NVRTC does not compile this inline kernel' emit "$work/own.stem" -o "$work/x"
fi
kernel "$(printf '\ty[i] = nothing;')"
expect 1 'own.stem:5:13: error: .*nothing' run --device=cpu "$work/own.stem" # columns count bytes, and a tab is one
kernel 'y[i] = 2.0f * x[i];'
expect 0 'equal to the one-stream schedule' run --device=cpu "$work/own.stem"
kernel 'y[i] = x[i + 1];'
expect 1 "own.stem:7: error: op 'b' \(kernel:twice\) ended by signal 11 .*: it touches memory right behind operand 1 of 2" run --device=cpu "$work/own.stem"
kernel 'y[i + 1] = x[i];'
expect 1 'it touches memory right behind operand 2 of 2' run --device=cpu "$work/own.stem"
kernel 'y[i - 1] = x[i];'
expect 1 "own.stem:7: error: op 'b' \(kernel:twice\): the kernel writes 4 bytes before operand 2 of 2, which has 256" run --device=cpu "$work/own.stem"
kernel 'y[i * 100000000] = x[i];'
expect 1 'ended by signal 11 .*: it touches memory far from its operands' run --device=cpu "$work/own.stem"
kernel 'if (i == 3) __builtin_trap(); y[i] = x[i];'
expect 1 "op 'b' \(kernel:twice\) ended by signal [45] " run --device=cpu "$work/own.stem"

# Errors on the line of `{{`, in its columns. Kernels are one text for NVRTC: macros of one body are not those of the next.
printf '%s\n' 'module own;' 'kernel k(in x: f32[4], out y: f32[4]) grid(1) block(4) {{ int i = 0; y[i] = nothing; }}' \
    'model net(x: f32[4]) -> f32[4] { return k(x); }' >"$work/own.stem"
expect 1 'own.stem:2:77: error: the host.s' run --device=cpu "$work/own.stem"
[ -n "$nvrtc" ] && expect 1 'own.stem:2:77: error: NVRTC' compile -q "$work/own.stem" -o "$work/x"
cat >"$work/macros.stem" <<'EOF'
module macros;
kernel a(in x: f32[4], out y: f32[4]) grid(1) block(4)
{{
#ifndef K
#define K 3
#endif
# /* and */ define \
    N 4
#define threadIdx threadIdx
#define unsigned int
#define N 4
    y[threadIdx.x] = x[threadIdx.x] * K;
}}
kernel b(in x: f32[4], out y: f32[4]; N: i32 = 4) grid(1) block(4)
{{
#if defined(K) || defined(N) || defined(threadIdx) || defined(unsigned)
#error of another kernel
#endif
#define K(x) ((x) * 5)
    if (threadIdx.x < N)
        y[threadIdx.x] = K(x[threadIdx.x]);
}}
model net(x: f32[4]) -> f32[4] { return b(a(exp(x * 0.0)), N = 4); }
EOF
expect 0 'output .* min 15 max 15' run --device=cpu "$work/macros.stem"
expect 0 '' compile -q "$work/macros.stem" -o "$work/x" --emit=cuda
n=$((n + 1))
[ "$(grep -c '^#undef' "$work/x/macros.cu")" = 5 ] || wrong "other #undef: $(grep '^#undef' "$work/x/macros.cu")"
[ -n "$nvrtc" ] && expect 0 '' compile -q "$work/macros.stem" -o "$work/x"

# Operands may be named like macros of the host's headers, which the GPU's compiler does not have.
printf '%s\n' 'module own;' 'kernel k(in M_PI: f32[4], in SIZE_MAX: f32[4], out RAND_MAX: f32[4]; M_E: i32 = 2, EXIT_FAILURE: f32 = 3.0) grid(1) block(4)' \
    '{{ RAND_MAX[threadIdx.x] = M_PI[threadIdx.x] + SIZE_MAX[threadIdx.x] * M_E + EXIT_FAILURE; }}' \
    'model net(x: f32[4]) -> f32[4] { return k(exp(x * 0.0), exp(x * 0.0)); }' >"$work/own.stem"
expect 0 'output .* min 6 max 6' run --device=cpu "$work/own.stem"
[ -n "$nvrtc" ] && expect 0 '' compile -q "$work/own.stem" -o "$work/x"

# ... and like what is a type, a function or a variable where they are compiled.
printf '%s\n' 'module own;' 'kernel k(in errno: f32[4], in blockIdx: f32[4], in half: f32[4], out printf: f32[4]; main: i32 = 2, defined: i32 = 1, stem_wait: i32 = 1,' \
    ' stem_slot: i32 = 1, warpSize: i32 = 1, std: i32 = 1, size_t: i32 = 1, linux: i32 = 1, cuda: i32 = 1, memcpy: i32 = 1) grid(1) block(4)' \
    '{{ printf[threadIdx.x] = errno[threadIdx.x] + blockIdx[0] * half[0] + main + defined + stem_wait + stem_slot + warpSize + std + size_t + linux + cuda + memcpy; }}' \
    'model net(x: f32[4]) -> f32[4] { return k(exp(x * 0.0), x, x); }' >"$work/own.stem"
expect 0 'output out: ' run --device=cpu "$work/own.stem"
[ -n "$nvrtc" ] && expect 0 '' compile -q "$work/own.stem" -o "$work/x"

# Raw strings: what is in one is neither a brace nor a quote.
cat >"$work/raw.stem" <<'EOF'
module raw;
kernel a(in x: f32[4], out y: f32[4]) grid(1) block(4)
{{
    const char *s = R"(}} { " ' /* // )", *t = R"x(}}
)" }} )x", *u = u8R"ab(})a")ab";
    auto w = LR"(}})";
    y[threadIdx.x] = x[threadIdx.x] + sizeof(R"({{)") + sizeof(R"x(}})x") + s[0] + t[0] + (int)w[0] + u[0] - 4 * '}';
}}
model m(x: f32[4]) -> f32[4] { return a(x * 0.0); }
EOF
expect 0 'output .* min 6 max 6' run --device=cpu "$work/raw.stem"
[ -n "$nvrtc" ] && expect 0 '' compile -q "$work/raw.stem" -o "$work/x"
printf 'kernel a(out y: f32[4]) grid(1) block(4) {{ R"x(}} )" }} }}\nmodel m() -> f32[4] { return a(); }\n' >"$work/raw.stem"
expect 1 'raw.stem:1:42: error: this CUDA body has no end' compile "$work/raw.stem"

# Macros that bodies include reach those alone that include, too: they come last.
printf '%s\n' 'module own;' 'kernel a(out y: f32[4]) grid(1) block(4) {{' '#include <math_constants.h>' ' y[threadIdx.x] = 1; }}' \
    'kernel b(in x: f32[4], out y: f32[4]) grid(1) block(4) {{ y[threadIdx.x] = x[threadIdx.x]; }}' 'model m() -> f32[4] { return silu(b(a())); }' >"$work/own.stem"
expect 0 '' compile -q "$work/own.stem" -o "$work/x" --emit=cuda
n=$((n + 1))
[ "$(sed -n 's/^\/\/ ---- kernel \(stem_[a-z]*_[a-z]*\).*/\1/p' "$work/x/own.cu" | tail -n 2 | tr '\n' ' ')" = 'stem_user_b stem_user_a ' ] ||
    wrong "the kernel that includes is not last: $(grep -- '---- kernel' "$work/x/own.cu")"

# Conversions to integers are the GPU's at their limits, too.
expect 0 'output wrong: i32\[12\] min 0 max 0' run --device=cpu "$SRCDIR/tests/gpu/conversions.stem"

# A name whose bytes are no UTF-8: they are shown as '?', in #line directives, too.
kernel 'y[i] = x[i]'
cp "$work/own.stem" "$work/$(printf 'b\377d.stem')"
expect 1 'd.stem:5:16: error: .*expected .;. (before|after)' run --device=cpu "$work/$(printf 'b\377d.stem')"
kernel 'y[i] = x[i];'
cp "$work/own.stem" "$work/$(printf 'b\377d.stem')"
expect 0 '' compile -q "$work/$(printf 'b\377d.stem')" -o "$work/x" --emit=cuda
expect 0 'equal to the one-stream schedule' run --device=cpu "$work/$(printf 'b\377d.stem')"
n=$((n + 1))
grep -q '^#line 3 ".*/b?d.stem"' "$work/x/own.cu" || wrong "#line has other bytes: $(grep -a '^#line.*stem' "$work/x/own.cu")"
if [ -n "$nvrtc" ]; then
    expect 0 '' compile -q "$work/$(printf 'b\377d.stem')" -o "$work/x"
fi
printf '%s\n' 'module own;' 'extern away(inout x: f32[4]);' 'model net(x: f32[4]) -> f32[4] { y = x + x; away(inout y); return y; }' >"$work/away.stem"
expect 1 'away.stem:3: error: .*not registered: `extern away\(...\) from "lib.so";` names one' run --device=cpu "$work/away.stem"

printf '%s\n' 'module own;' 'extern away(inout x: f32[4]) from "./none.so";' 'model net(x: f32[4]) -> f32[4] { y = x + x; away(inout y); return y; }' >"$work/away.stem"
expect 3 "away.stem:3: error: op 'away' \(extern:away\): cannot load './none.so'" run --device=cpu "$work/away.stem"

# An extern function that crashes, and one that says no.
printf '%s\n' '#include "mainstem_rt.h"' 'int crash(const struct stem_call *c, struct CUstream_st *s);' 'int refuse(const struct stem_call *c, struct CUstream_st *s);' \
    'int crash(const struct stem_call *c, struct CUstream_st *s) { (void)c; (void)s; *(volatile int *)16 = 1; return 0; }' \
    '#include <stdlib.h>' 'int before(const struct stem_call *c, struct CUstream_st *s);' 'int behind(const struct stem_call *c, struct CUstream_st *s);' \
    'int late(const struct stem_call *c, struct CUstream_st *s);' 'static int armed;' '__attribute__((destructor)) static void end(void) { if (armed) abort(); }' \
    'int before(const struct stem_call *c, struct CUstream_st *s) { (void)s; ((volatile float *)c->operands[0])[-1] = 1; return 0; }' \
    'int behind(const struct stem_call *c, struct CUstream_st *s) { (void)s; ((volatile float *)c->operands[0])[4] = 1; return 0; }' \
    'int late(const struct stem_call *c, struct CUstream_st *s) { (void)c; (void)s; armed = 1; return 0; }' \
    'int refuse(const struct stem_call *c, struct CUstream_st *s) { (void)c; (void)s; return 7; }' >"$work/own.c"
if ${CC:-cc} -shared -fPIC -I "$SRCDIR/runtime" -o "$work/own.so" "$work/own.c" 2>"$work/out"; then
    for f in crash refuse before behind late; do
        printf '%s\n' 'module own;' "extern $f(inout x: f32[4]) from \"$work/own.so\";" \
            "model net(x: f32[4]) -> f32[4] { y = x + x; $f(inout y); return y; }" >"$work/$f.stem"
    done
    expect 1 "crash.stem:3: error: op 'crash' \(extern:crash\) ended by signal 11" run --device=cpu "$work/crash.stem"
    expect 1 "before.stem:3: error: op 'before' \(extern:before\): the function writes 4 bytes before operand 1 of 1, which has 16" run --device=cpu "$work/before.stem"
    expect 1 "behind.stem:3: error: op 'behind' \(extern:behind\)(: the function writes 4 bytes behind| ended by signal 11 .*right behind) operand 1 of 1" \
        run --device=cpu "$work/behind.stem"
    expect 1 "the run ended by signal 6 .*; op 'late' \(extern:late\), of line 3, may have damaged its memory" run --device=cpu "$work/late.stem"
    expect 1 "refuse.stem:3: error: op 'refuse' \(extern:refuse\): the extern function returned 7" run --device=cpu "$work/refuse.stem"
fi

echo "$((n - failed)) of $n as they should be"
[ $failed = 0 ]
