#!/usr/bin/env bash
# assay import, export, store: what they print, what they refuse, with which status, and that a golden comes out as it went in.
set -u
tmp=$ASSAY_TEST_TMP
bad=0
# expect STATUS TEXT ARGUMENTS...: both outputs together must hold TEXT
expect() {
    local status=$1 text=$2 out rc
    shift 2
    out=$("$ASSAY" "$@" 2>&1)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qF -- "$text" <<<"$out"; then
        printf 'assay %s: status %s (wanted %s), wanted "%s", said:\n%s\n' "$*" $rc "$status" "$text" "$out"
        bad=1
    fi
}
json() { # EXPRESSION over `o`, ARGUMENTS...
    local expression=$1
    shift
    "$ASSAY" "$@" --json 2>/dev/null | python3 -c "import json, sys; o = json.load(sys.stdin); assert $expression, o" || bad=1
}
must() { # a plain command
    "$@" || { echo "failed: $*"; bad=1; }
}
smoke=goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst
db=$tmp/a.db

expect 0 'usage: assay import golden' import --help
expect 0 'usage: assay export golden' export --help
expect 0 'usage: assay store check' store --help
expect 2 'a kind and a path' import
expect 2 'there are golden, battery, vllmcpp' import nonsense x --store "$tmp/none.db"
expect 2 'active, pending or negative' import golden "$smoke" --status best --store "$tmp/none.db"
expect 2 'no meaning for a battery' import battery batteries/smoke.json --status active --store "$tmp/none.db"
expect 2 'no meaning for a golden' import golden "$smoke" --variant metal --store "$tmp/none.db"
expect 2 'a model and a battery' export golden tiny-dense-nvfp4 --store "$tmp/none.db"
expect 2 'merge is expected' store burn --store "$tmp/none.db"
expect 2 'a store needs a file name' import golden "$smoke" --store ''
expect 4 'no store at' store check --store "$tmp/none.db"
must test ! -e "$tmp/none.db"

# out as it went in, packed or not
expect 0 '6 prompts, 96 tokens (active)' import golden "$smoke" --store "$db"
expect 0 'all seals and links hold' store check --store "$db"
expect 0 'golden              1' store stats --store "$db"
json 'o["tables"]["golden"]["rows"] == 1 and o["tables"]["ledger"]["rows"] == 1' store stats --store "$db"
json 'o["goldens"] == 1 and o["bad"] == []' store check --store "$db"
zstd -dqc "$smoke" >"$tmp/want" 2>/dev/null || python3 - "$smoke" "$tmp/want" <<'P' || exit 77
import ctypes, ctypes.util, sys
z = ctypes.CDLL(ctypes.util.find_library('zstd') or 'libzstd.so.1')
raw = open(sys.argv[1], 'rb').read()
out = ctypes.create_string_buffer(1 << 24)
z.ZSTD_decompress.restype = ctypes.c_size_t
n = z.ZSTD_decompress(out, ctypes.c_size_t(1 << 24), raw, ctypes.c_size_t(len(raw)))
open(sys.argv[2], 'wb').write(out.raw[:n])
P
"$ASSAY" export golden tiny-dense-nvfp4 smoke --store "$db" >"$tmp/out"
must cmp "$tmp/want" "$tmp/out"
must "$ASSAY" export golden tiny-dense-nvfp4 smoke eager -o "$tmp/copy.jsonl.zst" --store "$db" >/dev/null
json 'o["arm"] == "eager" and o["file"].endswith("copy.jsonl") and len(o["golden"]) == 64' \
    export golden tiny-dense-nvfp4 smoke --output "$tmp/copy.jsonl" --store "$db"
must cmp "$tmp/want" "$tmp/copy.jsonl"
expect 0 '(active, as it was before)' import golden "$tmp/copy.jsonl.zst" --status negative --store "$db"
json 'o["status"] == "active"' import golden "$tmp/copy.jsonl" --status pending --store "$db"
expect 4 'no golden of model nobody' export golden nobody smoke --store "$db"
expect 3 'No such file' export golden tiny-dense-nvfp4 smoke -o "$tmp/no/such/folder.jsonl" --store "$db"

# batteries and folders of another project
json 'o["battery"] == "chat" and o["prompts"] == 32' import battery batteries/chat.json --store "$db"
expect 0 'gaps at the roots (milli-nats): 0, 0, 125, 0, 0, 0' \
    import vllmcpp goldens/test/data/vllmcpp/qwen3_greedy_0_6b --variant metal --store "$db"
expect 0 'hidden: prompt 7 token 4: the token equals the oracle'"'"'s and has a gap of 94 milli-nats' \
    import vllmcpp goldens/test/data/vllmcpp/olmo2_greedy_1b --store "$db"
json 'o["roots"] == [{"prompt": 4, "position": 15, "golden_id": 7735, "arm_id": 11483, "gap_mnats": 0}]' \
    import vllmcpp goldens/test/data/vllmcpp/qwen3coder_greedy --store "$db"
"$ASSAY" export golden olmo2_greedy_1b olmo2_greedy_1b --store "$db" >"$tmp/olmo.jsonl"
expect 0 '16 prompts, 256 tokens' import golden "$tmp/olmo.jsonl" --store "$tmp/b.db"

# hostile files: one message with the place, status 3, nothing entered
rows=$("$ASSAY" store stats --json --store "$db")
head -c 4000 "$smoke" >"$tmp/cut.jsonl.zst"
expect 3 'cut.jsonl.zst: ends in the middle of a zstd frame' import golden "$tmp/cut.jsonl.zst" --store "$db"
head -c 60000 "$tmp/want" | head -n 2 | head -c 9000 >"$tmp/cut.jsonl"
expect 3 'cut.jsonl:2: the last line has no end' import golden "$tmp/cut.jsonl" --store "$db"
: >"$tmp/empty.jsonl"
expect 3 'empty.jsonl: empty' import golden "$tmp/empty.jsonl" --store "$db"
sed '2s/"prompt":/"prompt":"p77","prompt":/' "$tmp/want" >"$tmp/twice.jsonl"
expect 3 'twice.jsonl:2: not JSON' import golden "$tmp/twice.jsonl" --store "$db"
sed '3s/"logsumexp":\[[0-9.]*/"logsumexp":[NaN/' "$tmp/want" >"$tmp/nan.jsonl"
expect 3 'nan.jsonl:3: not JSON' import golden "$tmp/nan.jsonl" --store "$db"
expect 4 'No such file' import golden "$tmp/none.jsonl" --store "$db"
expect 3 'not a regular file' import golden "$tmp" --store "$db"
must test "$rows" = "$("$ASSAY" store stats --json --store "$db")"

# a store that was changed behind the program's back
python3 - "$db" <<'P'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("DROP TRIGGER golden_sealed")
text, = db.execute("SELECT text FROM golden WHERE id = 1").fetchone()
text = bytearray(text)
text[len(text) // 2] ^= 1
db.execute("UPDATE golden SET text = ? WHERE id = 1", (bytes(text),))
db.commit()
P
expect 3 'bad: ' store check --store "$db"
expect 3 '(tiny-dense-nvfp4 smoke eager)' store check --store "$db"
json 'len(o["bad"]) == 2' store check --store "$db"
expect 3 'golden 72d4502c179b' export golden tiny-dense-nvfp4 smoke --store "$db"
exit $bad
