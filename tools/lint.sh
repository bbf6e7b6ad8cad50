#!/usr/bin/env bash
# The house rules that a machine can hold: who includes whom, size limits, banned words, formatting.
set -u
cd "$(dirname "$0")/.."
bad=0
say() { printf 'lint: %s\n' "$*"; bad=1; }
files=$(git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' '*.cuh' '*.def' | sort -u)

# room: rooms it may include (its own is implied)
allowed() {
    case $1 in
    harness/base) echo 'harness/base' ;;
    kernels|oracle|goldens) echo 'harness/base' ;;
    harness) echo 'harness/base kernels oracle goldens' ;;
    reports) echo 'harness/base kernels oracle goldens harness' ;;
    tools) echo 'harness/base kernels oracle goldens harness reports' ;;
    esac
}
room() { case $1 in harness/base/*) echo harness/base ;; *) echo "${1%%/*}" ;; esac; }
for f in $files; do
    case $f in */test/*|*/examples/*) continue ;; esac
    own=$(room "$f")
    for inc in $(sed -n 's/^ *# *include "\(.*\)"/\1/p' "$f"); do
        r=$(room "$inc")
        [ "$r" = "$own" ] && continue
        case " $(allowed "$own") " in *" $r "*) ;; *) say "$f: includes $inc; $own may only see: $(allowed "$own")" ;; esac
    done
done
for f in $files; do
    n=$(wc -l <"$f")
    [ "$n" -le 500 ] || say "$f: $n lines; 500 at most"
done
# shellcheck disable=SC2086
awk 'FNR == 1 { name = ""; start = 0 }
    /^[a-z].*\)$/ { name = $0; at = FNR }
    /^\{$/ { start = FNR }
    /^\}/ { if (start && FNR - start > 62) { printf "lint: %s:%d: function of %d lines; 60 at most\n", FILENAME, at, FNR - start - 1; bad = 1 } start = 0 }
    END { exit bad }' $files || bad=1
ban() { # pattern, why, files...
    pattern=$1 why=$2
    shift 2
    hits=$(grep -nE "$pattern" "$@" /dev/null | head -5)
    [ -z "$hits" ] || say "$why: $hits"
}
# shellcheck disable=SC2086
{
    ban 'ffast-math|Ofast|use_fast_math' 'fast-math' $files Makefile
    ban '(/\*|//).*20[0-9][0-9]-[01][0-9]-[0-3][0-9]' 'a date in a comment' $files
    ban 'fabsf?\([^)]*\) *> *tol' 'a tolerance that NaN passes' $files
}
# shellcheck disable=SC2046
ban '\b(secure_)?getenv *\(' 'getenv outside tools' $(printf '%s\n' $files | grep -vE '^tools/|/test/')
# shellcheck disable=SC2086
clang-format --dry-run --Werror $(printf '%s\n' $files | grep -vE '\.def$') 2>&1 | head -20 | grep . && bad=1
# The tree travels to GPU machines.
size=$(git ls-files -z 2>/dev/null | xargs -0 -r stat -c %s | awk '{ s += $1 } END { printf "%d", s }')
[ "${size:-0}" -le $((40 * 1024 * 1024)) ] || say "the tracked tree holds $size bytes, more than 40 MiB: something must go or be packed"
[ $bad = 0 ] && echo 'lint: clean'
exit $bad
