#!/usr/bin/env bash
# One array task of submit.sh: shard SLURM_ARRAY_TASK_ID of N, its store and its log in FOLDER. A task that was preempted,
# or whose node died, is started again by Slurm (--requeue) and goes on where it stopped; one whose process was killed
# puts itself back, three times at most.
set -u
folder=$1 n=$2 i=${SLURM_ARRAY_TASK_ID:?this is a Slurm array task}
mapfile -d '' -t command <"$folder/command"
echo "shard $i/$n on $(hostname) (${SLURMD_NODENAME:-?}), start $((${SLURM_RESTART_COUNT:-0} + 1)), GPU ${CUDA_VISIBLE_DEVICES:-none}"
goldens=()
if [ -f "$folder/goldens.db" ]; then # SQLite wants its own file on this host
    own=$(mktemp -d)
    trap 'rm -rf "$own"' EXIT
    cp "$folder/goldens.db" "$own/goldens.db"
    goldens=(--goldens "$own/goldens.db")
fi
"${command[@]}" "${goldens[@]}" --shard "$i/$n" --store "$folder/shard-$i.db" &
worker=$!
trap 'kill -TERM $worker 2>/dev/null' TERM # preemption: nothing to save, every answer is stored
wait $worker
status=$?
echo "shard $i/$n: status $status"
if [ $status -gt 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
    echo "shard $i/$n: killed by signal $((status - 128)), back into the queue"
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$i" && sleep 60 # Slurm ends this shell
fi
exit $status
