#!/usr/bin/env bash
# Instructions per multiply-add of the GEMM executor, by callgrind: three runs less one, so that set-up cancels.
# Usage: count-instructions.sh BINARY      its table, as committed: kernels/cpu/instructions.txt
set -eu
binary=${1:?usage: count-instructions.sh BINARY}
n=512 k=1024
counted() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" bench kernels --cpu --n $n --k $k --json \
        --path "$1" --format "$2" --m "$3" --runs "$4" 2>&1 >/dev/null | sed -n 's/.*Collected : //p'
}
echo "instructions per multiply-add, n $n, k $k, activations within five binades"
printf '%-9s %-6s %3s  %s\n' path format m count
for path in avx2 portable; do
    for format in nvfp4 mxfp4 u4b8; do
        for m in 1 8; do
            one=$(counted $path $format $m 1) three=$(counted $path $format $m 3)
            printf '%-9s %-6s %3d  %s\n' $path $format $m \
                "$(echo "scale=2; ($three - $one) / 2 / ($m * $n * $k)" | bc)"
        done
    done
done
