#!/usr/bin/env bash
# Every command line of the documents: it has the options that it is written with, and where no GPU is needed it does what is
# said. Lines that begin with `mainstem` in the Markdown, up to the words that explain them.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}" "${BUILDDIR:?}"
work=$BUILDDIR/tests/scratch/docs
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 99
export MAINSTEM_CACHE=$work/cache MAINSTEM_LIBCUDA=/nowhere
unset MAINSTEM_COSTS
case $SRCDIR in /*) ;; *) SRCDIR=$OLDPWD/$SRCDIR ;; esac

# What the documents call their files.
ln -s "$SRCDIR/examples" examples
sed 's/LAYERS = 61, SETS = 16/LAYERS = 3, SETS = 1/; s/HIDDEN = 7168/HIDDEN = 128/; s/EXPERTS = 384/EXPERTS = 8/; s/TOPK = 8/TOPK = 2/' \
    examples/dual_stream_moe.stem >model.stem
cp model.stem old.stem
cp model.stem new.stem
"$MAINSTEM" compile -q model.stem -o . --emit=plan,dot,trace || exit 99
for name in plan.json A.plan.json B.plan.json A B; do cp dual_stream_moe.plan.json $name; done
cp dual_stream_moe.dot graph.dot
cp dual_stream_moe.trace.json moe.json
echo '{"mainstem_costs":1,"gpus":[]}' >costs.json
# The tutorial's programs have the names of their modules.
awk '/^```stem$/ { getline; file = $2; sub(";", ".stem", file); print >file; next } /^```/ { file = "" } file { print >file }' \
    "$SRCDIR/docs/tutorial.md"
"$MAINSTEM" compile -q two.stem -o . --emit=trace || exit 99
cp two.trace.json two.json
${CC:-cc} -shared -fPIC -I "$SRCDIR/runtime" -o rotate_rows.so examples/rotate_rows.c || exit 99

n=0 failed=0
while read -r line; do
    case $line in
    *' relane '* | *' audit '*) continue ;; # of programs that are not here: relane.sh
    esac
    n=$((n + 1))
    # shellcheck disable=SC2086
    out=$("$MAINSTEM" ${line#mainstem } 2>&1 </dev/null)
    status=$?
    case $status:$line:$out in
    0:*) ;;
    4:*' diff '*) ;; # they differ
    3:*'no CUDA driver: '*) ;;
    *)
        echo "$line: exit $status: $(tail -n 3 <<<"$out")"
        failed=$((failed + 1))
        ;;
    esac
done < <(cat "$SRCDIR"/README.md "$SRCDIR"/docs/*.md "$SRCDIR"/examples/*.md "$SRCDIR"/examples/models/*.md | grep -E '^( {4})?mainstem [a-z]' |
    sed -E 's/^ *//; s/  +.*//; s/ +#.*//; s/ (Perfetto|measure ops).*//; s/\|[^ ]*//g; s/ \[NAME\]//' | sort -u)
echo "docs: $((n - failed)) of $n command lines"
[ $failed = 0 ] && [ $n -gt 30 ]
