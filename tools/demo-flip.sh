#!/usr/bin/env bash
# The story of a flip on shipped material, on a CPU that computes as a GB10: the default route is the grouped operator,
# one CTA a multiprocessor is wanted, and two flags promise it. Usage: tools/demo-flip.sh [--quick]
#
# Works on a store and a flags.json of its own, which are removed at the end (KEEP=1 leaves them). Every step checks what
# it claims; the first that does not hold ends the script with status 1.
set -u
cd "$(dirname "$0")/.." || exit 3
assay=${ASSAY:-build/assay}
case $assay in /*) ;; *) assay=$PWD/$assay ;; esac
policy=demo
[ "${1:-}" = --quick ] && policy=demo-quick
tmp=$(mktemp -d)
if [ -n "${KEEP:-}" ]; then echo "everything lies in $tmp"; else trap 'rm -rf "$tmp"' EXIT; fi

# A data folder like the shipped one, but for flags.json: there the grouped route is still the default.
mkdir -p "$tmp/data/batteries"
for f in batteries/*; do [ "$f" = batteries/flags.json ] || ln -s "$PWD/$f" "$tmp/data/batteries/"; done
ln -s "$PWD/goldens" "$PWD/kernels" "$tmp/data/"
flags=$tmp/data/batteries/flags.json
sed '0,/"default": "on"/s//"default": "off"/; 0,/"default-on"/s//"default-off"/' batteries/flags.json >"$flags"
export ASSAY_DATA=$tmp/data ASSAY_STORE=$tmp/assay.db NO_COLOR=1

say() { printf '\n=== %s\n' "$*"; }
die() { printf 'demo-flip: %s\n' "$*" >&2; exit 1; }
# expect STATUS PATTERN ARGUMENTS...: runs assay, shows it (of a run what matters here), and holds it to the status and
# to a line that matches
expect() {
    local status=$1 pattern=$2 out rc show='.*'
    shift 2
    [ "$1" = run ] && show='^(arm|tokens|logits|verdict|  ties.*got|counter.*=[1-9])'
    printf '$ assay %s\n' "$*"
    out=$("$assay" "$@" 2>&1 </dev/null)
    rc=$?
    grep -E "$show" <<<"$out" | cut -c1-210
    [ $rc = "$status" ] || die "status $rc, $status was expected"
    grep -qE -- "$pattern" <<<"$out" || die "nothing says \"$pattern\""
}
# number NAME ARGUMENTS...: a member of the JSON that assay prints
number() { "$assay" "${@:2}" --json 2>/dev/null </dev/null | grep -oE "\"$1\": ?[0-9]+" | head -1 | grep -oE '[0-9]+$'; }
default_of() { grep -A 9 "\"name\": \"$1\"" "$flags" | sed -n 's/.*"default": "\(.*\)".*/\1/p'; }
on_ties() { echo run --engine native gpu=gb10 "$@" --model tiny-dense-nvfp4 --battery ties; }

say 'The battery, and the oracle that decides: vLLM on an H200, whose dense layers take the dense operator'
expect 0 'battery ties: 5 prompts' import battery batteries/flip/ties.json
expect 0 'golden 1: .*\(active\)' import golden batteries/flip/tiny-dense-nvfp4.ties.eager.jsonl.zst
expect 0 '^marlin_dense +off +default-off' flags

say 'What the flags promise: 144 CTAs by the grouped operator; 48, one a multiprocessor, by either flag'
for route in grouped par1 dense; do
    out=$("$assay" plan --gpu gb10 --route $route --m 1 --n 5120 --k 5120 --format nvfp4 --json)
    grid=$(grep -oE '"grid": ?[0-9]+' <<<"$out" | head -1 | grep -oE '[0-9]+$')
    echo "route $route: $grid CTAs (one row, n = k = 5120, NVFP4)"
    case $route in grouped) [ "$grid" = 144 ] ;; *) [ "$grid" = 48 ] ;; esac || die "another grid than promised"
done

say 'What they do to the tokens'
# shellcheck disable=SC2046
{
    expect 0 'p21 token 12: NEAR_TIE' $(on_ties)
    expect 0 'verdict +PASS_BY_RAZOR' $(on_ties marlin_e1_par1=on)
    expect 0 'verdict +PASS: every position equal, every logits row' $(on_ties marlin_dense=on)
    dense=$(number run show)
}
echo 'par1 keeps the regrouped sums of the grouped operator and leaves the oracle at two near ties; dense has its bits.'

say 'May par1 become the default? No: nobody has said yes to these tokens'
expect 4 'PASS_BY_RAZOR: .*; a person must say yes' flip marlin_e1_par1=on --policy demo-quick --yes
[ "$(default_of marlin_e1_par1)" = off ] || die 'a refused flip has edited the defaults'

say 'A gate that is killed on its way: what it had finished is in the store'
"$assay" flip marlin_dense=on --policy $policy >"$tmp/killed" 2>&1 </dev/null &
pid=$!
sleep 2
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
expect 0 'all seals and links hold' store check
[ "$(default_of marlin_dense)" = off ] || die 'a killed gate has edited the defaults'

say 'May dense? Refused at first: together with 16-bit reduction it moves tokens too, and that is not ratified'
expect 4 'parity, with fp32_reduce=off, .*a person must say yes' flip marlin_dense=on --policy $policy --yes
[ "$(default_of marlin_dense)" = off ] || die 'a refused flip has edited the defaults'
pair=$("$assay" flags history marlin_dense --json | grep -oE 'assay ratify [0-9]+' | tail -1 | grep -oE '[0-9]+')

say 'The near ties, judged one by one, and a signed yes with a reason and the A/B run that passed'
expect 0 '804' explain "$pair" p10:10
expect 1 'ratif|refus|yes|wanted' ratify "$pair" --reason reduction-order --by demo --ab "$dense"
expect 0 'atif' ratify "$pair" --reason reduction-order --by demo --ab "$dense" --yes --mirror "$tmp/mirror" \
    --note 'sums rounded to 16 bits between slices; every root a near tie of the oracle'
find "$tmp/mirror" -type f | head -3 | while read -r f; do
    echo "$(basename "$f"):"
    grep -m 3 'golden' "$f"
done

say 'Again: the evidence in the store is reused, the ratified tokens pass'
expect 0 'GRANTED: marlin_dense is on by default now' flip marlin_dense=on --policy $policy --by demo --yes
[ "$(default_of marlin_dense)" = on ] || die 'a granted flip has not edited the defaults'
# shellcheck disable=SC2046
expect 0 'dense_gemms=[1-9]' $(on_ties)
expect 2 'by default already' flip marlin_dense=on --policy $policy

say 'The ledger shows all of it'
expect 0 'granted, policy' flags history marlin_dense
expect 0 'refused, policy' flags history marlin_e1_par1
expect 0 'all seals and links hold' store check

say 'One flipped bit'
cp "$tmp/assay.db" "$tmp/bit.db"
at=$(grep -abo '"decision":"granted"' "$tmp/bit.db" | head -1 | cut -d: -f1)
[ -n "$at" ] || die 'the ledger row is not in the file'
printf 'f' | dd of="$tmp/bit.db" bs=1 seek=$((at + 12)) conv=notrunc status=none # g is 0x67, f is 0x66
expect 3 'ledger row' store check --store "$tmp/bit.db"

say "The flip is done; the store, its ledger and flags.json were of this script's own"
