#!/usr/bin/env bash
# Goldens and stores through the program when the world is unkind: limits on files, full outputs, damage, odd names.
# Every answer to --json must be JSON, also the errors.
set -u
tmp=$ASSAY_TEST_TMP
bad=0
say() { printf '%s\n' "$*"; bad=1; }
# expect STATUS TEXT ARGUMENTS...: standard error must hold TEXT (empty: anything)
expect() {
    local status=$1 text=$2 rc
    shift 2
    "$ASSAY" "$@" >"$tmp/out" 2>"$tmp/err"
    rc=$?
    [ $rc = "$status" ] || say "assay $*: status $rc, $status is expected: $(cat "$tmp/err")"
    grep -qF -- "$text" "$tmp/err" "$tmp/out" || say "assay $*: \"$text\" is missing: $(cat "$tmp/err")"
}
# the same with --json; at the end each answer is parsed and the expression over o is asked of it
asked=0
mkdir -p "$tmp/asked"
json() {
    local status=$1 expression=$2 rc
    shift 2
    asked=$((asked + 1))
    "$ASSAY" "$@" --json >"$tmp/asked/$asked.json" 2>"$tmp/err"
    rc=$?
    [ $rc = "$status" ] || say "assay $* --json: status $rc, $status is expected: $(cat "$tmp/err")"
    printf '%s\n' "$expression" >"$tmp/asked/$asked.wanted"
}
answers() {
    python3 - "$tmp/asked" "$asked" <<'P'
import json, sys
bad = 0
for n in range(1, int(sys.argv[2]) + 1):
    text, wanted = (open(f'{sys.argv[1]}/{n}.{end}').read() for end in ('json', 'wanted'))
    try:
        o = json.loads(text)
        assert text.count('\n') == 1 and eval(wanted)
    except Exception as why:
        bad = 1
        print(f'{wanted.strip()}: {why!r}: {text[:300]}')
sys.exit(bad)
P
}
sql() {
    python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1]); db.executescript(sys.argv[2]); db.commit()' "$@" || say "SQL failed: $2"
}
db=$tmp/s.db
mkdir -p "$tmp/nothing"
export ASSAY_DATA=$tmp/nothing # nothing ships: each store holds what is put into it here
smoke=goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst

# round trips: out of a store of its own, through a packed and a plain file, nothing changes
for name in tiny-moe-nvfp4.strict.reduce16 smollm2-135m-nvfp4.chat.graph; do
    IFS=. read -r model battery arm <<<"$name"
    json 0 "o['arm'] == '$arm' and o['prompts'] == 32" import golden "goldens/$name.jsonl.zst" --store "$db"
    expect 0 '' export golden "$model" "$battery" "$arm" -o "$tmp/$name.jsonl.zst" --store "$db"
    expect 0 '' import golden "$tmp/$name.jsonl.zst" --store "$tmp/second.db"
    expect 0 '' export golden "$model" "$battery" "$arm" -o "$tmp/$name.jsonl" --store "$tmp/second.db"
    "$ASSAY" export golden "$model" "$battery" "$arm" --store "$db" >"$tmp/first"
    [ -s "$tmp/first" ] && cmp "$tmp/first" "$tmp/$name.jsonl" || say "$name came out differently"
    want=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$tmp/first")
    json 0 "o['golden'] == '$want'" export golden "$model" "$battery" "$arm" -o "$tmp/third.jsonl" --store "$db"
done
json 0 'o["goldens"] == 2 and o["bad"] == []' store check --store "$db"
json 0 'all(t["rows"] >= 0 for t in o["tables"].values()) and o["bytes"] > 0' store stats --store "$db"

