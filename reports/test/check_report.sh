#!/usr/bin/env bash
# assay report: forms by name and by ending, ranges of runs, what it refuses, and that a file is complete or not there.
set -u
tmp=$ASSAY_TEST_TMP
store=$tmp/store.db
bad=0
expect() { # STATUS TEXT ARGUMENTS...: both outputs together must hold TEXT
    local status=$1 text=$2 out rc
    shift 2
    out=$("$ASSAY" report "$@" --store "$store" 2>&1)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qF -- "$text" <<<"$out"; then
        printf 'assay report %s: status %s (wanted %s), wanted "%s", said:\n%.600s\n' "$*" $rc "$status" "$text" "$out"
        bad=1
    fi
}
for arm in runner-v1 reduce16; do
    "$ASSAY" run --engine "replay:goldens/tiny-dense-nvfp4.strict.$arm.jsonl.zst" --model tiny-dense-nvfp4 \
        --battery strict --store "$store" >/dev/null 2>&1
done
expect 0 'usage: assay report RUN' --help
expect 2 'the number of a run is needed' --html
expect 2 'a form is needed' 1
expect 2 'one form at a time' 1 --html --junit
expect 2 'is not the number of a run' one --html
expect 2 'is not the number of a run' 1..x --html
expect 2 'fit one report' 2..1 --html
expect 2 'fit one report' 1..900 --html
expect 4 'no run 77' 77 --html
expect 3 'no/such/folder' 1 --html -o "$tmp/no/such/folder/x.html"
expect 0 'PASS</strong>' 1 --html
expect 0 'FAIL' 2 --markdown
expect 0 '"schema":"assay-report/1"' 2 --json
expect 0 'oracle 504 &quot; M&quot;' 2 --junit
expect 0 'p29' 0 --csv
expect 0 '' 1..2 -o "$tmp/both.md"
grep -qF '| 2 |' "$tmp/both.md" && grep -qF '| 1 |' "$tmp/both.md" || { echo 'both.md does not hold both runs'; bad=1; }
expect 0 '' 2 -o "$tmp/two.xml"
python3 -c "
import sys, xml.etree.ElementTree as t
s = t.parse('$tmp/two.xml').getroot()[0]
assert s.get('tests') == '32' and s.get('failures') == '1', s.attrib
assert [c.get('name') for c in s.iter('testcase') if c.find('failure') is not None] == ['p29']
" || bad=1
expect 0 '' 2 -o "$tmp/two.json"
python3 -m json.tool "$tmp/two.json" >/dev/null || bad=1
python3 -c "
import json
r = json.load(open('$tmp/two.json'))['runs'][0]
d = next(d for p in r['prompts'] for d in p['differences'] if d['verdict'] == 'DIVERGENT')
assert r['verdict'] == 'FAIL' and d['golden_text'] == ' M' and len(d['oracle_top']) == 20, d
" || bad=1
expect 0 '' 1 -o "$tmp/one.csv"
[ "$(wc -l <"$tmp/one.csv")" = 2049 ] || { echo "one.csv: not a line a token"; bad=1; }

# A decision of the gate: here one that is refused, since its battery is not there.
expect 4 'no decision about a default is stored' flip --html
"$ASSAY" flip fp32_reduce=off --policy demo-quick --by 'A <b>person</b>' --store "$tmp/other.db" >/dev/null 2>&1
store=$tmp/other.db
expect 0 'REFUSED</strong>' flip --html
expect 0 'A &lt;b&gt;person&lt;/b&gt;' flip --html
expect 0 'REFUSED' flip --markdown
expect 0 '<testsuite tests="8" failures="0" errors="5" skipped="3"' flip --junit
"$ASSAY" report flip -o "$tmp/flip.xml" --store "$store"
python3 -c "
import xml.etree.ElementTree as t
s = t.parse('$tmp/flip.xml').getroot()[0]
for name, tag in (('failures', 'failure'), ('errors', 'error'), ('skipped', 'skipped')):
    assert len(list(s.iter(tag))) == int(s.get(name)), name
" || bad=1
expect 0 ',"refused","parity",' flip --csv
expect 4 'row 1 of the ledger is no decision' flip:1 --json
expect 2 'is not the number of a run' flip:x --json
expect 0 '"schema":"assay-flip/1"' flip --json
expect 0 '' flip -o "$tmp/flip.json"
python3 -c "
import json, jsonschema
schema, o = json.load(open('reports/schema/assay-flip-1.json')), json.load(open('$tmp/flip.json'))
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(o)
o['flip']['decision'] = 'perhaps'
assert not jsonschema.Draft202012Validator(schema).is_valid(o)
" || bad=1
store=$tmp/store.db

# A run that is killed in the middle says so.
"$ASSAY" run --engine native --model tiny-dense-nvfp4 --battery strict --threads 1 --store "$store" >/dev/null 2>&1 &
pid=$!
for _ in $(seq 600); do
    "$ASSAY" report 3 --json --store "$store" >/dev/null 2>&1 && break
    sleep 0.1
done
kill -9 $pid
wait $pid 2>/dev/null
expect 0 'NOT FINISHED</strong>' 3 --html
expect 0 'NOT FINISHED' 3 --markdown
expect 0 '<error type="NOT FINISHED"' 3 --junit
expect 0 '"complete":false' 3 --json
[ $bad = 0 ] && echo 'report: as documented'
exit $bad
