/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that a profile is complete and consistent. */
#include "base/str.h"
#include "plan/machine_impl.h"

#include <string.h>

static int is_in_file(const struct mds_machine *m, const char *key)
{
    return mds_settings_of(&m->facts, key)->level == MDS_LEVEL_FILE;
}

static void require_fact(const struct mds_machine *m, const char *const *keys,
                         size_t count, const char *why, struct mds_diag *diag)
{
    struct mds_str missing = {0};

    for (size_t i = 0; i < count; i++)
        if (!is_in_file(m, keys[i]))
            mds_str_add(&missing, "%s%s", missing.len ? ", " : "", keys[i]);
    if (missing.len)
        mds_diag_fault(diag, m->path, "no %s%s", missing.s, why);
    mds_str_fini(&missing);
}

static void check_gpu(const struct mds_machine *m, struct mds_diag *diag)
{
    static const char *const keys[] = {"gpu.kind", "gpu.memory", "overhead.bytes"};

    if (m->node.gpus > 0)
        require_fact(m, keys, sizeof keys / sizeof *keys, ", and node.gpus is not 0",
                     diag);
    else if (m->node.ranks == 0)
        mds_diag_fault(diag, m->path,
                       "node.gpus is 0, so node.ranks must say how many ranks a node "
                       "takes");
    if (m->overhead.bytes > 0 && m->gpu.memory > 0 &&
        m->overhead.bytes >= m->gpu.memory)
        mds_diag_fault(diag, mds_settings_of(&m->facts, "overhead.bytes")->origin,
                       "overhead.bytes must be less than gpu.memory");
}

/* Slurm writes CUDA_VISIBLE_DEVICES of each task itself: a step has its GPUs in their
 * own order, whatever its line says. */
static void check_order(const struct mds_machine *m, struct mds_diag *diag)
{
    if (m->gpu.order == MDS_GPU_REVERSE && m->launcher.kind == MDS_LAUNCHER_SRUN)
        mds_diag_fault(diag, mds_settings_of(&m->facts, "gpu.order")->origin,
                       "gpu.order: srun hands out GPUs in their own order; leave it "
                       "out: ranks bind themselves near their GPUs");
}

/* The first {name} in text that is not among the placeholders, "{a}{b}"; or NULL. */
static const char *unknown_placeholder(const char *text, const char *placeholders)
{
    for (; text && (text = strchr(text, '{')); text++) {
        size_t n = strcspn(text, "}") + 1;
        const char *at = strstr(placeholders, "{");

        while (at && strncmp(at, text, n) != 0)
            at = strchr(at + 1, '{');
        if (!at)
            return text;
    }
    return NULL;
}

static void check_placeholders(const struct mds_machine *m, struct mds_diag *diag)
{
    const struct {
        const char *key, *text, *placeholders;
    } rows[] = {
        {"batch.directives", m->batch.directives, "{nodes}{gpus}{folder}"},
        {"launcher.binding", m->launcher.binding, "{depth}"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *at = unknown_placeholder(rows[i].text, rows[i].placeholders);

        if (at)
            mds_diag_fault(diag, mds_settings_of(&m->facts, rows[i].key)->origin,
                           "%s: unknown placeholder %.*s; known are %s", rows[i].key,
                           (int)strcspn(at, "} \n") + 1, at, rows[i].placeholders);
    }
}

static void check_queues(const struct mds_machine *m, struct mds_diag *diag)
{
    if (m->batch.scheduler == MDS_SCHEDULER_NONE && m->queue_count > 0)
        mds_diag_fault(
            diag, m->path,
            "batch.scheduler is none, but there are queues; remove one of them");
    for (size_t i = 0; i < m->queue_count; i++)
        if (m->node.count > 0 && m->queues[i].max_nodes > m->node.count)
            mds_diag_fault(diag, m->path,
                           "queue %s: max_nodes %lld is more than node.count %lld",
                           m->queues[i].name, (long long)m->queues[i].max_nodes,
                           (long long)m->node.count);
}

void mds_machine_check(const struct mds_machine *m, struct mds_diag *diag)
{
    static const char *const command[] = {"launcher.command"};
    static const char *const keys[] = {
        "machine.name",
        "machine.about",
        "node.count",
        "node.gpus",
        "node.cores",
        "node.memory",
        "rates.matmul_flops",
        "rates.matmul_fp32_flops",
        "rates.attention_flops",
        "rates.memory_bytes_s",
        "links.gpu_bytes_s",
        "links.net_bytes_s",
        "links.host_bytes_s",
        "links.host_memory_bytes_s",
    };

    require_fact(m, keys, sizeof keys / sizeof *keys, "; every profile must give that",
                 diag);
    if (m->launcher.kind != MDS_LAUNCHER_PLAIN)
        require_fact(m, command, 1, "; every launcher but plain needs it", diag);
    if (m->variable && !strchr(m->variable, '='))
        mds_diag_fault(diag, mds_settings_of(&m->facts, "machine.variable")->origin,
                       "machine.variable '%s': must be NAME=VALUE", m->variable);
    check_gpu(m, diag);
    check_order(m, diag);
    check_placeholders(m, diag);
    check_queues(m, diag);
}

/* CUDA C++ Programming Guide, "Arithmetic instructions": bf16 from 8.0 on. */
int mds_machine_supports_type(const struct mds_machine *m, enum mds_number_type type)
{
    return type != MDS_TYPE_BF16 || m->node.gpus == 0 || m->gpu.capability <= 0 ||
           m->gpu.capability >= 8;
}

enum mds_rc mds_machine_check_fp8(const struct mds_machine *m,
                                  const struct mds_config *c)
{
    const char *device = c->output.device;

    if (c->model.fp8.format == MDS_FP8_NONE || m->rates.matmul_fp8_flops > 0 ||
        (device && strcmp(device, "cpu") == 0))
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "--fp8-format: %s has no FP8: its profile gives no "
                    "rates.matmul_fp8_flops, and GPUs need compute capability 8.9 for "
                    "it; give --fp8-format none",
                    m->name);
}
