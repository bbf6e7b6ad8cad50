# A real Slurm on this machine, sourced by the tests: munged, slurmctld and three slurmd in a folder of their own.
#   cluster_start FOLDER    status 1 with the reason on standard output when it cannot be had
#   cluster_stop            ends what was started, by process number
nodes=3
daemons=()

cluster_conf() { # FOLDER
    local host cpus memory i
    host=$(hostname -s) memory=$(awk '/MemTotal/ {print int($2 / 1024 / 4)}' /proc/meminfo)
    cat >"$1/slurm.conf" <<CONF
ClusterName=assay
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$1/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPort=$port
SlurmctldPidFile=$1/slurmctld.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdPidFile=$1/slurmd-%n.pid
SlurmdLogFile=$1/slurmd-%n.log
SlurmdSpoolDir=$1/spool-%n
StateSaveLocation=$1/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_min_interval=100000
ReturnToService=2
SlurmdTimeout=120
KillWait=5
CONF
    for i in $(seq $nodes); do
        echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=1 RealMemory=$memory State=UNKNOWN" >>"$1/slurm.conf"
    done
    echo "PartitionName=work Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1" >>"$1/slurm.conf"
    echo "PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10" >>"$1/slurm.conf"
}

cluster_packages() {
    command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null && return 0
    [ "$(id -u)" = 0 ] || { echo "slurm-wlm and munge are not installed, and this is not root"; return 1; }
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge; } \
        >/dev/null 2>&1 || { echo "slurm-wlm and munge cannot be installed"; return 1; }
}

cluster_start() { # FOLDER
    local i t
    cluster_packages || return 1
    [ "$(id -u)" = 0 ] || { echo "a Slurm of one's own needs root"; return 1; }
    port=$((20000 + $$ % 20000))
    mkdir -p "$1/state" && chmod 755 "$1"
    dd if=/dev/urandom of="$1/munge.key" bs=128 count=1 2>/dev/null && chmod 400 "$1/munge.key"
    munged --foreground --force --key-file="$1/munge.key" --socket="$1/munge.socket" --pid-file="$1/munge.pid" \
        --log-file="$1/munge.log" --seed-file="$1/munge.seed" >"$1/munged.out" 2>&1 &
    daemons+=($!)
    cluster_conf "$1"
    export SLURM_CONF=$1/slurm.conf
    for t in $(seq 50); do [ -S "$1/munge.socket" ] && break; sleep 0.1; done
    slurmctld -D -c >"$1/slurmctld.out" 2>&1 &
    daemons+=($!)
    for i in $(seq $nodes); do
        mkdir -p "$1/spool-n$i"
        slurmd -D -N "n$i" >"$1/slurmd-n$i.out" 2>&1 &
        daemons+=($!)
    done
    for t in $(seq 300); do
        [ "$(sinfo -h -N -p work -t idle -o %N 2>/dev/null | wc -l)" = $nodes ] && return 0
        sleep 0.2
    done
    echo "the nodes do not come up: $(tail -n 2 "$1"/slurmctld.log "$1"/slurmd-*.log 2>&1 | tr '\n' ' ' | tail -c 900)"
    return 1
}

cluster_stop() {
    local d
    for ((d = ${#daemons[@]} - 1; d >= 0; d--)); do
        kill "${daemons[$d]}" 2>/dev/null
        wait "${daemons[$d]}" 2>/dev/null
    done
    daemons=()
}
