#!/usr/bin/env bash
# assay jitter: the oracle's own batch pass is foretold, each changed token has an op, and a wrong reduce is no forecast.
set -u
fail() { echo "check_jitter: $*"; exit 1; }
tmp=$ASSAY_TEST_TMP
"$ASSAY" jitter --model tiny-dense-int4g128 --json >"$tmp/jitter.json" || fail "status $?, not 0"
python3 - "$tmp/jitter.json" <<'PY' || exit 1
import json, sys
o = json.load(open(sys.argv[1]))
assert (o["prompts"], o["changed"]) == (32, 5), o
assert (o["alone_foretold"], o["batch_foretold"], o["batch_recorded"]) == (32, 32, 32), o
place = {c["prompt"]: (c["position"], c["step"], c["layer"], c["op"]) for c in o["changes"]}
assert place["p01"] == (16, 0, 0, "gate_up_proj"), place
assert place["p05"] == (27, 0, 3, "qkv_proj"), place
for c in o["changes"]: # only linears know how many rows there are, and the answers differ
    assert c["op"].endswith("_proj") and c["rows_differ"] >= 1 and c["rows_batch"] > c["rows_alone"], c
    assert c["alone_id"] != c["batch_id"] and c["gap_ulp"] <= 1, c
PY
"$ASSAY" jitter reduce=f16 --model tiny-dense-int4g128 --battery smoke >"$tmp/wrong.txt"
[ $? = 1 ] || fail "a wrong reduce was taken for a forecast"
grep -q 'p02 .*NOT foretold' "$tmp/wrong.txt" || fail "the prompt is not named: $(cat "$tmp/wrong.txt")"
"$ASSAY" jitter speed=1 2>/dev/null
[ $? = 2 ] || fail "an unknown flag is no usage error"
"$ASSAY" jitter --battery none 2>/dev/null
[ $? = 4 ] || fail "a missing battery is not NO_EVIDENCE: $?"
