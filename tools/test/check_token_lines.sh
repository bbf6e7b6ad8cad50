#!/usr/bin/env bash
# Lines for people say what the tokens read, on both sides, and keep saying ids when there is no tokenizer.
set -u
tmp=$ASSAY_TEST_TMP
db=$tmp/t.db
bad=0
expect() { # STATUS PATTERN ARGUMENTS...
    local status=$1 pattern=$2 out rc
    shift 2
    out=$("$ASSAY" "$@" --store "$db" 2>&1)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qE -- "$pattern" <<<"$out"; then
        printf 'assay %s: status %s (wanted %s), wanted "%s", said:\n%s\n' "$*" $rc "$status" "$pattern" "$out"
        bad=1
    fi
}
quoted='[0-9]+ "([^"\\]|\\.)+"'
golden=tiny-dense-nvfp4.strict
run=(--model tiny-dense-nvfp4 --battery strict)
python3 - "$tmp/other.jsonl" <<'EOF'
import json, sys
with open(sys.argv[1], "w") as f:
    for p in json.load(open("batteries/strict.json"))["prompts"]:
        print(json.dumps({"prompt": p["name"], "ids": [198] * 64}), file=f)
EOF
expect 0 'tokens +1640/2048' run --engine "replay:goldens/$golden.graph.jsonl.zst" "${run[@]}"
expect 0 "strict: p[0-9]+ token [0-9]+: [A-Z_]+: got $quoted, oracle $quoted, gap" show 1
expect 1 "got 198 \"\\\\t\", oracle $quoted" run --engine "replay:$tmp/other.jsonl" "${run[@]}"
expect 1 "first at [0-9]+: $quoted -> 198 \"\\\\t\"" diff 1 2
expect 1 '"prompts_changed":32' diff 1 2 --json
exit $bad
