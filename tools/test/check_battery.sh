#!/usr/bin/env bash
# assay battery: makes the shipped ids out of the shipped texts, and its lint names each fault that is planted.
set -u
tmp=$ASSAY_TEST_TMP
export XDG_CACHE_HOME=$tmp/cache XDG_DATA_HOME=$tmp/data
bad=0
# expect STATUS TEXT ARGUMENTS...: runs `assay battery`, both outputs together must hold TEXT
expect() {
    local status=$1 text=$2 out rc
    shift 2
    out=$("$ASSAY" battery "$@" 2>&1)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qF -- "$text" <<<"$out"; then
        printf 'assay battery %s: status %s (wanted %s), wanted "%s", said:\n%s\n' "$*" $rc "$status" "$text" "$out"
        bad=1
    fi
}
json() { # EXPRESSION over `o`, ARGUMENTS...
    local expression=$1
    shift
    "$ASSAY" battery "$@" --json 2>/dev/null | python3 -c "import json, sys; o = json.load(sys.stdin); assert $expression, o" ||
        { echo "assay battery $* --json: not $expression"; bad=1; }
}

expect 0 'usage: assay battery list' --help
expect 2 'is expected'
expect 2 'is expected' new --text x --model tiny-dense-nvfp4
expect 2 'unknown option' list --colour
expect 0 'strict        32 prompts x  64 tokens' list
json '[b["name"] for b in o] == ["chat", "smoke", "strict"]' list
expect 0 'def read_config(path):' show smoke
json 'len(o["prompts"]) == 6 and o["prompts"][0]["ids"] == 6' show smoke
expect 4 'no battery "nobody": not a shipped one, and there is no store' show nobody --store "$tmp/none.db"
[ ! -e "$tmp/none.db" ] || { echo 'a store was made only to be looked at'; bad=1; }

# --- new: the shipped ids from the shipped texts ---
for b in smoke strict; do
    python3 - $b "$tmp/$b.jsonl" <<'EOF'
import json, sys
with open(sys.argv[2], "w") as f:
    for p in json.load(open(f"batteries/{sys.argv[1]}.json"))["prompts"]:
        print(json.dumps({"name": p["name"], "text": p["text"]}), file=f)
EOF
    expect 0 "battery $b, " new --text "$tmp/$b.jsonl" --model tiny-moe-mxfp4 --name $b --tokens 16 -o "$tmp/$b.json"
    python3 - $b "$tmp/$b.json" <<'EOF' || { echo "$b: other ids than the shipped ones"; bad=1; }
import json, sys
want, got = json.load(open(f"batteries/{sys.argv[1]}.json")), json.load(open(sys.argv[2]))
assert got["prompts"] == want["prompts"] and got["tokenizer_sha256"] == want["tokenizer_sha256"]
assert got["max_new_tokens"] == 16
EOF
    expect 0 ': 0 complaints' lint "$tmp/$b.json" --model tiny-dense-int4g128
    expect 0 ': 0 complaints' lint $b --model tiny-dense-int4g128
done
json 'o["complaints"] == [] and o["exit"] == 0 and o["model"] == "tiny-moe-nvfp4"' lint smoke --model tiny-moe-nvfp4
json 'o["model"] is None' lint chat

printf '\n \nThe first\nparagraph\n\n\n  the second, indented\r\n\t\r\nthe third' >"$tmp/text"
expect 0 '3 prompts' new --text "$tmp/text" --model tiny-dense-nvfp4 --name made --output "$tmp/made.json"
json '[p["text"] for p in o["prompts"]] == ["The first\nparagraph", "  the second, indented", "the third"]' show "$tmp/made.json"
json 'o["max_new_tokens"] == 64 and [p["name"] for p in o["prompts"]] == ["p00", "p01", "p02"]' show "$tmp/made.json"
printf '{ braces } of a program\n\nmore' >"$tmp/text"
json 'o["prompts"] == 2 and o["battery"] == "q\"uote"' new --text "$tmp/text" --model tiny-dense-nvfp4 --name 'q"uote' -o "$tmp/quote.json"

# --- an imported one is listed, shown and linted by its name ---
"$ASSAY" import battery "$tmp/made.json" --store "$tmp/some.db" >/dev/null || bad=1
expect 0 'made           3 prompts x  64 tokens' list --store "$tmp/some.db"
json '[(b["name"], b["where"]) for b in o] == [(n, "shipped") for n in ("chat", "smoke", "strict")] + [("made", "imported")]' \
    list --store "$tmp/some.db"
expect 0 'The first\nparagraph' show made --store "$tmp/some.db"
expect 0 ': 0 complaints' lint made --model tiny-dense-nvfp4 --store "$tmp/some.db"
expect 4 'no battery "nobody" in' show nobody --store "$tmp/some.db"

