#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Waits that the compiler adds to save lanes (--lane-repair) do so on the device: programs in side-first order, without
# and with such waits, recorded and built node by node. The lanes measured must be those predicted, and fewer with waits;
# the bits those of the one-stream schedule. Exits 77 where there is no GPU.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
if ! "$SRCDIR/scripts/has_gpu.sh"; then
    echo 'skipped: no GPU'
    exit 77
fi
small='-D SETS=2 -D HIDDEN=512 -D EXPERTS=32 -D TOPK=4 -D INTER=64'
failed=0
echo '| program | by | lanes without waits | with waits |'
echo '|---|---|---|---|'
while read -r file options; do
    for by in capture nodes; do
        row=
        for repair in never always; do
            # `run --audit` fails where lanes are more than streams: what it prints is looked at instead.
            # shellcheck disable=SC2086
            out=$("$MAINSTEM" run "$SRCDIR/$file" $options --device=gpu --pdl=off --order=side-first --iters=3 \
                --lane-repair=$repair --by=$by --audit 2>&1)
            if ! grep -qE '^ +lanes +([0-9]+) measured \(\1 to \1 .* \1 predicted' <<<"$out" ||
                ! grep -q '^ *same bits' <<<"$out"; then
                echo "FAIL: $file --by=$by --lane-repair=$repair"
                sed 's/^/    /' <<<"$out"
                failed=1
            fi
            row+=" $(sed -nE 's/^ +lanes +([0-9]+) measured.*/\1/p' <<<"$out") |"
        done
        echo "| $file | $by |$row"
        # shellcheck disable=SC2086
        set -- ${row//|/}
        [ "${1:-0}" -gt "${2:-0}" ] || { echo "FAIL: $file: waits save nothing"; failed=1; }
    done
done <<EOF
tests/cases/c01_dual_branch.stem
tests/cases/c06_shared_source.stem
examples/dsa_indexer.stem
examples/dual_stream_moe.stem $small --dim T=4
examples/qkv_three_streams.stem
EOF
exit $failed
