#!/usr/bin/env bash
# `assay bench store --growth` on small sizes: what it counts, what it draws, and that it leaves nothing behind.
set -u
cd "$(dirname "$0")/../.."
assay=${ASSAY:-build/assay} tmp=${ASSAY_TEST_TMP:-$(mktemp -d)} bad=0
say() { printf 'check_growth: %s\n' "$*"; bad=1; }
mkdir -p "$tmp/work"
TMPDIR=$tmp/work "$assay" bench store --growth --from 100 --to 1e4 --battery 5000 --shards 6 --svg "$tmp/g.svg" --json >"$tmp/g.json" || say "failed"
TMPDIR=$tmp/work "$assay" bench store --growth --from 1000 --to 1e3 --top-k 4 --shards 0 --json >"$tmp/k.json" || say "failed with logits"
[ -z "$(ls "$tmp/work")" ] || say "left $(ls "$tmp/work")"
python3 - "$tmp" <<'P' || say "the figures are wrong"
import json, sys, xml.dom.minidom
tmp = sys.argv[1]
g, k = json.load(open(tmp + "/g.json")), json.load(open(tmp + "/k.json"))
rows = g["rows"]
assert [r["positions"] for r in rows] == [100, 1000, 10000], rows
assert [r["batteries"] for r in rows] == [1, 1, 2], rows
assert rows[0]["store_bytes"] < rows[2]["store_bytes"] and all(r["seconds"] > 0 and r["memory_bytes"] > 1 << 20 for r in rows), rows
assert g["merge"]["shards"] == 6 and g["merge"]["positions"] == 1200 and g["merge"]["store_bytes"] > 0, g
assert k["merge"] is None and k["rows"][0]["store_bytes"] > rows[1]["store_bytes"], k
svg = xml.dom.minidom.parse(tmp + "/g.svg")
assert len(svg.getElementsByTagName("circle")) == 9
P
for words in "" "--growth --to 0" "--growth --to 1.5" "--growth --to 1e99" "--growth --top-k 65" "--growth x"; do
    # shellcheck disable=SC2086
    "$assay" bench store $words >/dev/null 2>"$tmp/err"
    [ $? = 2 ] || say "bench store $words is not refused: $(cat "$tmp/err")"
done
"$assay" bench store --growth --to 1e3 --shards 0 --svg "$tmp/none/g.svg" >/dev/null 2>"$tmp/err"
[ $? = 3 ] && grep -q "none/g.svg" "$tmp/err" || say "a drawing that cannot be written: $(cat "$tmp/err")"
[ $bad = 0 ] && echo "check_growth: all hold"
exit $bad
