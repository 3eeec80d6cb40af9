#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints C that holds the templates of emitted host code: embed_text.sh SRCDIR FILE...   Each FILE is looked up here, then
# in SRCDIR; its text becomes `const char stem_host_NAME[]`, NAME being the file's name up to its first dot. Arrays of
# numbers, because compilers limit the length of string literals.
set -eu
srcdir=$1
shift
echo '/* Made by scripts/embed_text.sh from the .in files. */'
echo '#include "emit/host_text.h"'
for f; do
    test -f "$f" || f=$srcdir/$f
    name=$(basename "$f")
    echo "const char stem_host_${name%%.*}[] = {"
    od -An -v -tu1 "$f" | awk '{ gsub(/^ +/, ""); gsub(/ +/, ","); print $0 "," }'
    echo '0};'
done
