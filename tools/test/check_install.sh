#!/usr/bin/env bash
# make install: what lies under PREFIX runs, judges and reads its evidence with the checkout out of reach.
set -u
tmp=$ASSAY_TEST_TMP
case $ASSAY in */san/assay) san=1 ;; *) san= ;; esac
env -u MAKEFLAGS make -s install SAN=$san DESTDIR="$tmp" >/dev/null || exit 1
cd "$tmp" || exit 1
export ASSAY_STORE=$tmp/s.db XDG_CACHE_HOME=$tmp/cache
unset ASSAY_DATA
out=$(usr/local/bin/assay run --engine native --model tiny-dense-nvfp4 --battery smoke) || { echo "run: $out"; exit 1; }
grep -q 'verdict   PASS: every position equal, every logits row' <<<"$out" || { echo "$out"; exit 1; }
for f in kernels/cuda/results/h200-sanitizer.json kernels/cuda/part.cu batteries/policies/cuda.json batteries/flags.json; do
    [ -e "usr/local/share/assay/$f" ] || { echo "$f is not installed"; exit 1; }
done
find usr/local/share/assay \( -name test -o -name '*.[ch]' \) | grep . && { echo 'tests and sources are installed'; exit 1; }
exit 0
