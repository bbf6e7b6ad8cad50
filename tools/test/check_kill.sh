#!/usr/bin/env bash
# A run that is killed at random moments, again and again: SQLite's integrity check and every seal hold after each kill,
# no stored answer is ever lost, and in the end the report is that of a run that nobody disturbed. In turn: a plain run,
# --jobs, a shard with its merge; also two writers on one store, and a disk that is full.
# KILLS=N moments (200 in `make check-kill`), BATTERY=smoke|strict, SEED=N.
set -u
cd "$(dirname "$0")/../.."
assay=${ASSAY:-build/assay} tmp=${ASSAY_TEST_TMP:-$(mktemp -d)} bad=0 kills=${KILLS:-4} seed=${SEED:-$$} battery=${BATTERY:-smoke}
RANDOM=$seed
say() { printf 'check_kill (SEED=%s): %s\n' "$seed" "$*"; bad=1; }
sql() { python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=30); r = c.execute(sys.argv[2]).fetchall(); c.commit(); print(*[x for y in r for x in y]) if r else 0' "$@"; }
export ASSAY_DATA=$tmp/data
mkdir -p "$ASSAY_DATA/goldens"
ln -s "$PWD/batteries" "$PWD/kernels" "$ASSAY_DATA/"
cp "goldens/tiny-dense-int4g128.$battery.eager.jsonl.zst" "$ASSAY_DATA/goldens/"
run="run --engine native --model tiny-dense-int4g128 --battery $battery --threads 1"
answers() { [ -f "$1" ] && sql "$1" 'SELECT count(*) FROM stream' || echo 0; }
sound() { # store
    [ -f "$1" ] || return 0
    "$assay" store check --store "$1" >"$tmp/check" 2>&1 || say "kill $kill of $mode: $(cat "$tmp/check")"
}