# errors are JSON too, with the status that the shell sees
json 4 'o["exit"] == 4 and o["error"]["code"] == "E_MISSING"' import golden "$tmp/none.jsonl" --store "$db"
json 4 'o["exit"] == 4 and "nobody" in o["error"]["text"]' export golden nobody smoke --store "$db"
json 4 'o["exit"] == 4' store check --store "$tmp/none.db"
json 2 'o["exit"] == 2 and o["error"]["verb"] == "import"' import golden --store "$db"
printf '{"schema":"assay-golden/1"}\n' >"$tmp/poor.jsonl"
json 3 'o["error"]["code"] == "E_INPUT" and "poor.jsonl:1" in o["error"]["text"]' import golden "$tmp/poor.jsonl" --store "$db"
head -c 200 /dev/urandom | tr -d '\n' >"$tmp/noise.jsonl.zst"
json 3 '"noise.jsonl.zst" in o["error"]["text"]' import golden "$tmp/noise.jsonl.zst" --store "$db"
printf 'This is no database, but a text that goes on long enough.' >"$tmp/text.db"
json 3 'o["error"]["code"] == "E_STORE"' store check --store "$tmp/text.db"
grep -q '^This is no database' "$tmp/text.db" || say 'a file that is no database was changed'
json 3 'o["error"]["code"] == "E_STORE"' store check --store "$tmp"
expect 2 "too long for a store's name" store stats --store "$tmp/$(printf 'x%.0s' {1..600})"
expect 2 'unknown option' store check --fast --store "$db"

# a limit on the size of files: an error, not a death; the file and the store that were there stay
before=$(wc -c <"$tmp/third.jsonl")
(
    ulimit -f 100
    "$ASSAY" export golden tiny-moe-nvfp4 strict reduce16 -o "$tmp/third.jsonl" --store "$db" >/dev/null 2>"$tmp/err"
) 2>/dev/null
[ "$(wc -c <"$tmp/third.jsonl")" = "$before" ] || say 'a file that could not be replaced is gone'
(
    ulimit -f 100
    "$ASSAY" import golden goldens/tiny-dense-nvfp4.strict.graph.jsonl.zst --store "$tmp/small.db" >/dev/null 2>"$tmp/small"
    echo $? >"$tmp/status"
) 2>/dev/null
[ "$(cat "$tmp/status")" = 3 ] || say "import under a limit: status $(cat "$tmp/status"): $(cat "$tmp/small")"
grep -q 'small.db: .*what was stored before is intact' "$tmp/small" || say "import under a limit: $(cat "$tmp/small")"
expect 0 'all seals and links hold' store check --store "$tmp/small.db"
if [ -e /dev/full ]; then
    for verb in 'store stats' 'store stats --json' 'export golden tiny-moe-nvfp4 strict reduce16'; do
        # shellcheck disable=SC2086
        "$ASSAY" $verb --store "$db" >/dev/full 2>"$tmp/err"
        rc=$?
        [ $rc = 3 ] && grep -q 'standard output' "$tmp/err" || say "$verb onto a full device: status $rc: $(cat "$tmp/err")"
    done
fi

# damage: status 3, named, and the golden is not handed out any more
expect 0 '' import golden "$smoke" --store "$tmp/d.db"
sql "$tmp/d.db" "DROP TRIGGER golden_sealed; UPDATE golden SET text = CAST(substr(text, 1, length(text) - 1) || x'00' AS BLOB)"
json 3 'any("tiny-dense-nvfp4 smoke eager" in b for b in o["bad"])' store check --store "$tmp/d.db"
expect 3 'golden ' export golden tiny-dense-nvfp4 smoke eager --store "$tmp/d.db"
expect 0 '' import golden "$smoke" --store "$tmp/l.db"
sql "$tmp/l.db" "DROP TRIGGER ledger_sealed; UPDATE ledger SET at = 'never' WHERE seq = 1"
json 3 'any(b.startswith("ledger row 1") for b in o["bad"])' store check --store "$tmp/l.db"
sql "$tmp/s.db" 'PRAGMA user_version = 99'
expect 3 'version 99 was written by a newer assay' store check --store "$db"
expect 3 'version 99 was written by a newer assay' import golden "$smoke" --store "$db"
answers || bad=1
[ "$asked" -ge 15 ] || say "only $asked answers were read"
exit $bad
