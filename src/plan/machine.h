/* SPDX-License-Identifier: BSD-3-Clause */
/* The profile of a machine, machines/NAME.yaml: facts for plans and launch commands.
 * docs/new-machine.md says how to write one. */
#ifndef MDS_PLAN_MACHINE_H
#define MDS_PLAN_MACHINE_H

#include "base/scheduler.h"
#include "config/config.h"
#include "config/diag.h"
#include "config/optset.h"

#include <stdint.h>

/* What starts the ranks.  PLAIN is the MPI standard's `mpiexec -n N`, on one host. */
enum mds_launcher {
    MDS_LAUNCHER_PLAIN,
    MDS_LAUNCHER_PALS,
    MDS_LAUNCHER_HYDRA,
    MDS_LAUNCHER_OPENMPI,
    MDS_LAUNCHER_SRUN,
    MDS_LAUNCHER_FLUX,
};

enum mds_gpu_order { MDS_GPU_FORWARD, MDS_GPU_REVERSE };

struct mds_queue {
    char *name; /* may have several rows, for different numbers of nodes */
    int64_t min_nodes, max_nodes;
    double max_s;    /* longest walltime */
    int preemptable; /* jobs may be killed without warning */
};

/* Measured speed of fused causal attention; FLOPs are of half the score matrix. */
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
    char *hosts;    /* shell patterns of host names, separated by spaces; or NULL */
    char *variable; /* "NAME=VALUE", if other machines use such host names; or NULL */

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
    struct { /* measured by programs, not from data sheets; per GPU (or rank) */
        double matmul_flops, matmul_fp32_flops, attention_flops;
        double matmul_fp8_flops; /* 0: it has no FP8 */
        double memory_bytes_s;
        double call_s; /* launch of one operation */
    } rates;
    struct {                        /* bytes a second, one direction */
        double gpu_bytes_s;         /* between GPUs of a node */
        double pair_bytes_s;        /* for groups of two GPUs; 0: the same */
        double net_bytes_s;         /* out of a node, all adapters together */
        double host_bytes_s;        /* between a GPU and its host's memory */
        int64_t host_gpus;          /* GPUs that share that link */
        double host_memory_bytes_s; /* of a node's memory */
        double core_bytes_s;        /* what one core reads and writes */
        double disk_bytes_s;        /* of a node's local disk, both directions */
        double latency_s;
    } links;
    struct {
        int64_t bytes;                   /* GPU memory of a one-GPU run, in no ledger */
        int64_t channels, peer_channels; /* NCCL's: struct mds_comm_channels */
    } overhead;

    struct {
        int kind;      /* enum mds_launcher */
        char *command; /* "mpiexec" */
        char *flags;   /* arguments that come first, or NULL */
        char *binding; /* arguments; {depth}: cores of each rank */
        char *pass;    /* environment variables to pass on (Open MPI's -x) */
    } launcher;
    struct {
        int scheduler;      /* its row: base/scheduler.h */
        char *queue_option; /* before a queue's name: "--qos="; NULL: the usual one */
        char *directives;   /* lines of a job's head, without "#PBS "; {nodes} {gpus} */
        char *modules;      /* arguments for `module load`, or NULL */
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

/* The GPUs detected on this host. */
struct mds_gpus {
    char name[96]; /* as nvidia-smi prints it; "" if it prints none */
    int count;
    int64_t memory; /* bytes of each */
};

/* Whether a profile is for the local host, whichever that is: one node, no queue. */
int mds_machine_is_local(const struct mds_machine *m);

/* For a host whose profile does not describe its GPUs: take their speeds from the first
 * profile (in alphabetical order) whose gpu.names match, and replace *m by a profile
 * merged from both.  If none matches, *m is unchanged and the result is MDS_OK. */
enum mds_rc mds_machine_merge_gpus(const struct mds_gpus *g, struct mds_diag *diag,
                                   struct mds_machine **m);

/* Whether the machine's GPUs support that type, as far as is known. */
int mds_machine_supports_type(const struct mds_machine *m, enum mds_number_type type);

/* MDS_EUSER if the configuration has FP8 and the machine's GPUs do not. */
enum mds_rc mds_machine_check_fp8(const struct mds_machine *m,
                                  const struct mds_config *c);

/* FLOP/s of attention for that head size and length: interpolated between the measured
 * rows, or rates.attention_flops if there are none. */
double mds_machine_attention_flops(const struct mds_machine *m, double head, double seq,
                                   int backward);

/* Ranks on each node: one per GPU, or what the profile says. */
int64_t mds_machine_ranks_per_node(const struct mds_machine *m);

/* The first row of the queue of that name that takes so many nodes; with nodes 0, its
 * first row.  NULL if there is none. */
const struct mds_queue *mds_machine_queue(const struct mds_machine *m, const char *name,
                                          int64_t nodes);

#endif
