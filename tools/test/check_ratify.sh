#!/usr/bin/env bash
# A golden's life: captured, judged, refused without evidence, ratified with it, used, taken back; and every refusal.
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
sql() { python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); r = c.execute(sys.argv[2]).fetchall(); c.commit(); print(*[x for y in r for x in y]) if r else 0' "$@"; }
rows() { sql "$store" 'SELECT count(*) FROM ledger'; }

# Few goldens: each store takes in all that ships.
export ASSAY_DATA=$tmp/data
mkdir -p "$ASSAY_DATA/goldens"
ln -s "$PWD/batteries" "$PWD/kernels" "$ASSAY_DATA/"
cp goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst goldens/tiny-dense-nvfp4.strict.eager.jsonl.zst "$ASSAY_DATA/goldens/"
store=$tmp/a.db
# A battery of two prompts, at one of which the reference and the engine part at a near tie.
python3 - "$tmp/mini.json" <<'PY'
import json, sys
b = json.load(open('batteries/smoke.json'))
b['battery'], b['max_new_tokens'] = 'mini', 6
b['prompts'] = [p for p in b['prompts'] if p['name'] in ('p01', 'p02')]
b['razor'] = {'ulp': 2, 'cap_nats': 0.5}
json.dump(b, open(sys.argv[1], 'w'))
PY
"$assay" import battery "$tmp/mini.json" --store "$store" >/dev/null || say 'no battery'
on=(--model tiny-dense-nvfp4 --battery mini --store "$store")
yes=(--reason kernel --by Ann --store "$store" --yes)

# Words.
status 2 'a yes has a reason and a name' "$assay" ratify 1 --by Ann --store "$store"
status 2 'there are first, reduction-order' "$assay" ratify 1 --reason because --by Ann --store "$store"
status 2 'say --yes too' "$assay" ratify --all --reason first --by Ann --store "$store"
status 2 '--all takes no run' "$assay" ratify 1 --all "${yes[@]}"
status 2 'not the number of a run' "$assay" ratify one "${yes[@]}"
status 4 'no run 7' "$assay" ratify 7 "${yes[@]}"
status 4 'no run waits' "$assay" ratify --all "${yes[@]}"
status 2 'a ledger row and --by' "$assay" unratify 7 --store "$store"
status 4 'is no ratification' "$assay" unratify 1 --by Ann --store "$store"

# Pending, judged, and not ratified without evidence or without a yes.
status 0 '(pending)' "$assay" capture --oracle reference --repeats 2 --logits "${on[@]}"
golden=$(sql "$store" "SELECT sha256 FROM golden WHERE arm = 'reference'")
status 0 '12 rows of 4096 bf16 logits' "$assay" export logits "$golden" -o "$tmp/rows" --store "$store"
[ "$(wc -c <"$tmp/rows")" = $((12 * 4096 * 2)) ] || say 'the rows are not whole'
status 4 'no logits' "$assay" export logits 0123456789 -o "$tmp/rows" --store "$store"
status 0 'PASS_BY_RAZOR' "$assay" run --engine native --golden reference "${on[@]}"
status 4 'nothing licenses its ids' "$assay" ratify 1 "${yes[@]}"
status 0 'PASS' "$assay" run --engine native route=grouped gpu=gb10 --model tiny-dense-nvfp4 --battery smoke --store "$store"
status 4 'is no A/B of it: battery_sha256' "$assay" ratify 1 --ab 2 "${yes[@]}"
status 2 'is not of battery strict' "$assay" capture --oracle reference --force 1 --model tiny-dense-nvfp4 --battery strict --store "$store"
status 0 'was fed the ids of run 1' "$assay" capture --oracle reference --repeats 1 --force 1 "${on[@]}"
before=$(rows)
status 1 'nobody said yes' "$assay" ratify 1 --reason kernel --by Ann --store "$store"
echo no | "$assay" ratify 1 --reason kernel --by Ann --store "$store" >/dev/null 2>&1 && say 'a "no" was taken for a yes'
[ "$(rows)" = "$before" ] || say 'what nobody wanted was written'

# Ratified: anchor, golden, ledger, mirror; then the same ids pass, also strictly.
out=$(echo yes | "$assay" ratify 1 --reason kernel --by Ann --note 'a near tie' --mirror "$tmp/pull" --store "$store" 2>&1) || say "not ratified: $out"
for text in 'p02 token 3: 1159 "file" -> 1045 "mod", gap 0.0625 nat, and' '(pending, becomes active)' 'oracle forced on these ids: assay-reference'; do
    case $out in *"$text"*) ;; *) say "ratify does not show \"$text\": $out" ;; esac
