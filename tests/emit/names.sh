#!/usr/bin/env bash
# Names of the source in emitted C: dims, extern functions and modules named like keywords, macros and identifiers of C, CUDA and the
# emitted code itself compile with every compiler there is, or are an error that says why.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}" "${BUILDDIR:?}"
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -f "$cuda/include/cuda.h" ] || { echo 'skipped: no cuda.h, so emitted code cannot be compiled'; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/names.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
export MAINSTEM_CACHE=$dir/cache
fail=0 n=0
complain() { echo "FAIL  $*"; fail=1; }

# emit MODULE DIM FUNCTION: a program with these names into $dir/out.
emit() {
    rm -rf "$dir/out"
    cat >"$dir/x.stem" <<END
module $1;
dim T in 1..8 = 2, $2 in 1..8 = 2;
extern $3(inout x: f32[T, $2, 4], workspace s: f32[4]; a: i32);
model m(x: f32[T, $2, 4], a: bf16[4, 256], w: bf16[1024, 256]) -> (y: f32[T, $2, 4], o: bf16[4, 1024]) {
  y = exp(x);
  $3(inout y, a = 1);
  break;
  return y, linear(a, w);
}
END
    "$MAINSTEM" emit "$dir/x.stem" -o "$dir/out" --embed=source --matmul=cublaslt --no-warnings >"$dir/said" 2>&1
}

# The header also behind those of the system, whose macros it meets then.
compile() { # MODULE
    local c
    printf '#include <errno.h>\n#include <time.h>\n#include <unistd.h>\n#ifndef __cplusplus\n#include <complex.h>\n#endif\n#include "%s.h"\n' "$1" >"$dir/out/use.c"
    for c in 'gcc -std=c11' 'clang -std=c11' 'g++ -x c++' 'clang++ -x c++'; do
        command -v "${c%% *}" >/dev/null || continue
        n=$((n + 1))
        # shellcheck disable=SC2086
        $c -fsyntax-only -Wall -Wextra -Wpedantic -Werror -isystem "$cuda/include" -I "$dir/out" "$dir/out/$1.c" \
            "$dir/out/${1}_source.c" "$dir/out/use.c" || complain "$c of $*"
    done
}

dims=(CUstream NULL NONE I FILE int errno stream EOF N_DIMS class p)
functions=(int errno NULL alloc new stdin slab unix cublaslt _x EOF user)
for i in "${!dims[@]}"; do
    emit zzz "${dims[i]}" "${functions[i]}" || complain "emit ${dims[i]} ${functions[i]}: $(cat "$dir/said")"
    compile zzz "${dims[i]}" "${functions[i]}"
done
for module in int find graph main NULL struct launch new; do
    emit $module U f || complain "emit $module: $(cat "$dir/said")"
    compile $module
done
while read -r module why; do
    emit "$module" U f && complain "emit of a module $module"
    grep -q "$module cannot be written as C: .*$why" "$dir/said" && grep -q -- '--name=NAME gives another one' "$dir/said" || complain "$module: $(cat "$dir/said")"
    "$MAINSTEM" emit "$dir/x.stem" --name="$module" -o "$dir/out" >"$dir/said" 2>&1
    [ $? = 2 ] && grep -q "name cannot be '$module': .*$why" "$dir/said" || complain "--name=$module: $(cat "$dir/said")"
done <<'END'
string header of the system
errno header of the system
cuda begin with `cuda`
cudart begin with `cuda`
timer identifiers of the C library
pthread_mutex identifiers of the C library
x identifiers of the C library
stem identifiers of the C library
test CMake has a target
END
# Everything else may be called anything: it stands in strings, or behind a prefix.
cat >"$dir/odd.stem" <<'END'
module odd;
dim int in 1..8 = 2;
const NULL = 4;
extern errno(inout x: f32[int, NULL]);
kernel main(in x: f32[int, NULL], out y: f32[int, NULL]; n: i32 = int * NULL) grid(1) block(8) {{ if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }}
kernel class(in x: f32[int, NULL], out y: f32[int, NULL]; n: i32 = int * NULL) grid(1) block(8) {{ if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }}
layer struct(blockIdx: f32[int, NULL]) -> (return_: f32[int, NULL]) { weight float: f32[NULL], stem_user_main: f32[NULL]; state __proto__: f32[int8, NULL]; x = blockIdx * float + stem_user_main; store(inout __proto__, x[0:1, :]); return main(x); }
const int8 = 8;
kernel store(inout s: f32[8, 4], in x: f32[1, 4]) grid(1) block(4) {{ s[threadIdx.x] = x[threadIdx.x]; }}
layer constructor(threadIdx: f32[int, NULL]) -> f32[int, NULL] { weight hasOwnProperty: f32[NULL]; on toString { z = class(threadIdx); } on __proto__ resource valueOf { w = main(threadIdx); } return z * hasOwnProperty + w; }
model cudaMalloc(NV_IS_HOST: f32[int, NULL]) -> (EOF: f32[int, NULL]) {
  a = struct[0](NV_IS_HOST); b = constructor[1](a); constructor = constructor[2](b); prototype = constructor + exp(a);
  return prototype;
}
END
odd() { "$MAINSTEM" "$@" >"$dir/said" 2>&1 || complain "$*: $(cat "$dir/said")"; }
odd compile -q "$dir/odd.stem" -o "$dir/odd" --emit=plan,cuda,dot,trace
odd verify "$dir/odd.stem"
odd report "$dir/odd.stem" -o "$dir/odd.html"
odd run --device=cpu "$dir/odd.stem"
if ls "$cuda"/lib64/libnvrtc.so* >/dev/null 2>&1; then odd compile -q "$dir/odd.stem" -o "$dir/odd"; fi
odd emit "$dir/odd.stem" --dim int=1,2 --embed=source --name=zzz -o "$dir/out"
compile zzz odd.stem
echo "$n compilations"
exit $fail
