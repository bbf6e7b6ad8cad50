#!/usr/bin/env bash
# Shards, --jobs and `store merge`: after merging, verdict and every form of the report are those of an uncut run, byte
# for byte, whether it passes or fails.
set -u
cd "$(dirname "$0")/../.."
assay=${ASSAY:-build/assay} tmp=${ASSAY_TEST_TMP:-$(mktemp -d)} bad=0
say() { printf 'check_shards: %s\n' "$*"; bad=1; }
status() { # wanted status, text that must be in the output, command...
    local wanted=$1 text=$2 out rc
    shift 2
    out=$("$@" 2>&1)
    rc=$?
    [ $rc = "$wanted" ] || say "$* gave status $rc, not $wanted: $out"
    case $out in *"$text"*) ;; *) say "$* does not say \"$text\": $out" ;; esac
}
sql() { python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); r = c.execute(sys.argv[2]).fetchall(); c.commit(); print(*[x for y in r for x in y]) if r else 0' "$@"; }
same_reports() { # store, store: only the hour may differ
    for s in "$1" "$2"; do
        sql "$s" 'DROP TRIGGER IF EXISTS run_sealed'
        sql "$s" "UPDATE run SET started = 'then', finished = 'now'"
    done
    for form in html markdown junit csv json; do
        for s in "$1" "$2"; do ASSAY_STORE=$s "$assay" report 1 --$form -o "$s.$form" >/dev/null || say "no $form of $s"; done
        cmp -s "$1.$form" "$2.$form" || say "$form of $1 and of $2 differ: $(diff "$1.$form" "$2.$form" | head -c 600)"
    done
}

# Few goldens: each store here takes in all that ships.
export ASSAY_DATA=$tmp/data
mkdir -p "$ASSAY_DATA/goldens"
ln -s "$PWD/batteries" "$PWD/kernels" "$ASSAY_DATA/"
cp goldens/tiny-moe-int4g128.smoke.eager.jsonl.zst goldens/tiny-dense-nvfp4.strict.eager.jsonl.zst "$ASSAY_DATA/goldens/"

native="run --engine native --model tiny-moe-int4g128 --battery smoke --threads 1"
broken="$native mutant=row_shifted_stride"
replay="run --engine replay:goldens/tiny-dense-nvfp4.strict.graph.jsonl.zst --model tiny-dense-nvfp4 --battery strict"
number=0
for command in "$native" "$broken" "$replay"; do
    number=$((number + 1)) n=$((number + 1)) list=""
    ASSAY_STORE=$tmp/whole$number.db $assay $command >"$tmp/whole$number.txt"
    want=$?
    for i in $(seq $n); do
        ASSAY_STORE=$tmp/$number-$i.db $assay $command --shard "$i/$n" >"$tmp/shard.txt" || say "shard $i/$n of $command: $(cat "$tmp/shard.txt")"
        list="$list $tmp/$number-$i.db"
    done
    [ "$(sql "$tmp/$number-1.db" "SELECT count(*) FROM run WHERE verdict IS NULL AND shard = '1/$n'")" = 1 ] || say "a shard got a verdict"
    # shellcheck disable=SC2086
    status 0 "shards 1-$n of $n" "$assay" store merge "$tmp/merged$number.db" $list
    streams=$(sql "$tmp/merged$number.db" 'SELECT count(*), max(rowid) FROM (SELECT 1 AS rowid FROM stream)')
    ASSAY_STORE=$tmp/merged$number.db $assay $command >"$tmp/merged$number.txt"
    got=$?
    [ "$got" = "$want" ] || say "$command: status $want whole, $got merged"
    [ "$streams" = "$(sql "$tmp/merged$number.db" 'SELECT count(*), max(rowid) FROM (SELECT 1 AS rowid FROM stream)')" ] ||
        say "$command: judging asked the engine again"
    cmp "$tmp/whole$number.txt" "$tmp/merged$number.txt" || say "$command: $(diff "$tmp/whole$number.txt" "$tmp/merged$number.txt")"
    same_reports "$tmp/whole$number.db" "$tmp/merged$number.db"
    [ $number = 2 ] && continue
    ASSAY_STORE=$tmp/jobs$number.db $assay $command --jobs 2 >"$tmp/jobs$number.txt" 2>"$tmp/jobs.err"
    got=$?
    [ "$got" = "$want" ] || say "$command --jobs 2: status $got, not $want: $(cat "$tmp/jobs.err")"
    cmp "$tmp/whole$number.txt" "$tmp/jobs$number.txt" || say "$command --jobs 2: $(diff "$tmp/whole$number.txt" "$tmp/jobs$number.txt")"
    same_reports "$tmp/whole$number.db" "$tmp/jobs$number.db"