done
grep -q '^3 1045 0.0625 "mod" (golden 1159 "file")$' "$tmp"/pull/*.txt || say "the mirror does not show what changed"
cmp -s "$tmp"/pull/*.txt "$store"-ratified/*.txt || say 'the two mirrors differ'
status 0 'all seals and links hold' "$assay" store check --store "$store"
status 0 "the ratified anchor's (2 differences" "$assay" run --engine native --golden reference --strict "${on[@]}"
[ "$(sql "$store" "SELECT status_now FROM golden_now WHERE arm = 'reference'")" = active ] || say 'the golden is not active'

# Another device and another arm do not get this anchor.
status 1 'PASS_BY_RAZOR' "$assay" run --engine native gpu=a100 --golden reference --strict "${on[@]}"

# A mirror that was edited or is gone is named, and written again.
echo >>"$(ls "$store"-ratified/*.txt)"
status 3 'was edited' "$assay" store check --store "$store"
rm -r "$store-ratified"
status 3 'is not there' "$assay" store check --store "$store"
status 0 '1 anchors' "$assay" store mirror --store "$store"
status 0 'all seals' "$assay" store check --store "$store"

# A newer golden of the same arm supersedes: the old anchor is stale, named, and not used; taking back restores.
"$assay" export golden tiny-dense-nvfp4 mini reference --store "$store" | sed '1s/"date":"[^"]*"/"date":"2000-01-01"/' >"$tmp/newer.jsonl"
status 0 '(pending)' "$assay" import golden "$tmp/newer.jsonl" --status pending --store "$store"
newer=$(sql "$store" "SELECT substr(sha256, 1, 12) FROM golden ORDER BY id DESC LIMIT 1")
status 0 'PASS_BY_RAZOR' "$assay" run --engine native --golden "$newer" "${on[@]}"
run=$(sql "$store" 'SELECT max(id) FROM run')
status 0 'was fed' "$assay" capture --oracle reference --repeats 1 --force "$run" "${on[@]}"
status 0 'supersedes golden' "$assay" ratify "$run" "${yes[@]}"
row=$(sql "$store" "SELECT max(seq) FROM ledger WHERE kind = 'ratify'")
[ "$(sql "$store" "SELECT group_concat(status_now) FROM golden_now WHERE arm = 'reference'")" = superseded,active ] || say 'the old golden is not superseded'
status 5 'is superseded' "$assay" ratify 1 "${yes[@]}"
status 0 "row $row" "$assay" unratify --list --store "$store"
status 0 'is taken back' "$assay" unratify "$row" --by Ann --store "$store"
status 2 'is not the last word' "$assay" unratify "$row" --by Ann --store "$store"
[ "$(sql "$store" "SELECT group_concat(status_now) FROM golden_now WHERE arm = 'reference'")" = active,pending ] || say 'taking back did not restore'
[ "$(sql "$store" "SELECT count(*) FROM ledger WHERE kind IN ('ratify', 'unratify')")" = 3 ] || say 'a row was erased'
status 0 'all seals' "$assay" store check --store "$store"
status 0 "ratified anchor's" "$assay" run --engine native --golden reference "${on[@]}"

# Wrong ids are never ratified; a known wrong is recognised by name.
strict=(--model tiny-dense-nvfp4 --battery strict --store "$store")
wrong=goldens/tiny-dense-nvfp4.strict.reduce16.jsonl.zst
status 1 'FAIL' "$assay" run --engine "replay:$wrong" "${strict[@]}"
run=$(sql "$store" 'SELECT max(id) FROM run')
status 1 '(a root) is DIVERGENT' "$assay" ratify "$run" "${yes[@]}"
status 0 'negative' "$assay" import golden "$wrong" --status negative --store "$store"
status 1 '12 of 12 prompts that differ land on the negative golden reduce16' "$assay" run --engine "replay:$wrong" --fresh "${strict[@]}"
status 0 'PASS_BY_RAZOR' "$assay" run --engine replay:goldens/tiny-dense-nvfp4.strict.graph.jsonl.zst "${strict[@]}"
run=$(sql "$store" 'SELECT max(id) FROM run')
status 4 'is no A/B of it: model_sha256' "$assay" ratify "$run" --ab 1 "${yes[@]}"
status 4 'nothing licenses' "$assay" ratify --all "${yes[@]}"
status 1 'its arm carries a planted mistake' "$assay" ratify "$("$assay" run --engine native mutant=zeros --json "${on[@]}" 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["run"])')" "${yes[@]}"

# The evidence changed underneath.
cp "$store" "$tmp/edited.db"
sql "$tmp/edited.db" 'DROP TRIGGER position_sealed'
sql "$tmp/edited.db" "UPDATE position SET verdict = 'TIE_EXACT' WHERE run = 1"
status 3 'run 1 was edited' "$assay" ratify 1 --reason kernel --by Ann --yes --store "$tmp/edited.db"

[ $bad = 0 ] && echo 'check_ratify: all hold'
exit $bad
