#!/usr/bin/env bash
# The gate of a GPU machine: build, vectors, proofs, sanitizer, bench; writes kernels/cuda/results/GPU-STEP.json.
# Usage: gpu-gate.sh [STEP...]     steps: vectors equal steady atomic sanitizer bench (default: all)
#   VECTORS=DIR  a folder with cases.jsonl and raw.bin.zst (default: the shipped subset)    JOBS=N  processes for vectors
#   BINARY=FILE  an assay with libassay-cuda.so beside it (default: make cuda)                RESULTS=DIR
# Exit status: 0 all hold, 1 something does not, 4 no GPU or no nvcc.
set -u
cd "$(dirname "$0")/.."
root=$PWD
folder=${VECTORS:-$root/kernels/test/data/marlin} results=${RESULTS:-$root/kernels/cuda/results} jobs=${JOBS:-$(nproc)}
steps=${*:-vectors equal steady atomic sanitizer bench}
binary=${BINARY:-$root/build/assay}
[ -n "${BINARY:-}" ] || make -s cuda || exit 4
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1)
[ -n "$gpu" ] || { echo 'gpu-gate: NO_EVIDENCE: nvidia-smi shows no GPU' >&2; exit 4; }
name=$(printf '%s' "${gpu%%,*}" | tr -cs 'A-Za-z0-9' '-' | tr A-Z a-z | sed 's/^nvidia-//; s/-*$//')
commit=${COMMIT:-$(git rev-parse --verify HEAD 2>/dev/null || echo unknown)}
sources=$(cat $(ls kernels/cuda/*.cu kernels/cuda/*.cuh 2>/dev/null | LC_ALL=C sort) </dev/null | sha256sum | cut -c1-64)
mkdir -p "$results"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
worst=0

# note STEP STATUS FILE: wraps what a step printed with where and when it ran
note() {
    { printf '{"date": "%s", "gpu": "%s", "driver": "%s", "commit": "%s", "kernel_sources_sha256": "%s",\n' \
        "$(date -u +%FT%TZ)" "${gpu%%,*}" "${gpu##*, }" "$commit" "${SOURCES_SHA256:-$sources}"
      printf ' "step": "%s", "exit_status": %d, "result":\n' "$1" "$2"
      cat "$3"
      printf '}\n'; } >"$results/$name-$1.json"
    printf 'gpu-gate: %-9s exit %d\n' "$1" "$2"
    [ "$2" -gt "$worst" ] && worst=$2
}

step_vectors() { # cases are dealt out in runs, so that neighbours share their weights
    split -n "l/$jobs" "$folder/cases.jsonl" "$work/part."
    local build way rc=0 list=
    for build in ptx80 sm90; do for way in ${WAYS:-fast baseline}; do
        for part in "$work"/part.??; do
            "$binary" vectors "$part" --build "$build" --engine cuda --way "$way" --json >"$part.$build.$way.out" 2>&1 &
            list="$list $!"
        done
        for pid in $list; do wait "$pid"; s=$?; [ "$s" -gt "$rc" ] && rc=$s; done
        list=
    done; done
    { echo '['; cat "$work"/part.*.out | grep -h '"cases"' | sed '$!s/$/,/'; echo ']'; } >"$work/vectors.json"
    grep -h '"FAIL"\|NO_EVIDENCE' "$work"/part.*.out | grep -v '"cases"' | head -20
    note vectors "$rc" "$work/vectors.json"
}

step_prove() {
    "$binary" cuda prove "$1" --json >"$work/$1.json"
    note "$1" $? "$work/$1.json"
}

step_sanitizer() {
    command -v compute-sanitizer >/dev/null || { echo 'gpu-gate: sanitizer: NO_EVIDENCE: compute-sanitizer is not here'; worst=4; return; }
    local tool rc=0 s
    { echo '['
      for tool in memcheck initcheck synccheck racecheck; do
        # races are looked for in the shipped cases: on the proof's shapes racecheck takes very long
        what="cuda prove steady --quick"
        [ $tool != racecheck ] || what="vectors $folder/cases.jsonl --engine cuda --limit-macs 150000"
        timeout ${SANITIZE_SECONDS:-600} compute-sanitizer --tool $tool --error-exitcode 9 "$binary" $what >"$work/$tool" 2>&1
        s=$?
        [ $s = 0 ] || rc=1
        printf ' {"tool": "%s", "exit_status": %d, "summary": "%s"}%s\n' $tool $s \
            "$(grep 'SUMMARY' "$work/$tool" | head -1 | sed 's/=* *//; s/"//g')" "$([ $tool = racecheck ] || echo ,)"
      done
      echo ']'; } >"$work/sanitizer.json"
    [ $rc = 0 ] || head -40 "$work"/*check
    note sanitizer "$rc" "$work/sanitizer.json"
}

step_bench() {
    local rc
    "$binary" bench cuda --json >"$work/bench.line"
    rc=$?
    sed 's/},{/},\n{/g' "$work/bench.line" >"$work/bench.json"
    note bench $rc "$work/bench.json"
}

for step in $steps; do
    case $step in
    vectors|sanitizer|bench) "step_$step" ;;
    equal|steady|atomic) step_prove "$step" ;;
    *) echo "gpu-gate: no step $step: vectors equal steady atomic sanitizer bench" >&2; exit 2 ;;
    esac
done
exit $worst
