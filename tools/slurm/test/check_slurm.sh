#!/usr/bin/env bash
# The strict battery on every shipped model under a real Slurm on this machine, 8 shards each, against one process: the
# same report. On the first model one process is killed, one task is preempted and one node is drained half way.
# Exit status 77 (NO_EVIDENCE) where no Slurm can be had. MODELS="A B": only those.
set -u
cd "$(dirname "$0")/../../.."
ASSAY=$(realpath "${ASSAY:-build/assay}")
export ASSAY
tmp=$(mktemp -d) bad=0 n=8
models=${MODELS:-tiny-dense-nvfp4 tiny-dense-mxfp4 tiny-dense-int4g128 tiny-moe-nvfp4 tiny-moe-mxfp4 tiny-moe-int4g128}
say() { printf 'check_slurm: %s\n' "$*"; bad=1; }
. tools/slurm/test/cluster.sh
finish() { cluster_stop; rm -rf "$tmp"; }
trap finish EXIT
why=$(mkdir "$tmp/cluster" && cd "$tmp/cluster" && cluster_packages) || { echo "NO_EVIDENCE: $why"; exit 77; }
cluster_start "$tmp/cluster" >"$tmp/why" || { echo "NO_EVIDENCE: $(cat "$tmp/why")"; exit 77; }
echo "check_slurm: $(slurmctld -V), nodes $(sinfo -h -N -p work -o %N | tr '\n' ' ')"

words() { echo "--engine native --model $1 --battery strict --threads 1"; }
submit() { # model [store]
    # shellcheck disable=SC2046
    tools/slurm/submit.sh -n $n -d "$tmp/$1" ${2:+-s "$2"} -- -p work :: $(words "$1") >"$tmp/$1.jobs" || say "submit $1: $(cat "$tmp/$1.jobs")"
}
# The worker of one running task, by its own store's name; its number is the only thing that is signalled.
worker() { pgrep -f -- "^$ASSAY run .*--store $tmp/$1/shard-" | head -n 1; }
wait_for() { # seconds, what, command...
    local t what=$2
    for t in $(seq $(($1 * 10))); do "${@:3}" && return 0; sleep 0.1; done
    say "waited in vain for $what; $(squeue 2>&1 | tail -n 5)"
    return 1
}
has() { grep -qs "$2" "$tmp/$1"/shard-*.log; }
gone() { [ -z "$(squeue -h -o %i)" ]; }

kill_one() { # model
    local pid t
    for t in $(seq 200); do
        pid=$(worker "$1")
        [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null
        sleep 0.3
        has "$1" 'killed by signal 9' && return 0
    done
    say "no worker of $1 could be killed in time"
}
preempt_one() { # model: what runs on n1 must make room
    local t
    for t in $(seq 40); do
        wait_for 60 "a task on n1" on n1 || return
        sbatch -Q -p urgent -w n1 --time=1 --output=/dev/null --wrap 'sleep 1'
        sleep 2
        grep -qs "on .* start [2-9]" "$tmp/$1"/shard-*.log && has "$1" 'status 143\|CANCELLED\|PREEMPT' && return 0
        gone && break
    done
    say "no task of $1 was preempted"
}
on() { squeue -h -t R -p work -w "$1" -o %i | grep -q .; }

first=${models%% *}
submit "$first"
kill_one "$first"
preempt_one "$first"
scontrol update nodename=n3 state=drain reason=test
before=$(cat "$tmp/$first"/shard-*.log | grep -c '(n3)')
wait_for 300 "the end of $first" gone
[ "$(cat "$tmp/$first"/shard-*.log | grep -c '(n3)')" -le $((before + 1)) ] || say "a drained node was given work"
scontrol update nodename=n3 state=resume
common='' # the second model: goldens from a store that also keeps the verdict
for m in $models; do
    [ "$m" = "$first" ] && continue
    if [ -z "$common" ]; then
        common=$tmp/common.db
        # shellcheck disable=SC2046
        "$ASSAY" run $(words "$m") --estimate --store "$common" >/dev/null || say "no common store"
        submit "$m" "$common"
    else
        submit "$m"
    fi
done
wait_for 900 "the end of all" gone

for m in $models; do
    # shellcheck disable=SC2046
    ASSAY_STORE=$tmp/$m.db "$ASSAY" run $(words "$m") >"$tmp/$m.txt"
    status=$?
    cmp -s "$tmp/$m.txt" "$tmp/$m/report.txt" || say "$m: one process and Slurm differ: $(diff "$tmp/$m.txt" "$tmp/$m/report.txt" 2>&1 | head -c 500) $(tail -n 3 "$tmp/$m/merge.log" 2>&1)"
    merged=$tmp/$m/merged.db
    [ -f "$tmp/$m/into" ] && merged=$(cat "$tmp/$m/into")
    for s in "$tmp/$m.db" "$merged"; do
        "$ASSAY" store check --store "$s" >"$tmp/check" || say "$s: $(cat "$tmp/check")"
        python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute("DROP TRIGGER run_sealed"); c.execute("UPDATE run SET started = 0, finished = 0"); c.commit()' "$s"
        ASSAY_STORE=$s "$ASSAY" report 1 --html -o "$s.html" >/dev/null
    done
    cmp -s "$tmp/$m.db.html" "$merged.html" || say "$m: the two HTML reports differ"
    starts=$(cat "$tmp/$m"/shard-*.log | grep -c '^shard .* start ')
    printf 'check_slurm: %-20s %d shards, %d starts: %s (status %d), the report of one process\n' "$m" $n "$starts" \
        "$(sed -n 's/^verdict *//p' "$tmp/$m/report.txt")" $status
done
[ "$(cat "$tmp/$first"/shard-*.log | grep -c 'start [2-9]')" -ge 2 ] || say "fewer than two tasks were started again"
[ $bad = 0 ] || tail -n 5 "$tmp"/*/merge.log "$tmp/$first"/shard-*.log
exit $bad
