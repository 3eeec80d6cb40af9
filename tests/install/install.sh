#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs into a directory of its own (DESTDIR), or looks at what is installed already (INSTALLED=PREFIX, for make
# installcheck): everything is there, only stem_* is exported and it is what symbols.txt lists, programs in C and C++
# build against it through pkg-config, the program of docs/runtime.md runs, and the Python module finds its library.
# UPDATE=1 rewrites symbols.txt; git diff is the review.
set -u
here=$SRCDIR/tests/install
scratch=$BUILDDIR/tests/scratch/install
rm -rf "$scratch"
mkdir -p "$scratch"
passed=0 failed=0

ok() { # ok WHAT COMMAND...: passes if the command does
    what=$1
    shift
    if "$@" >"$scratch/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $what"
        sed 's/^/    /' "$scratch/log"
    fi
}

says() { # says TEXT COMMAND...: the command's output contains the text
    text=$1
    shift
    "$@" >"$scratch/said" 2>&1
    cat "$scratch/said"
    grep -qF -- "$text" "$scratch/said"
}

if nm -D "$BUILDDIR/.libs/libmainstem.so" | grep -q '__[atu][bs]*an_'; then
    echo "skipped: a sanitizer's libraries are not installed"
    exit 77
fi
command -v pkg-config >/dev/null || { echo "skipped: no pkg-config"; exit 77; }

# ---- install ----

dest=
if [ -z "${INSTALLED:-}" ]; then
    dest=$scratch/dest
    unset MAKEFLAGS MFLAGS MAKELEVEL
    ok "make install DESTDIR=" "${MAKE:-make}" -C "$BUILDDIR" install DESTDIR="$dest"
    INSTALLED=$(find "$dest" -type d -path '*/include/mainstem' | head -n 1)
    INSTALLED=${INSTALLED%/include/mainstem}
fi
libdir=$(dirname "$(find "$INSTALLED" -name libmainstem.so | head -n 1)")
[ -f "$libdir/libmainstem.so" ] || { echo "FAIL: no libmainstem.so under $INSTALLED"; exit 1; }

for f in bin/mainstem include/mainstem/mainstem.h include/mainstem/mainstem_rt.h include/mainstem/plan.h \
    include/mainstem/dtype.h share/man/man1/mainstem.1 share/mainstem/python/mainstem/__init__.py \
    share/mainstem/python/mainstem/_prefix.py; do
    ok "$f is installed" test -f "$INSTALLED/$f"
done
for f in libmainstem.so.0 libmainstem-rt.so.0 pkgconfig/mainstem.pc pkgconfig/mainstem-rt.pc; do
    ok "$f is installed" test -f "$libdir/$f"
done
ok "the command runs" says "0.1.0" "$INSTALLED/bin/mainstem" --version
ok "the command compiles" "$INSTALLED/bin/mainstem" compile "$SRCDIR/examples/inline_kernel.stem" --emit=plan,cuda -o "$scratch/plan"

# ---- exported symbols: "NAME", or "NAME jit" if libmainstem-rt has it not ----

exported() { nm -D --defined-only "$libdir/$1" | awk '{ sub("@.*", "", $3); print $3 }' | sort; }
exported libmainstem.so >"$scratch/all"
exported libmainstem-rt.so >"$scratch/rt"
LC_ALL=C sort "$scratch/all" | while read -r name; do
    if grep -qx "$name" "$scratch/rt"; then echo "$name"; else echo "$name jit"; fi
done >"$scratch/symbols.txt"
[ "${UPDATE:-}" ] && cp "$scratch/symbols.txt" "$here/symbols.txt"
ok "the exported symbols are those of symbols.txt" diff -u "$here/symbols.txt" "$scratch/symbols.txt"
ok "only stem_ symbols are exported" awk '!/^stem_/ { print; bad = 1 } END { exit bad }' "$scratch/all" "$scratch/rt"
ok "libmainstem has all of libmainstem-rt" awk 'NR == FNR { a[$1]; next } !($1 in a) { print; bad = 1 } END { exit bad }' \
    "$scratch/all" "$scratch/rt"

