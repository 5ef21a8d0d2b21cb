/* SPDX-License-Identifier: BSD-3-Clause */
/* The profile of a machine, machines/NAME.yaml: facts for plans and launch commands.
 * docs/new-machine.md says how to write one. */
#ifndef MDS_PLAN_MACHINE_H
#define MDS_PLAN_MACHINE_H

#include "config/config.h"
#include "config/diag.h"
#include "config/optset.h"

#include <stdint.h>

/* Who starts the ranks.  PLAIN is the MPI standard's own `mpiexec -n N`, on one host.
 */
enum mds_launcher {
    MDS_LAUNCHER_PLAIN,
    MDS_LAUNCHER_PALS,
    MDS_LAUNCHER_HYDRA,
    MDS_LAUNCHER_OPENMPI,
    MDS_LAUNCHER_SRUN,
};

/* Who gives out nodes. */
enum mds_scheduler {
    MDS_SCHEDULER_NONE,
    MDS_SCHEDULER_PBS,
    MDS_SCHEDULER_SLURM,
    MDS_SCHEDULER_COBALT,
};

enum mds_gpu_order { MDS_GPU_FORWARD, MDS_GPU_REVERSE };

struct mds_queue {
    char *name; /* several rows of one name: what it gives to how many nodes */
    int64_t min_nodes, max_nodes;
    double max_s;    /* longest walltime */
    int preemptable; /* jobs may be killed without warning */
    int64_t at_once; /* jobs of an array that it takes at a time; 0: all */
};

/* Fused causal attention, measured; half of the square counts. */
struct mds_attention_rate {
    int64_t head, seq;
    double forward, backward; /* FLOP/s */
};

struct mds_variable {
    char *name, *value;
};

struct mds_machine {
    char *path; /* the file it was read from */
    char *name, *about;
    char *hosts;    /* shell patterns of host names, separated by blanks; or NULL */
    char *variable; /* "NAME=VALUE", where others have hosts of such names; or NULL */

    struct {
        int64_t count;       /* in the whole machine */
        int64_t gpus, ranks; /* ranks: 0 means one per GPU */
        int64_t cores;
        int64_t memory; /* bytes of the host */
        char *scratch;  /* node-local folder, or NULL */
    } node;
    struct {
        char *kind;  /* "A100-40GB"; NULL without GPUs */
        char *names; /* shell patterns of nvidia-smi's names for such GPUs, or NULL */
        int64_t memory;
        double capability; /* CUDA's compute capability, 8.0; 0: not known */
        int order;         /* enum mds_gpu_order: which GPU local rank 0 takes */
    } gpu;
    struct { /* what programs reach, not what data sheets promise; per GPU (or rank) */
        double matmul_flops, matmul_fp32_flops, attention_flops;
        double memory_bytes_s;
        double call_s; /* launch of one operation */
    } rates;
    struct {                        /* bytes a second, one direction */
        double gpu_bytes_s;         /* between GPUs of a node */
        double pair_bytes_s;        /* where a group has two of them; 0: the same */
        double net_bytes_s;         /* out of a node, all adapters together */
        double host_bytes_s;        /* between a GPU and its host's memory */
        int64_t host_gpus;          /* GPUs that have that between them */
        double host_memory_bytes_s; /* of a node's memory */
        double core_bytes_s;        /* what one core of it reads and writes */
        double disk_bytes_s;        /* both directions: of a node's local disk */
        double latency_s;
    } links;
    struct {
        int64_t bytes; /* taken on a lone GPU by what no ledger sees */
        int64_t channels, peer_channels; /* NCCL's: struct mds_comm_channels */
    } overhead;

    struct {
        int kind;          /* enum mds_launcher */
        char *command;     /* "mpiexec" */
        char *flags;       /* words that come first, or NULL */
        char *binding;     /* words; {depth} is the cores of each rank */
        char *gpu_binding; /* instead, where the cores near GPUs are known; {near} */
        char *pass;        /* names of variables to hand on (Open MPI's -x) */
    } launcher;
    struct {
        int scheduler;      /* enum mds_scheduler */
        char *queue_option; /* before a queue's name: "--qos="; NULL: the usual one */
        char *directives;   /* lines of a job's head, without "#PBS "; {nodes} {gpus} */
        char *modules;      /* words for `module load`, or NULL */
        char *init;         /* shell line before that, or NULL */
    } batch;

    struct mds_attention_rate *attention; /* by head size, then length */
    size_t attention_count;
    struct mds_queue *queues;
    size_t queue_count;
    struct mds_variable *environment;
    size_t variable_count;

    struct mds_settings facts; /* the origin of each value */
};

/* Read and check a profile.  *out is set on success only; diag (zeroed) receives all
 * faults, each with "file:line", and they are mds_fail_text() as well. */
enum mds_rc mds_machine_load(const char *path, struct mds_diag *diag,
                             struct mds_machine **out);
void mds_machine_destroy(struct mds_machine *m); /* NULL is fine */

/* The profile named `name` (or at that path); with NULL the one whose patterns match
 * `host`, or localhost's if none does. */
enum mds_rc mds_machine_find(const char *name, const char *host, struct mds_diag *diag,
                             struct mds_machine **out);

/* GPUs that this host was found to have. */
struct mds_gpus {
    char name[96]; /* as nvidia-smi has it; "" where it says none */
    int count;
    int64_t memory; /* bytes of each */
};

/* Whether a profile is for this host, whatever it is: one node, and no queue. */
int mds_machine_is_here(const struct mds_machine *m);

/* A host that has GPUs of which its profile says nothing: what they can do is taken
 * from the first profile (in alphabetical order) whose gpu.names match.  *m is replaced
 * by that of both; left as it is, with MDS_OK, where no profile knows them. */
enum mds_rc mds_machine_take_gpus(const struct mds_gpus *g, struct mds_diag *diag,
                                  struct mds_machine **m);

/* Whether its GPUs compute with that type, as far as is known. */
int mds_machine_has_type(const struct mds_machine *m, enum mds_number_type type);

/* FLOP/s of attention for that head size and length: between the measured rows, or
 * rates.attention_flops where there are none. */
double mds_machine_attention_flops(const struct mds_machine *m, double head, double seq,
                                   int backward);

/* Ranks on each node: one per GPU, or what the profile says. */
int64_t mds_machine_ranks(const struct mds_machine *m);

/* What the queue of that name gives to so many nodes: the first row of it that takes
 * them; with nodes 0 the first row of all.  NULL where there is none. */
const struct mds_queue *mds_machine_queue(const struct mds_machine *m, const char *name,
                                          int64_t nodes);

#endif
