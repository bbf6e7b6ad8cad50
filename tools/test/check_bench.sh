#!/usr/bin/env bash
# bench kernels: every instruction set gives the same outputs; filters and refusals.
set -u
assay=$ASSAY
fail() { echo "check_bench: $1"; exit 1; }

all=$("$assay" bench kernels --cpu --n 256 --k 256 --runs 1 --json) || fail "instruction sets differ"
for path in portable nvfp4 mxfp4 u4b8 limit_gmac_s; do
    grep -q "$path" <<<"$all" || fail "no $path in the table"
done
one=$("$assay" bench kernels --cpu --n 256 --k 256 --runs 1 --path portable --format mxfp4 --m 8 --json) || fail "a filter"
[ "$(grep -o '"path"' <<<"$one" | wc -l)" = 1 ] || fail "the filters leave one row: $one"
grep -q '"m":8,"path":"portable"' <<<"$one" || fail "the row asked for: $one"
"$assay" bench kernels --path mmx >/dev/null 2>&1 && fail "an unknown instruction set passes"
"$assay" bench kernels --n 100 >/dev/null 2>&1 && fail "an n that no tile divides passes"
exit 0
