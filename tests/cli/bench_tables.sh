#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The tables of tests/bench/: parsing, bars, jobs over GPUs, and models.py from end to end with a script for mainstem.
set -u
scratch=$BUILDDIR/tests/scratch/bench_tables
command -v python3 >/dev/null 2>&1 || { echo 'skipped: no python3'; exit 77; }
rm -rf "$scratch" && mkdir -p "$scratch" || exit 99
cat >"$scratch/mainstem" <<'EOF'
#!/bin/sh
# `bench`: for each T every way takes 2500 us, the floor is 1000.
json= dims= ways='one main' fail=
for a in "$@"; do
    case $a in
    --json=*) json=${a#*=} ;;
    T=*) dims=$(echo "${a#T=}" | tr , ' ') ;;
    --ways=*) ways=$(echo "${a#*=}" | tr , ' ') ;;
    -DFAIL=1) fail=1 ;;
    esac
done
[ "$1" = bench ] || exit 0
[ -z "$fail" ] || { echo 'it does not fit' >&2; exit 3; }
{
    printf '{"gpu": "G", "bandwidth": 4e12, "variants": ['
    comma=
    for t in $dims; do
        printf '%s{"dims": {"T": %d}, "floor_us": 1000, "experts": 8, "ways": [' "$comma" "$t"
        comma=
        for w in $ways; do
            printf '%s{"way": "%s", "us": 2500, "lanes_measured": 2, "lanes_predicted": 2, "same_bits": true}' "$comma" "$w"
            comma=,
        done
        printf ']}'
        comma=,
    done
    printf ']}\n'
} >"$json"
EOF
# `nvcc ... -DFORMAT=stem_nvfp4 ... -o PROGRAM`: a program that prints a line as formats.cu does.
cat >"$scratch/mainstem-nvcc" <<'EOF'
#!/bin/sh
for a in "$@"; do
    case $a in -DFORMAT=*) format=${a#*=stem_} ;; esac
    out=$a
done
cat >"$out" <<END
#!/bin/sh
echo '0 failures'
echo '${format:-none}  up     384x7168    mt1 s3 w8 b2      T=1    11.30 us  3800 GB/s  90.5 %   early   11.10 us  3820 GB/s  91.0 %'
END
chmod +x "$out"
EOF
chmod +x "$scratch/mainstem" "$scratch/mainstem-nvcc"
exec python3 -B "$SRCDIR/tests/bench/test_tables.py" "$scratch/mainstem" "$scratch"
