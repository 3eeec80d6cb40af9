#!/usr/bin/env bash
# Which directory may include which: the dependency rule of docs/architecture.md, plus a few house rules.
set -u
cd "${SRCDIR:-.}" || exit 99
fail=0
complain() { echo "$*"; fail=1; }
# What flex and bison wrote is not ours to judge; a tarball has it beside its sources.
generated='(^|[ /])(lexer|parser)\.[ch](:|$)'

# directory | what its files may include besides themselves
rules='
src/base|
src/ast|base
src/ir|base ops runtime
src/ops|base ir runtime
grammar|base ast
src/sema|base ast ir ops
src/costs|base ir ops runtime
src/pass|base ir ops costs lanes runtime
src/lanes|base runtime
src/inject|base lanes runtime
src/verify|base runtime
src/cpu|base ops runtime
src/emit|base ir ops pass lanes runtime
src/report|base ir ops pass lanes emit runtime
src/cli|*
src|*
runtime|
'
while IFS='|' read -r dir allowed; do
    [ -n "$dir" ] && [ "$allowed" != '*' ] || continue
    own=${dir#src/}
    [ -d "$dir" ] || continue
    while IFS=: read -r file line text; do
        inc=$(sed -E 's/.*#[ ]*include[ ]*"([^"]*)".*/\1/' <<<"$text")
        case $inc in
        */*) layer=${inc%%/*} ;;
        config.h) continue ;;
        *) # a neighbour
            [ -e "$(dirname "$file")/$inc" ] || case $inc in lexer.h | parser.h | headers.h) ;; *) complain "$file:$line: '$inc' is not beside the file" ;; esac
            continue ;;
        esac
        case " $own $allowed " in
        *" $layer "*) ;;
        *) complain "$file:$line: $dir may not include $inc" ;;
        esac
    done < <(find "$dir" -name '*.[chly]' -o -name '*.def' | grep -vE "$generated" | xargs -r grep -nE '^[ ]*#[ ]*include[ ]*"' /dev/null | sort)
done <<<"$rules"

# Files stay under 600 lines.
while read -r lines file; do
    [ "$file" = total ] || [ "$lines" -le 600 ] || complain "$file: $lines lines (600 at most)"
done < <(find grammar src runtime tests examples scripts \( -name '*.[chly]' -o -name '*.cuh' -o -name '*.cu' -o -name '*.py' -o -name '*.sh' -o -name '*.js' \) | grep -vE "$generated" | xargs wc -l)

# Only the command line prints and exits; only the compiler's own bugs abort.
while IFS=: read -r file line text; do
    case $file in
    src/cli/* | src/base/arena.c) continue ;;
    esac
    complain "$file:$line: a library does not print or exit: $text"
done < <(grep -rnE '(^|[^_a-zA-Z>.])(printf|puts|putchar|perror|exit|_exit)[ ]?\(' src runtime grammar --include='*.[chly]' | grep -vE "$generated" |
    grep -vE ':[ ]*(\*|//|/\*)|__attribute__|"[^"]*(printf|exit)[ ]?\(')
while IFS=: read -r file line text; do
    complain "$file:$line: the runtime never aborts: $text"
done < <(grep -rnE '(^|[^_a-zA-Z])(abort|assert)[ ]?\(' runtime --include='*.[ch]' | grep -vE ':[ ]*(\*|//|/\*)')

# Struct tags without typedefs.
while IFS=: read -r file line text; do
    complain "$file:$line: no typedef of a struct: $text"
done < <(grep -rnE '^[ ]*typedef (struct|union|enum)' src runtime grammar --include='*.[chly]' | grep -vE "$generated" | grep -v 'runtime/cuda_abi.h')

[ $fail = 0 ] && echo 'layers, sizes, printing: as they should be'
exit $fail