# ---- programs ----

PKG_CONFIG_PATH=$libdir/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$dest
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH
strict="-Wall -Wextra -Wpedantic -Werror"
flags=$(pkg-config --cflags --libs mainstem) || { echo "FAIL: pkg-config mainstem"; failed=$((failed + 1)); }
flags_rt=$(pkg-config --cflags --libs mainstem-rt) || { echo "FAIL: pkg-config mainstem-rt"; failed=$((failed + 1)); }

awk -v name=walk.c -f "$here/fenced.awk" "$SRCDIR/docs/runtime.md" >"$scratch/walk.c"
ok "docs/runtime.md has the program" grep -q 'int main' "$scratch/walk.c"
for cc in "$CC" clang; do
    command -v "${cc%% *}" >/dev/null || continue
    # shellcheck disable=SC2086 # flags are words
    ok "walk.c builds with $cc" $cc -std=c11 $strict -o "$scratch/walk" "$scratch/walk.c" $flags
done
for std in c++11 c++17; do
    # shellcheck disable=SC2086
    ok "C++ caller, $std" $CXX -std=$std $strict -o "$scratch/callers" "$here/callers.cc" $flags
done
ok "C++ caller runs" says fine "$scratch/callers"
cat >"$scratch/rt.c" <<'END'
#include <mainstem_rt.h>
int main(void) { return stem_status_text(STEM_OK) == 0; }
END
# shellcheck disable=SC2086
ok "a program with the runtime alone" $CC -std=c11 $strict -o "$scratch/rt_only" "$scratch/rt.c" $flags_rt
ok "it runs" "$scratch/rt_only"

MAINSTEM_CACHE=
export MAINSTEM_CACHE
walk_without_driver() {
    MAINSTEM_LIBCUDA=/nowhere/libcuda.so.1 says "walk: no CUDA driver: /nowhere/libcuda.so.1" "$scratch/walk"
}
ok "walk.c says that there is no driver" walk_without_driver
fake=$BUILDDIR/.libs/libfakecuda.so
if [ -f "$fake" ]; then
    ok "the preloaded kernels build" $CC -shared -fPIC -I"$SRCDIR/tests/fakecuda" -o "$scratch/stand_in.so" \
        "$here/stand_in.c" "$fake"
    walk() {
        LD_PRELOAD="$fake $scratch/stand_in.so" MAINSTEM_LIBCUDA=$fake MAINSTEM_NVRTC=$fake "$scratch/walk" \
            >"$scratch/walked" && grep -qx "eager: z\[0\] = 24" "$scratch/walked" &&
            grep -qx "graph: z\[0\] = 24" "$scratch/walked"
    }
    ok "walk.c runs under the stand-in driver" walk
fi

# ---- Python ----

python=$(command -v python3)
if [ "$python" ]; then
    unset MAINSTEM_LIB LD_LIBRARY_PATH
    PYTHONDONTWRITEBYTECODE=1
    export PYTHONDONTWRITEBYTECODE
    module() { PYTHONPATH=$1 says "['T']" "$python" -c \
        'import mainstem, sys; print(mainstem.compile(sys.argv[1]).dims)' "$SRCDIR/examples/inline_kernel.stem"; }
    ok "the installed module finds the library" module "$INSTALLED/share/mainstem/python"
    if "$python" -c 'import pip, setuptools' 2>/dev/null; then
        cp -R "$SRCDIR/runtime/python" "$scratch/python"
        chmod -R u+w "$scratch/python"
        ok "pip install ./runtime/python" "$python" -m pip install --quiet --no-index --no-build-isolation --no-deps \
            --target "$scratch/pip" "$scratch/python"
        MAINSTEM_LIB=$libdir/libmainstem.so.0
        export MAINSTEM_LIB
        ok "the module that pip installed" module "$scratch/pip"
    fi
fi

echo "install: $passed passed, $failed failed"
[ $failed -eq 0 ]
