#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints C that holds text files: embed.sh SRCDIR FILE...   Each FILE is looked up here, then in SRCDIR.
# Arrays of numbers, because compilers limit the length of string literals.
set -eu
srcdir=$1
shift
echo '/* Made by scripts/embed.sh from the .cuh files. */'
echo '#include "ops/headers.h"'
names=
for f; do
    test -f "$f" || f=$srcdir/$f
    name=$(basename "$f" .cuh)
    names="$names $name"
    echo "static const unsigned char text_$name[] = {"
    od -An -v -tu1 "$f" | awk '{ gsub(/^ +/, ""); gsub(/ +/, ","); print $0 "," }'
    echo '0};'
done
echo 'const struct stem_header stem_headers[] = {'
for name in $names; do
    echo "    {\"$name\", (const char *)text_$name},"
done
echo '    {0, 0},'
echo '};'
