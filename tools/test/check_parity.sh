#!/usr/bin/env bash
# The promise of the README: on route dense, ids and every recorded logit of vLLM on an H200, bit for bit.
set -u
store=${ASSAY_TEST_TMP:-/tmp}/parity.db
fail=0
check() { # model battery rows [golden flag]
    # shellcheck disable=SC2086
    "$ASSAY" run --engine native ${5:-} --golden "${4:-eager}" --model "$1" --battery "$2" --store "$store" --json 2>/dev/null | python3 -c '
import json, sys
o, name, rows = json.load(sys.stdin), sys.argv[1], int(sys.argv[2])
l = o["logits"]
good = (o["verdict"] == "PASS" and o["exit"] == 0 and o["prompts_exact"] == o["prompts"] and o["tokens_equal"] == o["tokens"] == rows
        and l["decode_rows"] == l["decode_rows_equal"] == rows and l["prefill_rows"] == l["prefill_rows_equal"] == rows
        and all(c["ran"] == c["expected"] for c in o["counters"].values()) and not o["roots"])
print(("ok     " if good else "FAILED ") + name, o["tokens_equal"], "of", o["tokens"], l)
sys.exit(not good)' "$1 $2 ${4:-eager}" "$3" || fail=1
}
for m in dense-nvfp4 dense-mxfp4 dense-int4g128 moe-nvfp4 moe-mxfp4 moe-int4g128; do check "tiny-$m" smoke 96; done
check tiny-moe-nvfp4 strict 2048 # with the hash of every full row
# the oracle's arm with 16-bit reduction, foretold as well
check tiny-moe-nvfp4 strict 2048 reduce16 reduce=f16
# the same battery, wrong on purpose
for mutant in row_shifted_stride rope_off_by_one tensor_core_8_8; do
    out=$("$ASSAY" run --engine native "mutant=$mutant" --model tiny-dense-int4g128 --battery smoke --store "$store" --json 2>/dev/null)
    echo "$out" | python3 -c '
import json, sys
o = json.load(sys.stdin); l = o["logits"]
seen = o["verdict"] == "FAIL" or l["decode_rows_equal"] < l["decode_rows"]
print(("ok     " if seen else "FAILED ") + "mutant " + sys.argv[1], o["verdict"], l)
sys.exit(not seen)' "$mutant" || fail=1
done
exit $fail
