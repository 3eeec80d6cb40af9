#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The report in a headless Chromium: size, loading, drawing, for 61 layers and for about 10 000 ops, unfolded. Prints and asserts
# nothing: times are this machine's. `report.sh BUILD [FILE.stem...]` adds reports of other programs.
set -eu
build=${1:?the build folder}
shift
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$top/examples/dual_stream_moe.stem
make_page() { "$build/mainstem" report --no-warnings "$2" --dim T=4 -o "$work/$1.html" $3 >/dev/null; }
make_page layers61 "$model" '--no-fuse'
make_page ops10008 "$model" '--no-fuse -D LAYERS=1112'
pages="$work/layers61.html $work/ops10008.html"
for file; do
    name=$(basename "$file" .stem)
    "$build/mainstem" report --no-warnings "$file" -o "$work/$name.html" >/dev/null
    pages="$pages $work/$name.html"
done
# shellcheck disable=SC2086 # the paths have no blanks
exec python3 -B "$here/report.py" $pages
