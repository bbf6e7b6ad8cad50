#!/usr/bin/env bash
# Every CUDA verb on a machine without a GPU, or without the CUDA part: NO_EVIDENCE and exit status 4, never a pass.
set -u
bad=0
cases=kernels/test/data/marlin/cases.jsonl
# expect STATUS TEXT ARGUMENTS...: standard output and error together must hold TEXT
expect() {
    local status=$1 text=$2 out rc
    shift 2
    out=$("$ASSAY" "$@" 2>&1)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qF -- "$text" <<<"$out"; then
        printf 'assay %s: status %s (wanted %s), wanted "%s", said:\n%s\n' "$*" $rc "$status" "$text" "$out"
        bad=1
    fi
}
expect 0 'usage: assay cuda prove' cuda --help
expect 2 'prove [equal|steady|atomic] is expected' cuda
expect 2 'prove [equal|steady|atomic] is expected' cuda prove everything
expect 2 '--engine tpu: cpu or cuda is expected' vectors $cases --engine tpu
expect 2 '--way best: fast, strips, tiles or baseline is expected' vectors $cases --engine cuda --way best
expect 2 '--scalar belongs to --engine cpu' vectors $cases --engine cuda --scalar
if nvidia-smi >/dev/null 2>&1 && [ -f "$(dirname "$ASSAY")/libassay-cuda.so" ]; then
    expect 0 'PASS' vectors $cases --engine cuda
    expect 0 'PASS' cuda prove steady --quick
else
    expect 4 'NO_EVIDENCE' cuda prove
    expect 4 '"code":"E_MISSING"' cuda prove --json
    expect 4 'NO_EVIDENCE' vectors $cases --engine cuda
    expect 4 'NO_EVIDENCE' bench kernels --cuda
    expect 0 'absent  CUDA kernels' doctor
fi
said=$(make -s cuda NVCC= 2>&1)
[ $? != 0 ] && grep -q 'nvcc is not here' <<<"$said" || { echo "make cuda without nvcc said: $said"; bad=1; }
exit $bad
