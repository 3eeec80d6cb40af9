#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# docs/tutorial.md, step by step as a reader does it, without a GPU: its files, its commands, what they print.
# UPDATE=1 puts what they print into the document.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}" "${BUILDDIR:?}"
command -v python3 >/dev/null 2>&1 || { echo 'skipped: no python3'; exit 77; }
case $SRCDIR in /*) ;; *) SRCDIR=$PWD/$SRCDIR ;; esac
case $MAINSTEM in /*) ;; *) MAINSTEM=$PWD/$MAINSTEM ;; esac
export MAINSTEM
work=$BUILDDIR/tests/scratch/tutorial
rm -rf "$work" && mkdir -p "$work/bin" "$work/here" && cd "$work/here" || exit 99
work=${PWD%/here}
# shellcheck disable=SC2016
printf '#!/bin/sh\nexec "$MAINSTEM" "$@"\n' >"$work/bin/mainstem" && chmod +x "$work/bin/mainstem" || exit 99
export PATH=$work/bin:$PATH MAINSTEM_CACHE=$work/cache MAINSTEM_LIBCUDA=/nowhere PYTHONDONTWRITEBYTECODE=1
# The document shows drawings as a terminal of UTF-8 does, and what they are without measured costs.
export LC_ALL=C.UTF-8
unset MAINSTEM_COSTS
what=check
[ "${UPDATE:-}" = 1 ] && what=update
exec python3 "$SRCDIR/tests/cli/tutorial.py" $what "$SRCDIR/docs/tutorial.md"
