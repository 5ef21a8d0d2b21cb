# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# A Slurm of four nodes, n1 to n4 (n1 and n2 in the default partition), of eight cores with two threads and four GPUs each, all on this host, beside whatever
# Slurm it has: own folder, own ports, own keys.  The GPUs are the null device.  Sourced.
#
#     cluster_missing        what this host lacks for it, or nothing
#     cluster_up FOLDER      bring it up; from now on sbatch and the others speak to it
#     cluster_down FOLDER    end every job and daemon of it; FOLDER stays, for its logs

PATH=$PATH:/usr/sbin:/sbin

cluster_missing() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "only root can bring up a Slurm here"
        return
    fi
    for program in munged slurmctld slurmd sbatch srun scontrol; do
        command -v $program > /dev/null || {
            echo "no $program (Debian: slurmctld slurmd slurm-client munge)"
            return
        }
    done
}

# free_ports N: the first of N ports in a row that nobody listens on
free_ports() {
    cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | awk -v n="$1" -v seed=$$ '
        function value(hex, i, v) {
            for (i = 1; i <= 4; i++)
                v = 16 * v + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
            return v
        }
        $4 == "0A" { split($2, a, ":"); taken[value(a[length(a)])] = 1 }
        END {
            for (p = 20000 + seed * 7 % 10000; i < n; p++)
                i = p in taken ? 0 : i + 1
            print p - n
        }'
}

# write_slurm_conf FOLDER PORT
write_slurm_conf() {
    host=$(hostname -s)
    cat > "$1/slurm.conf" << END
ClusterName=mds
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$1/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort=$2
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool/%n
TmpFS=$1/tmp/%n
SlurmctldPidFile=$1/slurmctld.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdPidFile=$1/slurmd-%n.pid
SlurmdLogFile=$1/slurmd-%n.log
PlugStackConfig=$1/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=10
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
JobRequeue=1
KillWait=5
MinJobAge=3600
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$(($2 + 1))-$(($2 + 4))] CPUs=16 Sockets=1 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=1000 Gres=gpu:fake:4
# a job in urgent takes the nodes of others, which have 20 s to end
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=debug Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP GraceTime=20
PartitionName=wide Nodes=ALL MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
END
    echo "NodeName=n[1-4] Name=gpu Type=fake File=$1/gpu[0-3]" > "$1/gres.conf"
    # PBS_* for jobs that qsub submits
    for plugin in /usr/lib/*/slurm-wlm/spank_pbs.so; do
        [ ! -e "$plugin" ] || echo "optional $plugin"
    done > "$1/plugstack.conf"
}

# all_idle: within ten seconds
all_idle() {
    for _ in $(seq 20); do
        [ "$(sinfo -h -p wide -o %D -t idle 2> /dev/null)" != 4 ] || return 0
        sleep 0.5
    done
    sinfo
    return 1
}

cluster_up() {
    mkdir -p "$1/state" || return
    for node in n1 n2 n3 n4; do
        mkdir -p "$1/spool/$node" "$1/tmp/$node" || return
    done
    for i in 0 1 2 3; do
        mknod "$1/gpu$i" c 1 3 || return
    done
    write_slurm_conf "$1" "$(free_ports 5)"
    dd if=/dev/urandom of="$1/munge.key" bs=128 count=1 2> /dev/null &&
        chmod 0400 "$1/munge.key" || return
    SLURM_CONF=$1/slurm.conf
    export SLURM_CONF
    munged --force --key-file="$1/munge.key" --socket="$1/munge.sock" \
        --pid-file="$1/munged.pid" --log-file="$1/munged.log" \
        --seed-file="$1/munge.seed" &&
        slurmctld || return
    for node in n1 n2 n3 n4; do
        slurmd -N $node || return
    done
    all_idle
}

# processes_of FOLDER: daemons, jobs and clients of the Slurm there, which all have its
# configuration in their environment; not this shell
processes_of() {
    for process in /proc/[0-9]*; do
        [ "${process#/proc/}" = $$ ] ||
            ! grep -qsF "SLURM_CONF=$1/slurm.conf" "$process/environ" ||
            echo "${process#/proc/}"
    done
}

cluster_down() {
    for _ in $(seq 50); do
        processes=$(processes_of "$1")
        [ -n "$processes" ] || return 0
        # shellcheck disable=SC2086  # a list
        kill -9 $processes 2> /dev/null
        sleep 0.1
    done
    echo "still there: $processes"
    return 1
}
