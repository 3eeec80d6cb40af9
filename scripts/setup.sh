#!/usr/bin/env bash
# Sourced by demo.sh and check.sh: finds or installs what a build needs, configures and builds.
#   setup_tools      packages that are missing (Debian, Ubuntu; elsewhere says what to install)
#   setup_cuda       sets CUDA to a toolkit, or to the parts that NVRTC needs, from PyPI
#   setup_build DIR [configure arguments]
# Nothing is installed that is already there. CUDA=DIR in the environment names a toolkit.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# command or header | Debian package
needs='
gcc gcc
g++ g++
make make
flex flex
bison bison
autoconf autoconf
automake automake
libtoolize libtool
pkg-config pkg-config
xz xz-utils
python3 python3
/usr/include/jansson.h libjansson-dev
/usr/include/xxhash.h libxxhash-dev
/usr/include/uthash.h uthash-dev
/usr/include/CUnit/Basic.h libcunit1-dev
'

missing_packages() {
    while read -r what package; do
        [ -n "$what" ] || continue
        case $what in
        /*) [ -e "$what" ] || echo "$package" ;;
        *) command -v "$what" >/dev/null 2>&1 || echo "$package" ;;
        esac
    done <<<"$needs$*"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo "$@"; else return 1; fi
}

# Arguments: further "what package" lines.
setup_tools() {
    local packages
    packages=$(missing_packages "$*" | sort -u | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        die "these Debian packages, or what your system calls them, are missing: $packages"
    say "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends $packages; } \
        >>"$top/setup.log" 2>&1 || { tail -n 5 "$top/setup.log" >&2; die "installing failed (setup.log); as root: apt-get install $packages"; }
}

has_nvrtc() {
    { compgen -G "$1/lib64/libnvrtc.so*" || compgen -G "$1/lib/libnvrtc.so*"; } >/dev/null && [ -e "$1/include/cuda_bf16.h" ]
}

setup_cuda() {
    local dir wheels=${XDG_CACHE_HOME:-$HOME/.cache}/mainstem/cuda
    for dir in "${CUDA:-}" /usr/local/cuda "$wheels/nvidia/cu13"; do
        [ -n "$dir" ] && has_nvrtc "$dir" && { CUDA=$dir; return 0; }
    done
    say "no CUDA Toolkit: fetching NVRTC and its headers from PyPI"
    setup_tools '
pip3 python3-pip'
    if python3 -m pip install -q --no-deps --disable-pip-version-check --root-user-action=ignore --upgrade --target "$wheels" \
        'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-crt==13.0.*' \
        >>"$top/setup.log" 2>&1 && has_nvrtc "$wheels/nvidia/cu13"; then
        CUDA=$wheels/nvidia/cu13
    else
        say "NVRTC could not be fetched (setup.log): kernels will be emitted but not compiled"
        CUDA=no
    fi
}

setup_build() {
    local dir=$1
    shift
    [ -x "$top/configure" ] && [ "$top/configure" -nt "$top/configure.ac" ] && [ "$top/configure" -nt "$top/Makefile.am" ] ||
        (cd "$top" && autoreconf -fi >autoreconf.log 2>&1) || { tail -n 20 "$top/autoreconf.log" >&2; die 'autoreconf failed (autoreconf.log)'; }
    mkdir -p "$dir"
    if [ ! -f "$dir/Makefile" ] || [ "$top/configure" -nt "$dir/config.status" ]; then
        (cd "$dir" && "$top/configure" -q --with-cuda="$CUDA" "$@" >configure.log 2>&1) ||
            { tail -n 20 "$dir/configure.log" >&2; die "configure failed ($dir/configure.log)"; }
    fi
    say "building in $dir"
    make -s -C "$dir" -j"${JOBS:-$(nproc)}" >"$dir/make.log" 2>&1 || { tail -n 40 "$dir/make.log" >&2; die "make failed ($dir/make.log)"; }
}
