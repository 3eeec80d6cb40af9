#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The Python module with nothing but Python: the library is the one just built, the driver is the stand-in.
set -u
python=$(command -v python3) || { echo "skipped: no python3"; exit 77; }
if nm -D "$BUILDDIR/.libs/libmainstem.so" | grep -q '__[at]san_init'; then
    echo "skipped: a sanitizer's library cannot be loaded into Python"
    exit 77
fi
MAINSTEM_LIB=$BUILDDIR/.libs/libmainstem.so
STAND_IN=$BUILDDIR/.libs/libfakecuda.so
MAINSTEM_LIBCUDA=$STAND_IN MAINSTEM_NVRTC=$STAND_IN MAINSTEM_CACHE=
PYTHONPATH=$SRCDIR/runtime/python
PYTHONDONTWRITEBYTECODE=1
export MAINSTEM_LIB STAND_IN MAINSTEM_LIBCUDA MAINSTEM_NVRTC MAINSTEM_CACHE PYTHONPATH PYTHONDONTWRITEBYTECODE
exec "$python" "$SRCDIR/tests/python/test_module.py" "$@"
