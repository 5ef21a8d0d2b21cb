/* SPDX-License-Identifier: BSD-3-Clause */
/* The scalar facts of a profile, as rows of the settings engine. */
#include "plan/machine_impl.h"

#include <stddef.h>

#define AT(field) ((ptrdiff_t)offsetof(struct mds_machine, field))

/* In the order of the enums in machine.h. */
static const char *const launchers[] = {"plain", "pals", "hydra", "openmpi",
                                        "srun",  "flux", NULL};
static const char *const orders[] = {"forward", "reverse", NULL};

static const char g[] = "Facts";

static const struct mds_option rows[] = {
    {g, "machine.name", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(name), "name",
     .help = "what MACHINE= calls it"},
    {g, "machine.about", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(about),
     "words", .help = "one line for people"},
    {g, "machine.hosts", NULL, NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(hosts),
     "pattern...", .help = "host names that mean this machine"},
    {g, "machine.variable", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(variable),
     "NAME=VALUE", .help = "in the environment of these hosts, and of no others"},

    {g, "node.count", NULL, NULL, MDS_OPT_INT, NULL, 1, 1e6, NULL, AT(node.count),
     "nodes", .help = "nodes of the whole machine"},
    {g, "node.gpus", NULL, NULL, MDS_OPT_INT, NULL, 0, 64, NULL, AT(node.gpus), "GPUs",
     .help = "GPUs of a node"},
    {g, "node.ranks", NULL, NULL, MDS_OPT_INT, NULL, 0, 4096, NULL, AT(node.ranks),
     "ranks", .help = "ranks a node, where that is not one for each GPU"},
    {g, "node.cores", NULL, NULL, MDS_OPT_INT, NULL, 1, 4096, NULL, AT(node.cores),
     "cores", .help = "cores of a node"},
    {g, "node.memory", NULL, NULL, MDS_OPT_BYTES, NULL, 1 << 28, 1e15, NULL,
     AT(node.memory), "bytes", .help = "host memory of a node"},
    {g, "node.scratch", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(node.scratch),
     "folder", .help = "folder on a local disk"},

    {g, "gpu.kind", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(gpu.kind), "kind",
     .help = "as the model table's layouts name it: A100-40GB"},
    {g, "gpu.names", NULL, NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(gpu.names),
     "pattern...", .help = "what nvidia-smi calls them, for hosts without a profile"},
    {g, "gpu.memory", NULL, NULL, MDS_OPT_BYTES, NULL, 1 << 28, 1e13, NULL,
     AT(gpu.memory), "bytes", .help = "memory of a GPU"},
    {g, "gpu.capability", NULL, NULL, MDS_OPT_REAL, "0", 0, 100, NULL,
     AT(gpu.capability), "version", .help = "CUDA's compute capability: 8.0 has bf16"},
    {g, "gpu.order", NULL, NULL, MDS_OPT_ENUM, "forward", 0, 0, orders, AT(gpu.order),
     "order", .help = "reverse: local rank 0 sits nearest to the last GPU"},

    {g, "rates.matmul_flops", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e18, NULL,
     AT(rates.matmul_flops), "FLOP/s", .help = "products of 16-bit matrices"},
    {g, "rates.matmul_fp32_flops", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e18, NULL,
     AT(rates.matmul_fp32_flops), "FLOP/s", .help = "products of fp32 matrices"},
    {g, "rates.matmul_fp8_flops", NULL, NULL, MDS_OPT_REAL, "0", 0, 1e18, NULL,
     AT(rates.matmul_fp8_flops), "FLOP/s",
     .help = "products of FP8 matrices; 0: it has none"},
    {g, "rates.attention_flops", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e18, NULL,
     AT(rates.attention_flops), "FLOP/s", .help = "fused causal attention"},
    {g, "rates.memory_bytes_s", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e15, NULL,
     AT(rates.memory_bytes_s), "bytes/s", .help = "device memory"},
    {g, "rates.call_s", NULL, NULL, MDS_OPT_REAL, "0", 0, 1, NULL, AT(rates.call_s),
     "seconds", .help = "least time of one operation"},

    {g, "links.gpu_bytes_s", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e14, NULL,
     AT(links.gpu_bytes_s), "bytes/s", .help = "between GPUs (or ranks) of a node"},
    {g, "links.pair_bytes_s", NULL, NULL, MDS_OPT_REAL, "0", 0, 1e14, NULL,
     AT(links.pair_bytes_s), "bytes/s",
     .help = "in a node, where a group has two ranks; 0: gpu_bytes_s"},
    {g, "links.net_bytes_s", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e14, NULL,
     AT(links.net_bytes_s), "bytes/s", .help = "out of a node, all adapters together"},
    {g, "links.host_bytes_s", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e14, NULL,
     AT(links.host_bytes_s), "bytes/s", .help = "between a GPU and host memory"},
    {g, "links.host_gpus", NULL, NULL, MDS_OPT_INT, "1", 1, 64, NULL,
     AT(links.host_gpus), "GPUs", .help = "that share that link: behind one switch"},
    {g, "links.host_memory_bytes_s", NULL, NULL, MDS_OPT_REAL, NULL, 1e6, 1e14, NULL,
     AT(links.host_memory_bytes_s), "bytes/s", .help = "host memory of a node"},
    {g, "links.core_bytes_s", NULL, NULL, MDS_OPT_REAL, "9e9", 1e6, 1e14, NULL,
     AT(links.core_bytes_s), "bytes/s", .help = "host memory, of one core"},
    {g, "links.disk_bytes_s", NULL, NULL, MDS_OPT_REAL, "2e9", 1e6, 1e14, NULL,
     AT(links.disk_bytes_s), "bytes/s",
     .help = "a node's local disk, read and written at once, together"},
    {g, "links.latency_s", NULL, NULL, MDS_OPT_REAL, "0", 0, 1, NULL,
     AT(links.latency_s), "seconds", .help = "of one message"},

    {g, "overhead.bytes", NULL, NULL, MDS_OPT_BYTES, "0", 0, 1e12, NULL,
     AT(overhead.bytes), "bytes",
     .help = "memory of a lone GPU that context and libraries take"},
    {g, "overhead.channels", NULL, NULL, MDS_OPT_INT, "24", 1, 64, NULL,
     AT(overhead.channels), "channels",
     .help = "of NCCL within a node: coll channels, as NCCL_DEBUG=INFO says"},
    {g, "overhead.peer_channels", NULL, NULL, MDS_OPT_INT, "32", 1, 64, NULL,
     AT(overhead.peer_channels), "channels",
     .help = "of NCCL within a node: p2p channels per peer"},

    {g, "launcher.kind", NULL, NULL, MDS_OPT_ENUM, "plain", 0, 0, launchers,
     AT(launcher.kind), "kind", .help = "whose options the command understands"},
    {g, "launcher.command", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(launcher.command), "command", .help = "what starts ranks"},
    {g, "launcher.flags", NULL, NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL,
     AT(launcher.flags), "word...", .help = "its first words"},
    {g, "launcher.binding", NULL, NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL,
     AT(launcher.binding), "word...",
     .help = "how ranks are bound to cores; {depth} is threads of a rank"},
    {g, "launcher.pass", NULL, NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(launcher.pass),
     "name...", .help = "variables that ranks inherit (-x)"},

    {g, "batch.scheduler", NULL, NULL, MDS_OPT_ENUM, "none", 0, 0, mds_scheduler_names,
     AT(batch.scheduler), "kind", .help = "who gives out nodes"},
    {g, "batch.queue_option", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(batch.queue_option), "option", .help = "what stands before a queue's name"},
    {g, "batch.directives", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(batch.directives), "line", .help = "further lines of a job's head"},
    {g, "batch.modules", NULL, NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(batch.modules),
     "module...", .help = "modules a job loads"},
    {g, "batch.init", NULL, NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(batch.init),
     "line", .help = "shell line that defines `module`"},
    {.help = NULL},
};

const struct mds_option_set mds_machine_facts = {.program = "mds_launch check-profile",
                                                 .options = rows};
