#!/usr/bin/env bash
# Runs every test program and script; prints one line each and the closing count. Usage: run-checks.sh BUILD CHECK...
# A script exits 0 (passed), 77 (NO_EVIDENCE: said why, counted apart) or anything else (failed).
set -u
build=$1
shift
passed=0 failed=0 absent=0
export ASSAY="$build/assay" ASSAY_TEST_TMP
for c in "$@"; do
    ASSAY_TEST_TMP=$(mktemp -d)
    start=$(date +%s)
    out=$("./$c" 2>&1 </dev/null)
    rc=$?
    seconds=$(($(date +%s) - start))
    rm -rf "$ASSAY_TEST_TMP"
    # Check's own line: "100%: Checks: 12, Failures: 0, Errors: 0"
    n=$(printf '%s\n' "$out" | sed -n 's/^[0-9]*%: Checks: \([0-9]*\),.*/\1/p' | tail -n 1)
    bad=$(printf '%s\n' "$out" | sed -n 's/^[0-9]*%: Checks: [0-9]*, Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2/p' |
        awk '{s += $1 + $2} END {print s + 0}')
    if [ $rc = 77 ]; then
        absent=$((absent + 1))
        printf 'NO_EVIDENCE  %s: %s\n' "$c" "$(printf '%s\n' "$out" | tail -n 1)"
    elif [ $rc = 0 ] && [ "$bad" = 0 ]; then
        passed=$((passed + ${n:-1}))
        printf 'ok    %4s s  %5s  %s\n' "$seconds" "${n:-1}" "$c"
    else
        passed=$((passed + ${n:-1} - (bad > 0 ? bad : 1)))
        failed=$((failed + (bad > 0 ? bad : 1)))
        printf 'FAILED (status %d)  %s\n%s\n' $rc "$c" "$out"
    fi
done
[ $absent = 0 ] || echo "NO_EVIDENCE: $absent (see above)"
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
