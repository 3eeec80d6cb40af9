#!/usr/bin/env bash
# Streams that the compiler chooses, by costs measured in the same run, against one stream and against those that the file
# pins: every example, T = 1, 4, 16, 64, as a table in Markdown. Exits 1 if a chosen schedule is more than 1 % slower than one
# stream. Needs a GPU, MAINSTEM and SRCDIR; EXAMPLES, TOKENS, ITERS, SECONDS_TO_TUNE narrow it.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
examples=${EXAMPLES:-"dual_stream_moe qkv_three_streams dsa_indexer gqa_decode inline_kernel piecewise"}
tokens=${TOKENS:-1,4,16,64}
limit=1.01

echo "| example | T | one stream (us) | pinned | chosen | chosen / one stream | chosen / pinned | streams |"
echo "|---|---|---|---|---|---|---|---|"
status=0
for e in $examples; do
    model=$SRCDIR/examples/$e.stem
    dims=$(grep -qE '^dim +T in 1\.\.64' "$model" && echo "--dim=T=$tokens")
    # shellcheck disable=SC2086
    "$MAINSTEM" tune "$model" $dims --seconds="${SECONDS_TO_TUNE:-60}" -o "$work/costs.json" >"$work/tune" 2>&1 || { cat "$work/tune"; status=3; continue; }
    # shellcheck disable=SC2086
    "$MAINSTEM" bench "$model" $dims --iters="${ITERS:-50}" --ways=one,main,chosen --costs="$work/costs.json" >"$work/bench" 2>&1 || { cat "$work/bench"; status=3; }
    awk -v e="$e" -v limit=$limit -F'|' '
        function us(s) { sub(/^ */, "", s); return s + 0 }
        /^[a-z].*, driver/ { t = "-"; if (match($0, /T = [0-9]+/)) t = substr($0, RSTART + 4, RLENGTH - 4) }
        $3 ~ /captured/ {
            if ($2 ~ /^ one stream $/) one = us($11)
            if ($2 ~ /^ main-first $/) pinned = us($11)
            if ($2 ~ /^ chosen streams $/) {
                chosen = us($11)
                printf "| %s | %s | %.1f | %.1f | %.1f | %.3f | %.3f | %d |\n", e, t, one, pinned, chosen, chosen / one, chosen / pinned, $7
                if ($7 > 1 && chosen > limit * one) bad = 1 # one stream is the very same schedule: what differs is noise
            }
        }
        END { exit bad }' "$work/bench" || status=1
done
[ $status = 1 ] && echo && echo "A chosen schedule is more than 1 % slower than one stream."
exit $status
