#!/usr/bin/env bash
# assay bisect: every planted mutant at its op; traces of a GPU and of this machine; what is wrong with a file is told.
set -u
tmp=$ASSAY_TEST_TMP
export ASSAY_STORE=$tmp/store.db
data=harness/test/data
failed=0
fail() { echo "$*"; failed=1; }
status() { # STATUS ARGS...: runs assay bisect, output in $tmp/out
    local want=$1 rc
    shift
    "$ASSAY" bisect "$@" >"$tmp/out" 2>"$tmp/err"
    rc=$?
    [ $rc = "$want" ] || { fail "bisect $*: exit status $rc, wanted $want"; head -n 3 "$tmp/out" "$tmp/err"; }
}
says() { grep -qF -- "$1" "$tmp/out" "$tmp/err" || { fail "not said: $1"; head -n 12 "$tmp/out" "$tmp/err"; }; }

# Mutants: python3 judges the JSON, so that the ops are named by the file and not by the eye.
"$ASSAY" mutants --list --json >"$tmp/mutants.json" || fail 'no list of mutants'
python3 - "$tmp/mutants.json" <<'PY' >"$tmp/jobs"
import json, os, sys
slow = {"tensor_core_f24", "tensor_core_f26"}  # scalar: a minute
for m in json.load(open(sys.argv[1])):
    if m["mutant"] not in slow and os.path.exists("kernels/mutants/mutant_%s.c" % m["mutant"]):
        print(m["mutant"], m["where"], int(m["control"]))
PY
while read -r mutant where control; do
    prompt=p01 steps=1
    [ "$mutant" = tensor_core_8_8 ] && prompt=p04 steps=4
    [ "$where" = engine ] && prompt=p00
    "$ASSAY" bisect --arm native --arm native "mutant=$mutant" --model tiny-dense-nvfp4 --battery batteries/smoke.json \
        --prompt $prompt --steps $steps --json \
        >"$tmp/out" 2>"$tmp/err"
    python3 - "$mutant" "$where" "$control" $? "$tmp/out" <<'PY' || failed=1
