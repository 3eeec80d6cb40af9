# shellcheck shell=bash
# For the tests here, which source it: counts in n what was tried, in failed what was not as it should be.
n=0 failed=0

# expect STATUS 'pattern' arguments...: the pattern (extended, "" for any) must occur in what is printed.
expect() {
    local status=$1 pattern=$2 out got
    shift 2
    n=$((n + 1))
    out=$("$MAINSTEM" "$@" 2>&1 </dev/null)
    got=$?
    if [ $got != "$status" ] || { [ -n "$pattern" ] && ! grep -qE -- "$pattern" <<<"$out"; }; then
        echo "mainstem $*: exit $got, expected $status and /$pattern/; it said:"
        sed 's/^/    /' <<<"$out"
        failed=$((failed + 1))
    fi
}
