#!/usr/bin/env bash
# Submits a run of assay to Slurm: an array of N shards, then a job that merges and judges.
#   usage: tools/slurm/submit.sh -n N -d FOLDER [-g] [-- SBATCH-OPTION...] :: RUN-WORDS...
#   e.g.   tools/slurm/submit.sh -n 64 -d /shared/r7 -- -p long :: --engine native --model tiny-dense-nvfp4 --battery strict
#
#   -n N        shards, one array task each
#   -d FOLDER   on a file system that all nodes see: stores, logs beside them, FOLDER/report.txt
#   -s STORE    goldens, batteries and anchors come from there (a copy is made), the shards are merged into it, and it keeps
#               the verdict; without it what ships is used, and FOLDER/merged.db
#   -g          one GPU a task (--gres=gpu:1); without it each task gets CPUS cores (1)
#
# Time and memory that are asked for come from a dry run here (`assay run --estimate`): three times the seconds of the
# largest shard and two minutes, one and a half times the memory and 64 MiB. The same call again goes on where tasks were
# lost: what is stored is not asked for again. Prints the two job numbers. Environment: ASSAY (build/assay), CPUS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
assay=$(realpath "${ASSAY:-$here/../../build/assay}")
usage() { sed -n '2,5p' "$0" | sed 's/^# *//' >&2; exit 2; }
n='' folder='' store='' cpus=${CPUS:-1} more=()
while [ $# -gt 0 ]; do
    case $1 in
    -n) n=$2; shift 2 ;;
    -d) folder=$2; shift 2 ;;
    -s) store=$2; shift 2 ;;
    -g) more+=(--gres=gpu:1); shift ;;
    --) shift; while [ $# -gt 0 ] && [ "$1" != :: ]; do more+=("$1"); shift; done ;;
    ::) shift; break ;;
    *) usage ;;
    esac
done
case $n in '' | 0 | *[!0-9]*) usage ;; esac
[ -n "$folder" ] && [ $# -gt 0 ] || usage
command -v sbatch >/dev/null || { echo "submit.sh: NO_EVIDENCE: no sbatch here" >&2; exit 4; }
mkdir -p "$folder"
folder=$(realpath "$folder")
printf '%s\0' "$assay" run "$@" >"$folder/command"

rm -f "$folder/goldens.db" "$folder/into"
if [ -n "$store" ]; then
    [ -f "$store" ] || { echo "submit.sh: NO_EVIDENCE: no store at $store" >&2; exit 4; }
    realpath "$store" >"$folder/into"
    # A copy without a log beside it: many hosts may read it.
    python3 -c 'import sqlite3, sys; a, b = map(sqlite3.connect, sys.argv[1:]); a.backup(b); b.execute("PRAGMA journal_mode = DELETE")' \
        "$store" "$folder/goldens.db"
    cp "$folder/goldens.db" "$folder/estimate.db"
fi
"$assay" run "$@" --estimate --shard "1/$n" --json --store "$folder/estimate.db" >"$folder/estimate.json"
read -r minutes mib < <(python3 - "$folder/estimate.json" <<'PY'
import json, math, sys
e = json.load(open(sys.argv[1]))
print(2 + math.ceil(3 * e["largest_shard"]["seconds"] / 60), 64 + math.ceil(1.5 * e["memory_bytes"] / 2**20))
PY
)
array=$(sbatch --parsable --job-name=assay --array="1-$n" --requeue --open-mode=append --output="$folder/shard-%a.log" \
    --time="$minutes" --mem="${mib}M" --cpus-per-task="$cpus" "${more[@]}" "$here/shard.sh" "$folder" "$n")
array=${array%%;*}
# After any end of the tasks: the merge says which answers are missing.
merge=$(sbatch --parsable --job-name=assay-merge --dependency="afterany:$array" --requeue --open-mode=append \
    --output="$folder/merge.log" --time=30 --mem="${mib}M" --cpus-per-task="$cpus" "${more[@]}" "$here/merge.sh" "$folder")
echo "$array ${merge%%;*}"
