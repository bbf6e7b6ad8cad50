#!/usr/bin/env bash
# assay flip, flags, bench decode: every refusal, what is edited and when; and the whole story of tools/demo-flip.sh.
set -u
tmp=$ASSAY_TEST_TMP
case $ASSAY in /*) ;; *) ASSAY=$PWD/$ASSAY ;; esac
mkdir -p "$tmp/data/batteries/policies"
for f in batteries/*; do
    case $f in batteries/flags.json | batteries/policies) ;; *) ln -s "$PWD/$f" "$tmp/data/batteries/" ;; esac
done
ln -s "$PWD/goldens" "$PWD/kernels" "$tmp/data/"
cp batteries/policies/*.json "$tmp/data/batteries/policies/"
cp batteries/flags.json "$tmp/data/batteries/"
flags=$tmp/data/batteries/flags.json
shipped=$ASSAY
export ASSAY_STORE=$tmp/s.db XDG_CACHE_HOME=$tmp/cache
bad=0
# expect STATUS TEXT ARGUMENTS...: runs assay on that data folder, both outputs together must hold TEXT
expect() {
    local status=$1 text=$2 out rc
    shift 2
    out=$(ASSAY_DATA=$tmp/data "$shipped" "$@" 2>&1 </dev/null)
    rc=$?
    if [ $rc != "$status" ] || ! grep -qF -- "$text" <<<"$out"; then
        printf 'assay %s: status %s (wanted %s), wanted "%s", said:\n%s\n' "$*" $rc "$status" "$text" "$out"
        bad=1
    fi
}
same() { [ "$1" = "$2" ] || { echo "$3: \"$1\", not \"$2\""; bad=1; }; }
sum() { sha256sum <"$flags"; }
# policy NAME: parity of one model on smoke as a GB10, the rest as Python says over p
policy() {
    python3 - "$tmp/data/batteries/policies/$1.json" <<EOF
import json, sys
p = json.load(open("batteries/policies/demo-quick.json"))
p["name"] = "$1"
p["parity"] = {"runs": [{"model": "tiny-dense-nvfp4", "batteries": ["smoke"]}]}
p["pairs"] = {"recent": 2}
for k in ("determinism", "batch", "mutants"):
    p[k] = {"not_applicable": "the test is about something else"}
$2
json.dump(p, open(sys.argv[1], "w"))
EOF
}

expect 0 'usage: assay flip FLAG=on|off' flip --help
expect 0 'usage: assay flags' flags --help
expect 0 'marlin_atomic_add    off      deprecated' flags
expect 2 'flags are marlin_dense' flip nobody=on
expect 2 'one FLAG=VALUE is expected' flip
expect 2 'FLAG=on or FLAG=off is expected' flip marlin_dense=maybe
expect 2 'is "on" by default already' flip marlin_dense=on
expect 2 'marlin_atomic_add is deprecated: its default cannot be flipped' flip marlin_atomic_add=on
expect 2 'which has no flag cuda_graph' flip cuda_graph=on
expect 4 'nobody.json' flip marlin_dense=off --policy nobody
expect 4 'no store at' flags history
expect 2 'nothing, or history [FLAG], is expected' flags colour
[ ! -e "$tmp/s.db" ] || { echo 'a store was made only to be looked at'; bad=1; }

# --- a policy that leaves something out, or says it badly, is none ---
policy p 'del p["memory"]'
expect 3 'p.json: memory: a policy says of every check what it asks' flip marlin_dense=off --policy p
policy p 'p["parity"] = {"not_applicable": "tired"}'
expect 3 'parity: a gate without it is none' flip marlin_dense=off --policy p
policy p 'p["memory"] = {"not_applicable": ""}'
expect 3 'stands alone and gives a reason' flip marlin_dense=off --policy p
policy p 'p["speed"] = {}'
expect 3 'unknown key "speed"' flip marlin_dense=off --policy p
policy p 'p["bench"] = {"model": "m", "battery": "b", "sizes": [1], "runs": 1, "tokens": 2, "min_ratio": 1, "max_memory_ratio": 1}'
expect 3 'bench: "runs" must be a number from 2 to 100' flip marlin_dense=off --policy p
policy p 'p["mutants"] = {"model": "m", "battery": "b", "only": ["zeros"]}'
expect 3 'must give its "reason"' flip marlin_dense=off --policy p

# --- evidence that is not there, and that says no: refused, nothing edited ---
before=$(sum)
policy absent 'p["memory"] = {"evidence": "kernels/nowhere.json"}'
expect 4 'memory, defaults, kernels/nowhere.json: NO_EVIDENCE' flip marlin_dense=off --policy absent --yes
policy device 'p["engine"] = "native:nowhere"'
expect 4 'native:nowhere is not in this build' flip marlin_dense=off --policy device --yes
policy absent 'p["parity"]["runs"][0]["batteries"] = ["nothing"]'
expect 4 'parity, defaults, tiny-dense-nvfp4 nothing: NO_EVIDENCE' flip marlin_dense=off --policy absent --yes
policy counted 'p["counters"]["rules"] = [{"when": ["marlin_dense=off"], "zero": ["grouped_gemms"]}]'
expect 1 'counter grouped_gemms: ' flip marlin_dense=off --policy counted --yes
policy counted 'p["counters"]["rules"] = [{"when": ["marlin_dense=off"], "ran": ["dense_gemms"]}]'
expect 1 'the new route did not run' flip marlin_dense=off --policy counted --yes
policy counted 'p["counters"]["rules"] = [{"when": ["marlin_dense=on"], "ran": ["dense_gemms"]}]'
expect 4 'no rule of the policy speaks about these flags' flip marlin_dense=off --policy counted --yes
policy lazy 'p["mutants"] = {"model": "tiny-dense-nvfp4", "battery": "smoke", "only": ["zeros"], "reason": "r"}'
expect 4 '1 mutants, 0 controls: at least one of each is needed' flip marlin_dense=off --policy lazy --yes
# what a GPU machine found: of these kernel sources, whole, and without an error
policy memory 'p["memory"] = {"evidence": "batteries/policies/memory", "gpu": "NVIDIA H200"}'
sources=$(cat $(ls kernels/cuda/*.cu kernels/cuda/*.cuh | LC_ALL=C sort) | sha256sum | cut -c1-64)
found=$tmp/data/batteries/policies/memory
sed "s/\"kernel_sources_sha256\": \"[0-9a-f]*\"/\"kernel_sources_sha256\": \"$sources\"/" kernels/cuda/results/h200-sanitizer.json >"$found"
expect 0 'no error by memcheck, initcheck, synccheck, racecheck' flip marlin_dense=off --policy memory
cp "$found" "$tmp/whole.result"
sed 's/ERROR SUMMARY: 0 errors/ERROR SUMMARY: 3 errors/' "$tmp/whole.result" >"$found"
expect 1 '3 errors' flip marlin_dense=off --policy memory --yes
sed "s/$sources/$(printf %064d 0)/" "$tmp/whole.result" >"$found"
expect 4 'is of other kernel sources' flip marlin_dense=off --policy memory --yes
head -c 300 "$tmp/whole.result" >"$found"
expect 4 'memory, defaults, batteries/policies/memory: NO_EVIDENCE' flip marlin_dense=off --policy memory --yes
cp kernels/cuda/results/h200-bench.json "$found"
expect 4 'is of step "bench"; "sanitizer" is asked for' flip marlin_dense=off --policy memory --yes
same "$(sum)" "$before" 'a refused flip edited flags.json'

# --- granted: nothing without a yes; a file that cannot be written is finished by the same command ---
policy good ''
expect 0 'GRANTED, and nothing is changed without a yes' flip marlin_dense=off --policy good
same "$(sum)" "$before" 'a flip without a yes edited flags.json'
mkdir "$flags.new"
expect 3 'cannot write' flip marlin_dense=off --policy good --yes
same "$(sum)" "$before" 'a file that cannot be written was written'
expect 0 'the ledger granted marlin_dense=off, the file says on' flags history marlin_dense
rmdir "$flags.new"
expect 0 '[from the store]' flip marlin_dense=off --policy good --yes
expect 0 'marlin_dense         off      default-off' flags
expect 0 'arm       native:cpu gpu=gb10 reduce=f32 route=grouped' run --engine native gpu=gb10 --model tiny-dense-nvfp4 --battery smoke
# a flag that was flipped lately is paired
expect 0 'with marlin_dense=on' flip marlin_e1_par1=on --policy good
expect 0 'GRANTED' flip marlin_dense=on --policy good --yes
same "$(sum)" "$before" 'there and back'
expect 0 'all seals and links hold' store check

# --- evidence is of this GPU profile and these tables: of others none is reused ---
policy fresh 'p["determinism"] = {"model": "tiny-dense-nvfp4", "battery": "smoke", "runs": 2}'
# reused STATUS: whether parity, counters and determinism come from the store
reused() {
    local n
    n=$(ASSAY_DATA=$tmp/data "$shipped" flip marlin_dense=off --policy fresh 2>&1 </dev/null | grep -cF '[from the store]')
    same "$n" "$1" "pieces of evidence reused, $2"
}
rm "$tmp/data/batteries/gpus" "$tmp/data/kernels"
cp -r batteries/gpus "$tmp/data/batteries/gpus"
mkdir "$tmp/data/kernels"
cp -r kernels/tables "$tmp/data/kernels/tables"
expect 0 'GRANTED' flip marlin_dense=off --policy fresh
reused 3 'nothing changed' # parity, counters, determinism
sed 's/"source": "/&another text, /' batteries/gpus/gb10.json >"$tmp/data/batteries/gpus/gb10.json"
reused 0 'another GPU profile'
reused 3 'the same profile again'
printf '\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00' >>"$tmp/data/kernels/tables/rcp.i8.zst" # the same entries, another file
reused 0 'another table'
reused 3 'the same table again'
cp batteries/gpus/gb10.json "$tmp/data/batteries/gpus/gb10.json"
cp kernels/tables/rcp.i8.zst "$tmp/data/kernels/tables/rcp.i8.zst"
reused 3 'the first profile and table again'

# --- a deprecated flag warns once and changes nothing ---
out=$("$shipped" run --engine native marlin_atomic_add=on marlin_atomic_add=off --model tiny-dense-nvfp4 --battery smoke 2>&1)
same "$(grep -c 'marlin_atomic_add is deprecated and has no effect; version 0.3 removes it' <<<"$out")" 1 'warnings'
grep -q 'arm  *native:cpu gpu=h200 reduce=f32 route=dense$' <<<"$out" || { echo "another arm: $out"; bad=1; }

# --- bench decode ---
expect 5 'VOID: c1, ' bench decode --sizes 1 --runs 2 --tokens 2 --cpu-clock --max-spread 0
expect 0 "the same in each run, the golden's tokens" bench decode route=dense route=grouped --sizes 1,2 --runs 2 --tokens 4 \
    --cpu-clock --max-spread 1e9 --battery smoke
expect 2 'from 1 to 64' bench decode --sizes 0
expect 2 'native has no flag' bench decode colour=red

# --- mutants: a control that lives, a mutant of each level that dies, one that the battery hides and the probe shows ---
expect 0 ' 0 not as they must be' mutants --only control,adapter_control,golden_control,zeros,swap_best,golden_lost_prompt,reduce_f16
expect 2 'no mutant "nobody"' mutants --only nobody
expect 4 'the right engine does not pass itself' mutants mutant=zeros --only control
# a golden of one prompt has no two that could change places: that mutant proves nothing
expect 0 'golden' export golden tiny-dense-nvfp4 smoke eager -o "$tmp/whole.jsonl"
python3 - "$tmp" <<'EOF'
import hashlib, json, sys
b = json.load(open("batteries/smoke.json"))
b["battery"], b["prompts"] = "one", b["prompts"][:1]
text = json.dumps(b)
open(sys.argv[1] + "/one.json", "w").write(text)
golden = open(sys.argv[1] + "/whole.jsonl").read().split("\n")
head = json.loads(golden[0])
head["battery"], head["battery_sha256"] = "one", hashlib.sha256(text.encode()).hexdigest()
open(sys.argv[1] + "/one.jsonl", "w").write(json.dumps(head, separators=(",", ":")) + "\n" + golden[1] + "\n")
EOF
expect 0 'battery one' import battery "$tmp/one.json"
expect 0 'golden' import golden "$tmp/one.jsonl"
expect 1 'NEVER RAN' mutants --battery one --only golden_other_prompt
[ "$("$shipped" mutants --list | grep -vc 'control:')" -ge 20 ] || { echo 'fewer than 20 mutants'; bad=1; }

[ -n "${NOSTORY:-}" ] || ASSAY=$shipped tools/demo-flip.sh --quick >"$tmp/story" 2>&1 || { tail -40 "$tmp/story"; bad=1; }
exit $bad
