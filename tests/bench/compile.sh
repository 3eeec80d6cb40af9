#!/usr/bin/env bash
# How long compiling takes, without NVRTC, as the number of layers grows; and that it grows linearly.
# Prints a table in Markdown: best of 3 runs of the whole pipeline, verification included.
set -eu
: "${MAINSTEM:?}" "${SRCDIR:?}"
model=$SRCDIR/examples/dual_stream_moe.stem
echo '| layers | ops | compile | per op | verify | peak memory | slab |'
echo '|---|---|---|---|---|---|---|'
for layers in 61 610 2000 10000; do
    best=
    for _ in 1 2 3; do
        out=$("$MAINSTEM" compile "$model" -D LAYERS=$layers --dim T=4 --time-passes --no-warnings 2>&1)
        ms=$(awk '$1 == "all" { print $2 }' <<<"$out")
        if [ -z "$best" ] || awk "BEGIN { exit !($ms < $best) }"; then best=$ms keep=$out; fi
    done
    awk -v layers=$layers '
        $1 == "ops" { ops = $2 }
        $1 == "slab" { slab = $2 " " $3 }
        $1 == "verify" { verify = $2 }
        $1 == "all" { all = $2; sub(/,/, "", $3); memory = $(NF - 1) " " $NF }
        END { printf "| %d | %d | %.1f ms | %.2f us | %.1f ms | %s | %s |\n", layers, ops, all, 1000 * all / ops, verify, memory, slab }
    ' <<<"$keep"
done
