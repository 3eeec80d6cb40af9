#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The Python module against torch's own result, on a GPU. Exits 77 where there is no GPU or no torch.
set -u
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
MAINSTEM_LIB=$BUILDDIR/.libs/libmainstem.so
PYTHONDONTWRITEBYTECODE=1
export MAINSTEM_LIB PYTHONDONTWRITEBYTECODE
exec python3 "$SRCDIR/tests/gpu/python_torch.py" "$@"
