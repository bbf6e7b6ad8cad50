#!/usr/bin/env bash
# Runs recorded outputs of the real kernels through BINARY, both builds; prints outputs compared and mismatches.
# Usage: check-vectors.sh BINARY      VECTORS=DIR: a folder with cases.jsonl and raw.bin.zst (default: the shipped subset)
set -u
binary=${1:?usage: check-vectors.sh BINARY}
folder=${VECTORS:-$(dirname "$0")/../kernels/test/data/marlin}
worst=0
for build in ptx80 sm90; do
    "$binary" vectors "$folder/cases.jsonl" --raw "$folder/raw.bin.zst" --build $build
    rc=$?
    [ $rc -gt $worst ] && worst=$rc
done
exit $worst