start=$(date +%s%N)
ASSAY_STORE=$tmp/whole.db $assay $run >"$tmp/whole.txt" || say "the undisturbed run: $(cat "$tmp/whole.txt")"
span=$((($(date +%s%N) - start) / 1000000)) # milliseconds
all=$(answers "$tmp/whole.db")
modes=(plain jobs shard) stored=(0 0 0) landed=0
kill=0
while [ $landed -lt "$kills" ] && [ $kill -lt $((4 * kills)) ]; do
    kill=$((kill + 1))
    mode=${modes[$((kill % 3))]}
    db=$tmp/$mode.db
    case $mode in
    plain) words="$run" watch=$db ;;
    jobs) words="$run --jobs 2" watch=$db ;;
    shard) words="$run --shard 1/2" watch=$tmp/half.db ;;
    esac
    if [ $mode = shard ] && [ $((kill % 2)) = 0 ] && [ -f "$tmp/half.db" ]; then
        ASSAY_STORE=$db setsid $assay store merge "$db" "$tmp/half.db" >/dev/null 2>&1 &
    else
        ASSAY_STORE=$watch setsid $assay $words >/dev/null 2>&1 &
    fi
    victim=$!
    ms=$(((RANDOM * 32768 + RANDOM) % (span * 2 / 3 + 50)))
    sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
    kill -9 $victim 2>/dev/null && landed=$((landed + 1))
    wait $victim 2>/dev/null
    for s in "$db" "$watch" "$db"-jobs-*/*.db; do sound "$s"; done
    now=$(answers "$watch")
    [ "$now" -ge "${stored[$((kill % 3))]}" ] || say "kill $kill of $mode: ${stored[$((kill % 3))]} answers before, $now after"
    stored[kill % 3]=$now
    # A run that got its verdict is done; the next one starts over.
    [ "$(sql "$watch" 'SELECT count(*) FROM run WHERE verdict IS NOT NULL' 2>/dev/null || echo 0)" = 0 ] || {
        cmp -s <($assay show 1 --store "$watch" | grep -v '^again\|^look') <(grep -v '^again\|^look' "$tmp/whole.txt") || say "$mode was judged otherwise"
        rm -rf "$watch" "$watch"-*
        stored[kill % 3]=0
    }
done
[ $landed = "$kills" ] || say "only $landed of $kill kills hit a living process"

# To the end: nothing is left to do but what was never stored.
for mode in plain jobs; do
    words=$run
    [ $mode = jobs ] && words="$run --jobs 2"
    ASSAY_STORE=$tmp/$mode.db $assay $words >"$tmp/end.txt" 2>&1
    cmp -s "$tmp/end.txt" "$tmp/whole.txt" || say "$mode ends otherwise: $(diff "$tmp/end.txt" "$tmp/whole.txt")"
done
ASSAY_STORE=$tmp/half.db $assay $run --shard 1/2 >/dev/null || say "shard 1/2 does not end"
ASSAY_STORE=$tmp/rest.db $assay $run --shard 2/2 >/dev/null || say "shard 2/2 does not end"
$assay store merge "$tmp/shard.db" "$tmp/half.db" "$tmp/rest.db" >"$tmp/merge.txt" || say "$(cat "$tmp/merge.txt")"
ASSAY_STORE=$tmp/shard.db $assay $run >"$tmp/end.txt" 2>&1
cmp -s "$tmp/end.txt" "$tmp/whole.txt" || say "shards end otherwise: $(diff "$tmp/end.txt" "$tmp/whole.txt")"

# Two writers of one key on one store: each has a run of its own, and both are whole.
mode=twins kill=0
ASSAY_STORE=$tmp/twins.db $assay $run >"$tmp/twin1.txt" 2>&1 &
first=$!
ASSAY_STORE=$tmp/twins.db $assay $run >"$tmp/twin2.txt" 2>&1
wait $first
for i in 1 2; do grep -v '^look' "$tmp/twin$i.txt" | cmp -s - <(grep -v '^look' "$tmp/whole.txt") || say "twin $i: $(diff "$tmp/twin$i.txt" "$tmp/whole.txt")"; done
[ "$(sql "$tmp/twins.db" "SELECT count(*), count(DISTINCT run) FROM stream")" = "$((2 * all)) 2" ] || say "the twins have $(sql "$tmp/twins.db" "SELECT run, count(*) FROM stream GROUP BY run") answers"
sound "$tmp/twins.db"

# The same with --jobs, and a worker of one of them is killed: that one says so and goes on when it is called again.
mode=workers
for i in 1 2; do
    ASSAY_STORE=$tmp/workers.db $assay $run --jobs 2 >"$tmp/worker$i.txt" 2>&1 &
    parent[i]=$!
done
for t in $(seq 300); do
    pid=$(pgrep -P "${parent[1]}" | head -n 1)
    [ -n "$pid" ] && kill -9 "$pid" && break
    sleep 0.01
done
wait "${parent[1]}"
[ $? = 3 ] && grep -q 'was killed by signal 9' "$tmp/worker1.txt" || say "a killed worker is not said: $(cat "$tmp/worker1.txt")"
wait "${parent[2]}"
ASSAY_STORE=$tmp/workers.db $assay $run --jobs 2 >"$tmp/worker1.txt" 2>&1
for i in 1 2; do grep -v '^look' "$tmp/worker$i.txt" | cmp -s - <(grep -v '^look' "$tmp/whole.txt") || say "worker run $i: $(diff "$tmp/worker$i.txt" "$tmp/whole.txt")"; done
ls -d "$tmp"/workers.db-jobs-* 2>/dev/null && say "folders were left"
sound "$tmp/workers.db"

# A disk that is full in the middle: what was stored stays, and with room again the run goes on.
mode=full before=0
$assay $run --estimate --store "$tmp/empty.db" >/dev/null || say "no store without answers"
mkdir -p "$tmp/disk"
for spare in 40 60 90 130 200 300 450; do
    mount -t tmpfs -o size=$(($(stat -c %s "$tmp/empty.db") / 1024 + 32 + spare))k none "$tmp/disk" 2>/dev/null || break
    cp "$tmp/empty.db" "$tmp/disk/s.db"
    ASSAY_STORE=$tmp/disk/s.db $assay $run >"$tmp/full.txt" 2>&1
    rc=$?
    mount -o remount,size=64m "$tmp/disk"
    before=$(answers "$tmp/disk/s.db")
    [ "$before" = 0 ] || break
    umount -l "$tmp/disk"
done
if [ "$before" -gt 0 ]; then
    [ $rc = 3 ] && grep -q 'full' "$tmp/full.txt" && [ "$before" -lt "$all" ] || say "a full disk is not said after $before of $all answers: $(cat "$tmp/full.txt")"
    sound "$tmp/disk/s.db"
    ASSAY_STORE=$tmp/disk/s.db $assay $run >"$tmp/end.txt" 2>&1
    cmp -s "$tmp/end.txt" "$tmp/whole.txt" || say "with room again: $(diff "$tmp/end.txt" "$tmp/whole.txt")"
    sound "$tmp/disk/s.db"
    umount -l "$tmp/disk"
    disk="a disk full after $before of $all answers"
elif [ "$(id -u)" = 0 ] && mount -t tmpfs none "$tmp/disk" 2>/dev/null; then
    umount -l "$tmp/disk"
    say "no size of the disk let some answers in and others not"
else
    disk="NO_EVIDENCE about a full disk (a small one cannot be mounted here)"
fi
[ $bad = 0 ] && echo "check_kill: killed at $landed moments (SEED=$seed), two writers, $disk: nothing lost, the same report"
exit $bad
