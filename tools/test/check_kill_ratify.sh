#!/usr/bin/env bash
# ratify and unratify, killed before each of their calls that change a file, one after the other: the store is sound
# after each, it says either all of the decision or nothing, its mirrors agree with it, and the same command ends what
# was begun. EVERY=N: each N-th of the calls (1 in `make check-kill`); SEED=N: which of them.
set -u
assay=$(realpath "$ASSAY")
tmp=$ASSAY_TEST_TMP
bad=0 every=${EVERY:-6} seed=${SEED:-$$}
say() { printf 'check_kill_ratify (SEED=%s): %s\n' "$seed" "$*"; bad=1; }
sql() { python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); r = c.execute(sys.argv[2]).fetchall(); c.commit(); print(*[x for y in r for x in y]) if r else 0' "$@"; }
cc -shared -fPIC -D_GNU_SOURCE -w -o "$tmp/kill_at.so" tools/test/kill_at.c -ldl || exit 1
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0

export ASSAY_DATA=$tmp/data
mkdir -p "$ASSAY_DATA/goldens"
ln -s "$PWD/batteries" "$PWD/kernels" "$ASSAY_DATA/"
cp goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst "$ASSAY_DATA/goldens/"
python3 - "$tmp/mini.json" <<'PY'
import json, sys
b = json.load(open('batteries/smoke.json'))
b['battery'], b['max_new_tokens'] = 'mini', 4
b['prompts'] = [p for p in b['prompts'] if p['name'] in ('p01', 'p02')]
b['razor'] = {'ulp': 2, 'cap_nats': 0.5}
json.dump(b, open(sys.argv[1], 'w'))
PY
base=$tmp/base
mkdir "$base"
on=(--model tiny-dense-nvfp4 --battery mini --store "$base/s.db")
{
    "$assay" import battery "$tmp/mini.json" --store "$base/s.db" &&
        "$assay" capture --oracle reference --repeats 1 "${on[@]}" &&
        "$assay" run --engine native --golden reference "${on[@]}" &&
        "$assay" capture --oracle reference --repeats 1 --force 1 "${on[@]}"
} >"$tmp/made" 2>&1 || { cat "$tmp/made"; exit 1; }

work=$tmp/work store=$tmp/work/s.db
fresh() { rm -rf "$work"; cp -r "$1" "$work"; }
yes() { sql "$store" "SELECT count(*) FROM ledger WHERE kind = '$1'"; }
# what the store says now, hours aside
said() { sql "$store" "SELECT kind, json_remove(what, '$.at') FROM ledger WHERE kind IN ('ratify', 'unratify', 'supersede', 'restore')"; sql "$store" 'SELECT status_now FROM golden_now ORDER BY id'; ls "$store-ratified" "$work/pull"; }

# story NAME KIND BASE COMMAND...
story() {
    local name=$1 kind=$2 from=$3 n total out before after=0 landed=0 whole
    shift 3
    fresh "$from"
    before=$(yes "$kind")
    LD_PRELOAD=$tmp/kill_at.so KILL_COUNT=$tmp/count "$@" >"$tmp/out" 2>&1 || say "$name: $(cat "$tmp/out")"
    total=$(cat "$tmp/count")
    whole=$(said)
    for n in $(seq $((1 + seed % every)) "$every" "$total"); do
        fresh "$from"
        { LD_PRELOAD=$tmp/kill_at.so KILL_AT=$n "$@" >"$tmp/out" 2>&1; } 2>/dev/null # the shell would tell of each kill
        [ $? = 137 ] || { say "$name: step $n of $total does not come"; continue; }
        landed=$((landed + 1))
        "$assay" store check --store "$store" >"$tmp/check" 2>&1 || say "$name, killed before step $n of $total: $(cat "$tmp/check")"
        case $(yes "$kind") in
        "$before") # nothing was decided: the same command decides
            [ $after = 0 ] || say "$name, killed before step $n: a decision that an earlier step had written is gone"
            "$@" >"$tmp/out" 2>&1 || say "$name, killed before step $n, does not go on: $(cat "$tmp/out")"
            ;;
        $((before + 1))) after=$((after + 1)) ;;
        *) say "$name, killed before step $n: $(yes "$kind") rows" ;;
        esac
        [ "$(said)" = "$whole" ] || say "$name, killed before step $n, ends otherwise: $(said)"
    done
    [ $after -gt 0 ] && [ $landed -gt $after ] || say "$name: $landed kills, $after after the decision: one of the halves was never seen"
    told="$told$name at $landed steps ($after after the decision), "
}

told=
story ratify ratify "$base" "$assay" ratify 1 --reason kernel --by Ann --yes --store "$store" --mirror "$work/pull"
fresh "$base"
"$assay" ratify 1 --reason kernel --by Ann --yes --store "$store" --mirror "$work/pull" >/dev/null 2>&1
cp -r "$work" "$tmp/ratified"
row=$(sql "$store" "SELECT max(seq) FROM ledger WHERE kind = 'ratify'")
story unratify unratify "$tmp/ratified" "$assay" unratify "$row" --by Ann --store "$store" --mirror "$work/pull"

# A note that nobody pays is named: the test above would pass a store check that looks at nothing.
fresh "$tmp/ratified"
for f in "$store"-ratified/*.txt; do cp "$f" "${f%.txt}.other.txt"; done
"$assay" store check --store "$store" >"$tmp/out" 2>&1 && say 'a mirror of no anchor is not named'
grep -q 'is of no anchor in force' "$tmp/out" || say "a mirror of no anchor: $(cat "$tmp/out")"

[ $bad = 0 ] && echo "check_kill_ratify (SEED=$seed): killed ${told}nothing lost"
exit $bad