import json, sys
name, where, control, rc, path = sys.argv[1], sys.argv[2], sys.argv[3] == "1", int(sys.argv[4]), sys.argv[5]
o = json.load(open(path))
gemms = {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
wrong = {k["op"] for k in o["wrong_by_itself"]}
first = o["first"] and o["first"]["op"]
if control:
    good = rc == 0 and not o["found"] and first is None and not wrong
elif name == "rope_off_by_one":
    good = rc == 1 and first == "rotary_q" and wrong == {"rotary_q", "rotary_k"} and \
        all(k["wrong"] == k["places"] for k in o["wrong_by_itself"])
elif where == "engine":
    good = rc == 1 and o["free_run"] and o["emission"] and first == ("embed" if name == "dropped_bos" else None)
else:
    good = rc == 1 and first in gemms and wrong and wrong <= gemms
if not good:
    print("mutant %s (%s): exit status %d, first %s, wrong by itself %s" % (name, where, rc, first, sorted(wrong)))
sys.exit(not good)
PY
done <"$tmp/jobs"
[ "$(wc -l <"$tmp/jobs")" -ge 16 ] || fail 'fewer mutants than there should be'

# A GPU's trace: this machine gives its bytes; a mutant, another model and a changed bit do not.
gpu=$data/tiny-dense-int4g128.smoke.p01.trace.safetensors.zst
status 0 --trace $gpu --arm native --model tiny-dense-int4g128
says 'first     none: every op gives the same bytes'
status 1 --trace $gpu --arm native mutant=rope_off_by_one --model tiny-dense-int4g128 --html "$tmp/b.html" --svg "$tmp/b.svg"
says 'first     step 0 (the prompt, 21 rows), layer 0, rotary_q:'
grep -qE '^ +rotary_k +([0-9]+) of \1 places' "$tmp/out" || fail 'not every rotary_k is named'
python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$tmp/b.svg" || fail 'the drawing is no XML'
grep -q '<h2>Other bytes for the same inputs' "$tmp/b.html" || fail 'the page lacks its table'
! grep -qE 'https?://[^"]*' <(sed 's|http://www.w3.org/2000/svg||g' "$tmp/b.html") || fail 'the page names a network address'
status 1 --trace $gpu --arm native --model tiny-dense-nvfp4
says 'layer 0, qkv_proj:'

# One machine's log on another: what was recorded here compares equal, and in one flipped bit it does not.
status 0 --record "$tmp/r.safetensors" --arm native --model tiny-moe-nvfp4 --prompt p03 --steps 2
cp "$tmp/r.safetensors" "$tmp/first"
status 0 --record "$tmp/r.safetensors" --arm native --model tiny-moe-nvfp4 --prompt p03 --steps 2
cmp -s "$tmp/first" "$tmp/r.safetensors" || fail 'recorded twice, the bytes differ'
status 0 --trace "$tmp/r.safetensors" --arm native
status 1 --trace "$tmp/r.safetensors" --arm native route=grouped reduce=f16
says 'qkv_proj'
python3 - "$tmp/r.safetensors" "$tmp/flipped.safetensors" <<'PY'
import json, struct, sys
d = bytearray(open(sys.argv[1], "rb").read())
n = struct.unpack("<Q", d[:8])[0]
at = json.loads(d[8:8 + n])["step1/model.layers.2.self_attn.o_proj/out0"]["data_offsets"][0]
d[8 + n + at + 6] ^= 1
open(sys.argv[2], "wb").write(d)
PY
status 1 --trace "$tmp/flipped.safetensors" --arm native --json
python3 - "$tmp/out" <<'PY' || fail 'a flipped bit of a trace is not found at its place'
import json, sys
o = json.load(open(sys.argv[1]))
f, w = o["first"], o["wrong_by_itself"]
assert (f["step"], f["layer"], f["op"], f["differ"], f["max_ulp"]) == (1, 2, "o_proj", 1, 1), f
assert (f["element"]["row"], f["element"]["column"]) == (0, 3), f
# The next op reads the flipped bit from the trace, so it differs from what the trace holds.
assert w[0]["op"] == "o_proj" and w[0]["wrong"] == 1, w
PY
if python3 -c 'import jsonschema' 2>/dev/null; then
    python3 - "$tmp/out" <<'PY' || fail 'the JSON does not keep its schema'
import json, sys, jsonschema
schema = json.load(open("reports/schema/assay-bisect-1.json"))
jsonschema.Draft202012Validator.check_schema(schema)
o = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator(schema).validate(o)
o["first"]["layer"] = "two"
assert not jsonschema.Draft202012Validator(schema).is_valid(o)
PY
else
    fail 'python3-jsonschema is not here: apt-get install python3-jsonschema'
fi

# Files and words that are no good: one line, a status.
head -c 100000 "$tmp/r.safetensors" >"$tmp/cut.safetensors"
status 3 --trace "$tmp/cut.safetensors" --arm native
says 'cut.safetensors:'
head -c 200000 $gpu >"$tmp/cut.safetensors.zst"
status 3 --trace "$tmp/cut.safetensors.zst" --arm native --model tiny-dense-int4g128
says 'cut.safetensors.zst:'
status 4 --trace "$tmp/none.safetensors" --arm native --model tiny-dense-int4g128
status 4 --trace "$tmp/r.safetensors" --arm native --model tiny-dense-nvfp4
says 'was recorded with model tiny-moe-nvfp4'
status 3 --trace batteries/models/tiny-moe-nvfp4/model.safetensors --arm native --model tiny-moe-nvfp4
says 'step0/model.embed_tokens/in0'
status 4 --arm native --arm native --model tiny-dense-nvfp4 --prompt nosuch
status 2 --arm native --model tiny-dense-nvfp4
status 2 --arm native --arm native --arm native --model tiny-dense-nvfp4
says 'at most two arms'
status 2 --arm native --arm native route=sideways --model tiny-dense-nvfp4
status 3 --arm "replay:goldens/tiny-dense-nvfp4.strict.graph.jsonl.zst" --arm native --model tiny-dense-nvfp4 --battery strict
says 'has no taps'
status 0 --help
exit $failed
