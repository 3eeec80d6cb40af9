#!/usr/bin/env bash
# The models of examples/models at a small size: they run on the CPU device in other legal orders than their own, with
# poisoned memory, to the bits of the one-stream schedule; at full size they compile, and the plan is safe.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
dir=$SRCDIR/examples/models failed=0 passed=0

check() {
    local what=$1 out
    shift
    if out=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        echo "FAIL: $what: $*"
        sed 's/^/    /' <<<"$out"
        failed=$((failed + 1))
    fi
}

# Every op of a plan has a name of its own.
unique() {
    "$MAINSTEM" compile -q --no-warnings "$@" -o "$names" --emit=plan || return 1
    grep -hoE '^ \{"name":"[^"]*","kind":"[^"]*","stream"' "$names"/*.plan.json >"$names/ops" # one record on each line
    [ "$(grep -c . "$names/ops")" -gt 20 ] && [ -z "$(sort "$names/ops" | cut -d'"' -f4 | uniq -d)" ]
}
has() { grep -q "\"name\":\"$1\"" "$names/ops"; }
names=$(mktemp -d) || exit 99
trap 'rm -rf "$names"' EXIT

# Each .md says how to make the model small: the -D of its lines `mainstem run`.
for model in "$dir"/*.stem; do
    name=$(basename "$model" .stem)
    while read -r small; do
        # shellcheck disable=SC2086
        check "$name, small" "$MAINSTEM" run "$model" $small --device=cpu --dim T=1,4 --orders=3
        # shellcheck disable=SC2086
        check "$name, small, without fusion" "$MAINSTEM" run "$model" $small --device=cpu --dim T=3 --no-fuse
    done < <(sed -n "s|^    mainstem run examples/models/$name.stem||p" "${model%.stem}.md")
    check "$name, whole" "$MAINSTEM" verify "$model" --dim T=1,64
    rm -f "$names"/*.json
    check "$name, names" unique "$model"
    check "$name, names without fusion" unique "$model" --no-fuse
done
rm -f "$names"/*.json
check 'names of a sum around a call' unique "$dir/kimi_k25_rank.stem"
check 'that is part of an attention' has 'attention\[3\].out'
check 'that is part of experts' has 'moe\[3\].out\[0\]'
echo "models: $passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
