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
done
echo "models: $passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
