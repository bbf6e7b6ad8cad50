#!/usr/bin/env bash
# KLD base files and lm-eval samples from the command line: in, out, compared, refused.
set -u
assay=$(realpath "$ASSAY")
tmp=$ASSAY_TEST_TMP
bad=0
say() {
    printf '%s\n' "$*"
    bad=1
}
status() { # wanted status, text that must be in the output, command...
    local wanted=$1 text=$2 out rc
    shift 2
    out=$("$@" 2>&1 </dev/null)
    rc=$?
    [ $rc = "$wanted" ] || say "$* gave status $rc, not $wanted: $out"
    case $out in *"$text"*) ;; *) say "$* does not say \"$text\": $out" ;; esac
}
export ASSAY_STORE=$tmp/a.db
data=goldens/test/data/kld

status 0 'no exact tie is known' "$assay" import kld $data/base.kld.zst
status 0 'steps of up to 0.244 milli-nats' "$assay" import kld $data/kvq8.kld.zst --name other
status 1 '0.00053 +-  0.00051     100.000' "$assay" diff kld base other
status 1 '"exact_ties":null' "$assay" diff kld base $data/kvq8.kld.zst --json
status 0 '0.00000 +-  0.00000' "$assay" diff kld base base
status 4 'no kld "none"' "$assay" diff kld base none
status 0 'record' "$assay" export kld base -o "$tmp/out.kld"
python3 - "$tmp" <<'PY'
import sys
tmp = sys.argv[1]
whole = open(tmp + '/out.kld', 'rb').read()
open(tmp + '/cut.kld', 'wb').write(whole[:-1])
open(tmp + '/s.jsonl', 'w').write('{"doc_id":3,"arguments":{"gen_args_0":{"arg_0":"The quick","arg_1":" fox"}}}\n' * 2)
open(tmp + '/bad.jsonl', 'w').write('{"doc_id":3}\n')
PY
"$assay" import kld "$tmp/out.kld" --store "$tmp/b.db" >/dev/null || say 'an exported file is not imported'
status 3 'cut off' "$assay" import kld "$tmp/cut.kld"
status 2 'has no meaning for a kld' "$assay" import kld "$tmp/out.kld" --status active

status 0 '1 prompts out of 2 samples' "$assay" import lm-eval "$tmp/s.jsonl" --model tiny-dense-nvfp4 --name quick --tokens 4
status 0 'quick' "$assay" battery show quick
status 2 '--model and --name are needed' "$assay" import lm-eval "$tmp/s.jsonl"
status 2 'a number from 1' "$assay" import lm-eval "$tmp/s.jsonl" --model tiny-dense-nvfp4 --name quick --tokens none
status 3 'bad.jsonl:1: no arguments' "$assay" import lm-eval "$tmp/bad.jsonl" --model tiny-dense-nvfp4 --name quick
status 2 'has no meaning for a golden' "$assay" import golden x --tokens 3

status 0 'all seals and links hold' "$assay" store check
python3 - "$ASSAY_STORE" <<'PY'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.execute("DROP TRIGGER record_sealed")
c.execute("UPDATE record SET name = 'mine' WHERE name = 'other'")
c.commit()
PY
status 3 'kld mine' "$assay" store check

[ $bad = 0 ] && echo 'check_kld: all hold'
exit $bad