done
grep -q 'PASS' "$tmp/whole1.txt" && grep -q 'FAIL' "$tmp/whole2.txt" && grep -q 'PASS_BY_RAZOR' "$tmp/whole3.txt" || say "the three verdicts are not three"
ls -d "$tmp"/*-jobs-* 2>/dev/null && say "--jobs left its stores behind"

# What is missing, contradicts, or is of another run.
status 4 "NO_EVIDENCE: no answer to" "$assay" store merge "$tmp/part.db" "$tmp/1-1.db"
cp "$tmp/1-1.db" "$tmp/twin.db"
python3 - "$tmp/twin.db" "$tmp/2-1.db" <<'PY'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.execute("ATTACH ? AS wrong", (sys.argv[2],))
c.execute("INSERT OR REPLACE INTO stream SELECT 1, prompt, phase, sha256, bytes, record FROM wrong.stream")
c.commit()
PY
status 3 "contradicts $tmp/1-1.db" "$assay" store merge "$tmp/refused.db" "$tmp/1-1.db" "$tmp/twin.db"
status 3 'conflicts' "$assay" store merge "$tmp/refused.db" "$tmp/1-1.db" "$tmp/twin.db" --json
[ "$(sql "$tmp/refused.db" 'SELECT count(*) FROM run')" = 0 ] || say "a refused merge left something"
sql "$tmp/1-2.db" "UPDATE run SET commit_id = 'assay:0123456789abcdef'"
status 3 "commit assay:0123456789abcdef" "$assay" store merge "$tmp/refused.db" "$tmp/1-1.db" "$tmp/1-2.db"

# A golden that only another store has.
mkdir -p "$tmp/bare"
ln -s "$PWD/batteries" "$PWD/kernels" "$tmp/bare/"
status 4 "NO_EVIDENCE" env ASSAY_DATA="$tmp/bare" "$assay" $native --shard 1/1 --store "$tmp/bare.db"
status 0 "6/6 answered" env ASSAY_DATA="$tmp/bare" "$assay" $native --shard 1/1 --store "$tmp/lean.db" --goldens "$tmp/whole1.db"
[ "$(sql "$tmp/lean.db" 'SELECT count(*) FROM golden')" = 0 ] || say "the goldens were copied"
status 0 "6/6 prompts answered" "$assay" store merge "$tmp/from-lean.db" "$tmp/lean.db"
status 2 "goes with --shard" "$assay" $native --goldens "$tmp/whole1.db" --store "$tmp/x.db"
status 4 "no store at" "$assay" $native --shard 1/1 --store "$tmp/x.db" --goldens "$tmp/nowhere.db"

# Mistakes.
status 2 "1 <= I <= N" "$assay" $native --shard 9/8 --store "$tmp/x.db"
status 2 "--jobs makes shards itself" "$assay" $native --shard 1/8 --jobs 2 --store "$tmp/x.db"
status 2 "a number from 1 to" "$assay" $native --jobs 0 --store "$tmp/x.db"
status 2 "merge OUT IN" "$assay" store merge "$tmp/x.db"
status 4 "no store at" "$assay" store merge "$tmp/x.db" "$tmp/nowhere.db"
status 2 "into itself" "$assay" store merge "$tmp/part.db" "$tmp/part.db"

# An estimate counts what the run then counts, and stores nothing.
"$assay" $native --estimate --shard 1/4 --json --store "$tmp/e.db" >"$tmp/estimate.json" || say "no estimate"
[ "$(sql "$tmp/e.db" 'SELECT count(*) FROM run')" = 0 ] || say "an estimate is in the store"
python3 - "$tmp/estimate.json" "$tmp/whole1.db" <<'PY' || say "the estimate is wrong"
import json, sqlite3, sys
e = json.load(open(sys.argv[1]))
s = json.loads(sqlite3.connect(sys.argv[2]).execute("SELECT summary FROM run").fetchone()[0])
assert e["all"]["prompts"] == s["prompts"] and e["all"]["tokens_emitted"] >= s["tokens"], (e, s)
assert e["largest_shard"]["gmac"] >= e["shard"]["gmac"] and e["all"]["gmac"] > e["largest_shard"]["gmac"] > 0
assert e["all"]["seconds"] > 0 and e["memory_bytes"] > 1 << 20 and e["dry_run"]["prompts"] >= 1
PY
[ $bad = 0 ] && echo "check_shards: all hold"
exit $bad
