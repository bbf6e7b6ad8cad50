#!/usr/bin/env bash
# Reports in headless Chromium: PASS, razor pass, FAIL, never finished, hostile texts, 10,000 tokens; light and dark.
set -u
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo 'no Chromium here: apt-get install chromium'
    exit 77
}
tmp=$ASSAY_TEST_TMP
store=$tmp/store.db
export ASSAY_TEST_TMP
run() { # ARM STATUS: replays the shipped record of an arm
    "$ASSAY" run --engine "replay:goldens/tiny-dense-nvfp4.strict.$1.jsonl.zst" --model tiny-dense-nvfp4 \
        --battery strict --store "$store" >"$tmp/out" 2>&1
    rc=$?
    [ $rc = "$2" ] || { cat "$tmp/out"; echo "replay of $1: exit status $rc, wanted $2"; exit 1; }
}
run runner-v1 0
run graph 0
run reduce16 1
i=0
for name in pass razor fail; do
    i=$((i + 1))
    "$ASSAY" report $i --html --store "$store" -o "$tmp/$name.html" || exit 1
done
"$ASSAY" report 1..3 --store "$store" -o "$tmp/three.html" || exit 1
CK_RUN_CASE='kept pages' "${ASSAY%/assay}/reports/test/check_forms" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
"$ASSAY" bisect --trace harness/test/data/tiny-dense-int4g128.smoke.p01.trace.safetensors.zst --arm native \
    mutant=rope_off_by_one --model tiny-dense-int4g128 --html "$tmp/bisect.html" >/dev/null
[ $? = 1 ] || { echo 'the bisection found nothing'; exit 1; }
"$ASSAY" flip fp32_reduce=off --policy demo-quick --by "$(printf '<b>\033[31m</b>')" --store "$tmp/flip.db" >/dev/null 2>&1
"$ASSAY" report flip --store "$tmp/flip.db" -o "$tmp/flip.html" || exit 1
timeout 240 python3 reports/test/browser.py "$chromium" "$tmp"/{pass,razor,fail,three,hostile,many,bisect,flip}.html "$@"
