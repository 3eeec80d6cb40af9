#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints C that holds text files: embed.sh HEADER TYPE TABLE SUFFIX SRCDIR FILE...
# TABLE is an array of struct TYPE {name, text}, declared in HEADER; a name is a file's base name without SUFFIX.
# Each FILE is looked up here, then in SRCDIR. Arrays of numbers, because compilers limit the length of string literals.
set -eu
header=$1 type=$2 table=$3 suffix=$4 srcdir=$5
shift 5
echo '/* Made by scripts/embed.sh. */'
echo "#include \"$header\""
names=
for f; do
    test -f "$f" || f=$srcdir/$f
    name=$(basename "$f" "$suffix")
    names="$names $name"
    echo "static const unsigned char text_$(echo "$name" | tr . _)[] = {"
    od -An -v -tu1 "$f" | awk '{ gsub(/^ +/, ""); gsub(/ +/, ","); print $0 "," }'
    echo '0};'
done
echo "const struct $type $table[] = {"
for name in $names; do
    echo "    {\"$name\", (const char *)text_$(echo "$name" | tr . _)},"
done
echo '    {0, 0},'
echo '};'
