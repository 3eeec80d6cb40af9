#!/usr/bin/env bash
# Emitted sources of every example, in each way of embedding kernels, compile without a warning as C and as C++ with every
# compiler there is, the same bytes each time; the foreign projects of examples/embed build, and run if there is a GPU.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}" "${BUILDDIR:?}"
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -f "$cuda/include/cuda.h" ] || { echo 'skipped: no cuda.h, so emitted code cannot be compiled'; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/embed.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
fail=0 n=0
complain() { echo "FAIL  $*"; fail=1; }

compile() { # FILE
    local file=$1 c
    # gcc finds some of its warnings when it optimises, clang none
    for c in 'gcc -O1 -std=c11' 'clang -fsyntax-only -std=c11' 'g++ -O1 -std=c++17 -x c++' 'clang++ -fsyntax-only -std=c++17 -x c++'; do
        command -v "${c%% *}" >/dev/null || continue
        n=$((n + 1))
        # shellcheck disable=SC2086
        $c -Wall -Wextra -Wpedantic -Werror -isystem "$cuda/include" -c -o "$dir/o.o" "$file" || complain "$c $file"
    done
}

emit() { # DIR EXAMPLE OPTIONS...
    local out=$1 example=$2
    shift 2
    "$MAINSTEM" emit "$SRCDIR/examples/$example.stem" -o "$out" --no-warnings "$@" || complain "emit $example $*"
}

for example in dual_stream_moe dsa_indexer gqa_decode inline_kernel piecewise qkv_three_streams; do
    emit "$dir/a" $example --dim T=1,4 --embed=source
    emit "$dir/b" $example --dim T=1,4 --embed=source
    diff -r "$dir/a" "$dir/b" >/dev/null || complain "$example: two emissions differ"
    compile "$dir/a/$example.c"
    compile "$dir/a/${example}_source.c"
    rm -rf "$dir/a" "$dir/b"
done
emit "$dir/none" qkv_three_streams --dim T=4 --embed=none
compile "$dir/none/qkv_three_streams.c"
# One bucket, no slab to speak of, C++-safe header alone.
printf '#include "qkv_three_streams.h"\nint main() { return QKV_THREE_STREAMS_OK; }\n' >"$dir/none/use.c"
compile "$dir/none/use.c"

# Where a checkpoint has the weights: the table needs no driver.
cat >"$dir/named.stem" <<'END'
module named;
layer l[i](x: f32[2, 4]) -> f32[2, 4] { weight w: f32[2, 4] = "layers.{i + 1}.{*}.{a,b}"; return x * w; }
model m(x: f32[2, 4]) -> f32[2, 4] { weight v: f32[4]; return l[2](x) * v; }
END
"$MAINSTEM" emit "$dir/named.stem" -o "$dir/named" --no-warnings --embed=none || complain 'emit named'
cat >"$dir/named/use.c" <<'END'
#include "named.h"
#include <stdio.h>
int main(void)
{
    for (unsigned i = 0; i <= NAMED_N_TENSORS; i++)
        printf("%s=%s\n", named_tensor_name(i) ? named_tensor_name(i) : "", named_tensor_source(i) ? named_tensor_source(i) : "");
    return 0;
}
END
${CC:-cc} -std=c11 -isystem "$cuda/include" -o "$dir/named/use" "$dir/named/use.c" "$dir/named/named.c" -ldl &&
    "$dir/named/use" | sort | tr '\n' ' ' | grep -qx '= l\[2\].w=layers.3.{\*}.{a,b} out= v= x= ' || complain 'named_tensor_source'

for bad in '-o' '--embed=ptx -o x' '--name=1x -o x' '--arch=90 -o x' '--arch=sm_75 -o x' '--arch= -o x' '--arch=sm_90, -o x' \
    '--arch=,sm_90 -o x' '--arch=sm_ -o x'; do
    # shellcheck disable=SC2086
    "$MAINSTEM" emit "$SRCDIR/examples/piecewise.stem" $bad >/dev/null 2>&1
    [ $? = 2 ] || complain "emit $bad: exit status is not 2"
done

if ls "$cuda"/lib64/libnvrtc.so* >/dev/null 2>&1; then embed=cubin; else embed=source; fi
emit "$dir/vendor" qkv_three_streams --dim T=1,4,16,64 --name qkv --embed=$embed
[ $embed = source ] || compile "$dir/vendor/qkv_cubin.c"
if [ $embed = cubin ]; then # the lowest shapes launches, wherever it stands: clusters are of sm_90 and later
    emit "$dir/up" qkv_three_streams --dim T=4 --arch=sm_80,sm_90
    emit "$dir/down" qkv_three_streams --dim T=4 --arch=sm_90 --arch=sm_80
    diff -r "$dir/up" "$dir/down" >/dev/null || complain 'the order of --arch matters'
fi
run() { # WHAT PROGRAM
    "$2"
    case $? in 0) echo "ok    $1" ;; 77) echo "ok    $1 (built; no GPU)" ;; *) complain "$1" ;; esac
}
cp -r "$SRCDIR/examples/embed/c" "$SRCDIR/examples/embed/cmake" "$dir" && chmod -R u+w "$dir/c" "$dir/cmake"
if make -s -C "$dir/c" VENDOR="$dir/vendor" CUDA_HOME="$cuda" CFLAGS='-O1 -Wall -Wextra -Wpedantic -Werror'; then
    run 'examples/embed/c' "$dir/c/decode"
else
    complain 'examples/embed/c does not build'
fi
if command -v cmake >/dev/null; then
    # Two programs in one directory: neither takes the other's library away.
    emit "$dir/two" qkv_three_streams --dim T=4 --embed=source --name qkv
    cp "$dir/two/CMakeLists.txt" "$dir/first.txt"
    emit "$dir/two" piecewise --dim T=4 --embed=source
    cmp -s "$dir/first.txt" "$dir/two/CMakeLists.txt" || complain 'CMakeLists.txt depends on the program'
    if ! { CUDA_HOME=$cuda cmake -S "$dir/two" -B "$dir/two/build" && cmake --build "$dir/two/build" --target qkv piecewise; } >"$dir/log" 2>&1; then
        cat "$dir/log"
        complain 'two programs in one directory do not build with CMake'
    fi
    if CUDA_HOME=$cuda cmake -S "$dir/cmake" -B "$dir/cmake/build" -DVENDOR="$dir/vendor" >"$dir/log" 2>&1 &&
        cmake --build "$dir/cmake/build" >>"$dir/log" 2>&1; then
        run 'examples/embed/cmake' "$dir/cmake/build/buckets"
    else
        cat "$dir/log"
        complain 'examples/embed/cmake does not build'
    fi
fi
echo "$n compilations"
exit $fail
