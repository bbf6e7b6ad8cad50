#!/usr/bin/env bash
# assay plan and assay vectors as a person uses them: figures, drawing, differences, refusals, and a damaged record.
set -u
fail() { echo "check_plan: $*"; exit 1; }
says() { # status, text, command...
    want=$1 text=$2
    shift 2
    out=$("$@" 2>&1)
    rc=$?
    [ $rc = "$want" ] || fail "status $rc, not $want: $*: $out"
    case $out in *"$text"*) ;; *) fail "\"$text\" is not said by: $*: $out" ;; esac
}
tmp=$ASSAY_TEST_TMP
small="--m 8 --n 1024 --k 5120 --format nvfp4 --gpu gb10"
# shellcheck disable=SC2086
{
    says 0 '144 CTAs = 48 SMs x 3; 128 have work' "$ASSAY" plan --route grouped $small --svg "$tmp/a.svg"
    says 0 '48 CTAs = 48 SMs x 1; 46 have work' "$ASSAY" plan --route dense $small
    says 0 'evidence: compiled' "$ASSAY" plan --route dense $small
    says 0 'evidence: documented' "$ASSAY" plan --route dense $small --gpu l40s
    says 0 'tile: k-tiles of 64' "$ASSAY" plan --route grouped $small --against 'gpu=h200 m=8 n=1024 k=5120 reduce=f16 route=par1'
    says 0 'The bytes are equal' "$ASSAY" plan --route dense $small --against 'route=dense'
    says 0 '"ctas_with_work":128' "$ASSAY" plan --route grouped $small --json
    says 2 'valid are a100, gb10' "$ASSAY" plan --route dense $small --gpu none
    says 2 'key=value is expected' "$ASSAY" plan --route dense $small --against 'speed=1'
}
[ "$(grep -c '<rect x=' "$tmp/a.svg")" = 128 ] || fail "the drawing does not hold 128 slices"
data=kernels/test/data/marlin
head -n 4 $data/cases.jsonl >"$tmp/cases.jsonl"
says 0 'PASS: 4 cases, 4 compared' "$ASSAY" vectors "$tmp/cases.jsonl" --raw $data/raw.bin.zst
sed 's/"sha256":"\(.\)\(.\)/"sha256":"\2\1/' "$tmp/cases.jsonl" >"$tmp/wrong.jsonl"
says 1 'FAIL' "$ASSAY" vectors "$tmp/wrong.jsonl"
grep -F '"raw":[0,' $data/cases.jsonl | sed 's/"sha256":"[0-9a-f]*/"sha256":"'"$(printf '0%.0s' {1..64})"'/' >"$tmp/first.jsonl"
{ printf 'X'; zstd -dcq $data/raw.bin.zst | tail -c +2; } >"$tmp/wrong.bin"
says 1 'row 0 column 0: got' "$ASSAY" vectors "$tmp/first.jsonl" --raw "$tmp/wrong.bin"
sed 's/,132,/,131,/' "$tmp/cases.jsonl" >"$tmp/grid.jsonl"
says 1 'observed was' "$ASSAY" vectors "$tmp/grid.jsonl"
sed 's/"sha256":"[^"]*",\?//' "$tmp/cases.jsonl" | sed 's/,}/}/' >"$tmp/none.jsonl"
says 4 'NO_EVIDENCE 4' "$ASSAY" vectors "$tmp/none.jsonl"
echo '{"id":1}' >"$tmp/bad.jsonl"
says 3 'bad.jsonl:1' "$ASSAY" vectors "$tmp/bad.jsonl"
says 0 '"mismatches":0' "$ASSAY" vectors "$tmp/cases.jsonl" --scalar --json
echo "assay plan and vectors: ok"