# --- new: what it refuses, and that nothing is written then ---
refuse() { # STATUS MESSAGE TEXT [OPTION...]
    local status=$1 message=$2
    printf "$3" >"$tmp/text"
    shift 3
    expect "$status" "$message" new --text "$tmp/text" --model tiny-dense-nvfp4 --name refused -o "$tmp/refused.json" "$@"
    [ ! -e "$tmp/refused.json" ] || { echo "refused ($message), but written"; bad=1; rm "$tmp/refused.json"; }
}
refuse 3 'no text in it' ''
refuse 3 'no text in it' '\n \n\t\n'
refuse 3 'a NUL byte at 3' 'abc\0def'
refuse 3 'text:3: prompt "p01": the text is not UTF-8 at byte 2' 'good\n\nno\377\n'
refuse 3 'text:2: prompt "a" appears twice' '{"name":"a","text":"x"}\n{"name":"a","text":"y"}\n'
refuse 3 'text:3: "text" is missing' '{"name":"a","text":"x"}\n\n{"name":"b"}\n'
refuse 3 'text:2: unknown key "ids"' '{"name":"a","text":"x"}\n{"name":"b","text":"y","ids":[]}\n'
refuse 3 'text:2: not JSON' '{"name":"a","text":"x"}\n{"name"\n'
refuse 3 'text:2: not an object' '{"name":"a","text":"x"}\n[]\n'
refuse 3 'a name of 1 to 63 bytes' '{"name":"","text":"x"}\n'
refuse 2 '--tokens 12x' 'a' --tokens 12x
refuse 2 '--tokens 0' 'a' --tokens 0
refuse 2 '--name a/b' 'a' --name a/b
refuse 4 'no model "nobody"' 'a' --model nobody
refuse 4 'absent' 'a' --text "$tmp/absent"
refuse 3 'no/where' 'a' -o "$tmp/no/where.json"

# --- lint: every planted fault is named, alone ---
plant() { # COMPLAINT PYTHON over `b` and its prompts `p`
    python3 - "$ASSAY" "$tmp/planted.json" "$1" "$2" <<'EOF' || { echo "not found: $1"; bad=1; }
import json, subprocess, sys
assay, path, complaint, fault = sys.argv[1:]
b = json.load(open("batteries/smoke.json"))
p = b["prompts"]
exec(fault)
json.dump(b, open(path, "w"))
r = subprocess.run([assay, "battery", "lint", path, "--model", "tiny-dense-nvfp4", "--json"], stdout=subprocess.PIPE)
o = json.loads(r.stdout)
assert r.returncode == 1 and o["exit"] == 1 and len(o["complaints"]) == 1 and complaint in o["complaints"][0], o
EOF
}
plant 'prompt twin: the same ids as prompt p00' 'p.append(dict(p[0], name="twin"))'
plant 'prompt p00: the name appears twice' 'p[1]["name"] = "p00"'
plant 'prompt p01: id 4096 at 0 is outside the vocabulary of 4096' 'del p[1]["text"]; p[1]["ids"][0] = 4096'
plant 'prompt p01: id -1 at 2 is outside the vocabulary' 'del p[1]["text"]; p[1]["ids"][2] = -1'
plant 'positions' 'b["max_new_tokens"] = 1000000; del p[1:]'
plant "tokenizer: the battery was made with $(printf '0%.0s' {1..64})" 'b["tokenizer_sha256"] = "0" * 64'
plant 'no prompts: an empty battery proves nothing' 'del p[:]'
plant 'prompt none: no ids' 'p.append({"name": "none", "ids": []})'
plant 'prompt p02: its text gives other ids from' 'p[2]["text"] += "!"'
plant 'prompt p02: its text gives other ids from 1 on' 'p[2]["ids"][1] ^= 1'
plant 'prompt p02: its text gives other ids from' 'p[2]["ids"].pop()'

expect 1 'prompt p02: its text gives other ids from' lint "$tmp/planted.json" --model tiny-dense-nvfp4

# Exactly as long as the model allows is no fault, one more is.
python3 - "$tmp/planted.json" <<'EOF'
import json, sys
b = json.load(open("batteries/smoke.json"))
most = json.load(open("batteries/models/tiny-dense-nvfp4/config.json"))["max_position_embeddings"]
b["prompts"] = [{"name": "long", "ids": [300 + i % 7 for i in range(most - 16)]}]
json.dump(b, open(sys.argv[1], "w"))
EOF
expect 0 ': 0 complaints' lint "$tmp/planted.json" --model tiny-dense-nvfp4
sed -i 's/"max_new_tokens": 16/"max_new_tokens": 17/' "$tmp/planted.json"
expect 1 'prompt long: ' lint "$tmp/planted.json" --model tiny-dense-nvfp4

# What must be said without a model, and what is no battery at all.
python3 -c 'import json; b = json.load(open("batteries/smoke.json")); b["prompts"].append(dict(b["prompts"][0], name="twin")); json.dump(b, open("'"$tmp"'/planted.json", "w"))'
expect 1 'checked with --model' lint "$tmp/planted.json"
expect 4 'no model "nobody"' lint smoke --model nobody
echo '{"prompts":' >"$tmp/broken.json"
expect 3 'not JSON' lint "$tmp/broken.json"
expect 3 'unknown key' lint batteries/razor.json

# A model without its tokenizer can say nothing about texts.
mkdir "$tmp/mute"
cp batteries/models/tiny-dense-nvfp4/{config.json,model.safetensors} "$tmp/mute/"
expect 4 'tokenizer.json' lint smoke --model "$tmp/mute"

# What the lint names, no other verb believes.
python3 -c 'import json; b = json.load(open("batteries/smoke.json")); b["prompts"][1]["name"] = "p00"; json.dump(b, open("'"$tmp"'/planted.json", "w"))'
expect 3 'appears twice' show "$tmp/planted.json"
exit $bad
