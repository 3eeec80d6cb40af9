#!/usr/bin/env bash
# Inline kernels and extern functions on the CPU device, whatever state its cache, its compiler and their code are in: damaged
# objects, directories that are full, compilers that do not work, files of processes that were killed, code that ends the process.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export MAINSTEM_CACHE=$work/cache PATH=$work:$PATH
unset MAINSTEM_COSTS
. "$SRCDIR/tests/cli/expect.sh"
cd "$work" || exit 99 # names without this directory's, which are others in each run: what goes to /tmp stays one file
cpu() { # STATUS PATTERN FILE
    expect "$1" "$2" run --device=cpu "$3"
}
kernel() { # FILE LAUNCH STATEMENT: a program whose op 'b', of line 7, is a kernel of 64 threads of it
    printf '%s\n' 'module own;' "kernel twice(in x: f32[64], out y: f32[64]) grid(1) block(64) $2" '{{' '    int i = threadIdx.x;' "    $3" '}}' \
        'model net(x: f32[64]) -> f32[64] { a = x + x; b = twice(a); return b + a; }' >"$work/$1"
}
objects() { find "$MAINSTEM_CACHE/cpu" -name '*.so' | wc -l; }
same() { # WHAT GOT WANTED
    n=$((n + 1))
    [ "$2" = "$3" ] || { echo "$1: $2, not $3"; failed=$((failed + 1)); }
}

# ---- a damaged object is made anew ----
kernel own.stem '' 'y[i] = 2.0f * x[i];'
cpu 0 'equal to the one-stream schedule' own.stem
so=$(find "$MAINSTEM_CACHE/cpu" -name '*.so')
for bytes in 0 1 20 5000 $(($(stat -c %s "$so") - 1)); do
    truncate -s "$bytes" "$so"
    cpu 0 'equal to the one-stream schedule' own.stem
done
for at in 100 1000 4200 8300; do
    printf '\377\377\377\377\377\377\377\377' | dd of="$so" bs=1 seek=$at conv=notrunc 2>/dev/null
    cpu 0 'equal to the one-stream schedule' own.stem
done
touch -d yesterday "$so"
cpu 0 'equal to the one-stream schedule' own.stem
same 'mended and kept' "$(find "$so" -mmin +60)" "$so"
printf 'no object\n' >"$so"
cpu 0 'equal to the one-stream schedule' own.stem
same 'objects' "$(objects)" 1

# ---- the compiler ----
printf '%s\n' '#!/bin/sh' "case \$* in *$MAINSTEM_CACHE*) echo 'ld: final link failed: No space left on device' >&2; exit 1;; esac" \
    'exec c++ "$@"' >"$work/full-disk-c++" # for which the cache is on a full disk, and /tmp is not
printf '%s\n' '#!/bin/sh' 'echo "cc1plus: fatal error: it is broken" >&2; exit 4' >"$work/broken"
chmod +x "$work/full-disk-c++" "$work/broken"
CXX=/bin/false cpu 3 "^own.stem:7: error: op 'b' .*: the C\+\+ compiler '/bin/false', which CXX names, fails with status 1 .*'twice' and says nothing" own.stem
CXX=$work/broken cpu 3 '^cc1plus: fatal error: it is broken' own.stem
CXX=full-disk-c++ cpu 0 'equal to the one-stream schedule' own.stem
(
    trap '' XFSZ # a file too large is then an error, as on a full disk
    ulimit -f 8
    exec "$MAINSTEM" run --device=cpu own.stem
) >"$work/out" 2>&1 # the object is there
same 'the object is read only' $? 0
kernel other.stem '' 'y[i] = 3.0f * x[i];'
(
    trap '' XFSZ
    ulimit -f 8
    exec "$MAINSTEM" run --device=cpu other.stem
) >"$work/out" 2>&1
same 'no room anywhere' $? 3
same 'what is said' "$(grep -c "cannot write '/tmp/mainstem-.*: File too large" "$work/out")" 1
same 'left behind' "$(find "$MAINSTEM_CACHE/cpu" -name 'tmp-*')" ''

# ---- what killed processes left goes with time ----
for f in tmp-aaaaaa tmp-aaaaaa.cc tmp-aaaaaa.log tmp-bbbbbb.cc; do : >"$MAINSTEM_CACHE/cpu/$f"; done
touch -d '2 hours ago' "$MAINSTEM_CACHE"/cpu/tmp-aaaaaa* "$so"
cpu 0 'equal to the one-stream schedule' other.stem
same 'kept' "$(cd "$MAINSTEM_CACHE/cpu" && echo tmp-*)" tmp-bbbbbb.cc
same 'objects' "$(objects)" 2
(
    ulimit -f 1
    exec "$MAINSTEM" compile -q own.stem -o small --emit=plan
) >"$work/out" 2>&1
same 'a plan that is too large' $? 3
same 'left of it' "$(ls "$work/small")" ''

# ---- dynamic shared memory ends where smem says ----
shared='extern __shared__ float s[]; s[i] = x[i]; __syncthreads(); y[i] = s[63 - i];'
kernel smem.stem 'smem(256)' "$shared"
cpu 0 'equal to the one-stream schedule' smem.stem
kernel smem.stem 'smem(128)' "$shared"
cpu 1 "smem.stem:7: error: op 'b' .* signal 11 .*: it touches memory 0 bytes behind its dynamic shared memory, of which .* smem gives it 128" smem.stem
kernel smem.stem '' "$shared"
cpu 1 'behind its dynamic shared memory, of which .* smem gives it 0$' smem.stem
kernel smem.stem 'smem(192)' "$shared" # not a multiple of the alignment
cpu 1 'smem.stem:7: .*the kernel writes 64 bytes behind its dynamic shared memory, of which its smem gives it 192' smem.stem
kernel smem.stem 'smem(256)' 'extern __shared__ float s[]; if (i == 0) y[0] = s[3]; else y[i] = x[i];'
cpu 0 'NOT FINITE: 1 of 64' smem.stem # what nobody wrote is NaN

# ---- extern functions that end the process ----
printf '%s\n' '#include <stdlib.h>' 'int leave(void);' 'int leave(void) { exit(0); }' >"$work/own.c"
if ${CC:-cc} -shared -fPIC -o "$work/own.so" "$work/own.c" 2>"$work/out"; then
    printf '%s\n' 'module own;' "extern leave(inout x: f32[4]) from \"$work/own.so\";" \
        'model net(x: f32[4]) -> f32[4] { y = x + x; leave(inout y); return y; }' >"$work/leave.stem"
    cpu 1 "^leave.stem:3: error: op 'leave' \(extern:leave\) ended the process, with status 0" leave.stem
fi

echo "$((n - failed)) of $n as they should be"
[ $failed = 0 ]
