/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank holds what: the sizes of the grid, and whether model and batch divide. */
#include "config/config_impl.h"

#include "base/str.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* The sizes nearest to a wrong one, below and above it, that would do; 0: none. */
struct neighbours {
    int64_t below, above;
};

/* Whether a size would do in place of the present one. */
typedef int fits_fn(const struct mds_config_run *run, int64_t size);

static struct neighbours nearest_multiple(int64_t n, int64_t unit)
{
    return (struct neighbours){.below = n / unit * unit,
                               .above = n / unit * unit + unit};
}

enum { SIZES_TEXT = 64 }; /* bytes of "2 or 4" */

/* "2 or 4", in buf; there is at least one. */
static const char *format_neighbours(struct neighbours n, char buf[SIZES_TEXT])
{
    if (n.below && n.above)
        snprintf(buf, SIZES_TEXT, "%lld or %lld", (long long)n.below,
                 (long long)n.above);
    else
        snprintf(buf, SIZES_TEXT, "%lld", (long long)(n.below ? n.below : n.above));
    return buf;
}

static int64_t nearest_neighbour(struct neighbours n, int64_t size)
{
    return n.below && (!n.above || size - n.below <= n.above - size) ? n.below
                                                                     : n.above;
}

/* ---- which sizes the model allows ---- */

/* What tensor ranks divide; -> the first that `tensor` of them do not, or NULL. */
struct width {
    const char *name;
    int64_t size;
};

static const char *undivided(const struct mds_model_config *m, int64_t tensor,
                             int64_t *size)
{
    int64_t routed = mds_model_expert_layers(m);
    const struct width widths[] = {
        {"--num-attention-heads", m->heads},
        {"--num-key-value-heads", m->kv_heads},
        {"the MLP's inner width, --ffn-hidden-size",
         routed < m->layers ? m->ffn_hidden : 0},
        {"experts' inner width, --moe-ffn-hidden-size",
         routed > 0 ? m->experts.ffn_hidden : 0},
        {"--moe-shared-expert-intermediate-size", routed > 0 ? m->experts.shared : 0}};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        *size = widths[i].size;
        if (*size % tensor != 0)
            return widths[i].name;
    }
    return NULL;
}

static int tensor_fits(const struct mds_config_run *run, int64_t tensor)
{
    int64_t size;

    return !undivided(&run->config.model, tensor, &size);
}

static int ulysses_fits(const struct mds_config_run *run, int64_t ulysses)
{
    const struct mds_model_config *m = &run->config.model;
    int64_t tensor = run->config.parallel.tensor;

    return m->heads % (tensor * ulysses) == 0;
}

static int ring_fits(const struct mds_config_run *run, int64_t ring)
{
    const struct mds_parallel_config *p = &run->config.parallel;

    return run->config.model.seq_length % (p->ulysses * (ring > 1 ? 2 * ring : 1)) == 0;
}

static int expert_fits(const struct mds_config_run *run, int64_t expert)
{
    int64_t n = run->config.model.experts.n;

    return expert == 1 || (n > 0 && n % expert == 0);
}

static int pipeline_fits(const struct mds_config_run *run, int64_t pipeline)
{
    const struct mds_model_config *m = &run->config.model;
    int64_t layers = run->config.parallel.virtual_layers;

    return layers ? m->layers % (pipeline * layers) == 0 : m->layers >= pipeline;
}

enum { TENSOR, ULYSSES, RING, DATA, PIPELINE, EXPERT }; /* rows of mds_axes */

static fits_fn *const fits[MDS_AXES] = {[TENSOR] = tensor_fits,
                                        [ULYSSES] = ulysses_fits,
                                        [RING] = ring_fits,
                                        [PIPELINE] = pipeline_fits,
                                        [EXPERT] = expert_fits};

/* ---- the grid ---- */

/* Returns 1 and marks the option as derived if nobody set it. */
static int derive_if_unset(struct mds_config_run *run, const char *key, const char *how)
{
    if (mds_settings_of(&run->settings, key)->level != MDS_LEVEL_DEFAULT)
        return 0;
    mds_settings_derived(&run->settings, key, how);
    return 1;
}

static int64_t remaining_ranks(int64_t world, int64_t others)
{
    return world >= others ? world / others : 1;
}

/* SP_TYPE's meaning in the ALCF scripts. */
static void apply_sp_type(struct mds_config_run *run)
{
    struct mds_parallel_config *p = &run->config.parallel;

    if (p->sp_type == MDS_SP_MEGATRON) {
        if (derive_if_unset(run, "parallel.tensor", "SP_TYPE megatron: all ranks"))
            p->tensor = remaining_ranks(run->world, p->pipeline * p->ulysses * p->ring);
        if (derive_if_unset(run, "parallel.sequence_parallel", "SP_TYPE megatron"))
            p->sequence_parallel = p->tensor > 1;
    }
    if (p->sp_type == MDS_SP_DS) {
        if (derive_if_unset(run, "parallel.ulysses", "SP_TYPE ds: all ranks"))
            p->ulysses = remaining_ranks(run->world, p->tensor * p->pipeline * p->ring);
        if (derive_if_unset(run, "parallel.zero_stage", "SP_TYPE ds: ZeRO 3"))
            p->zero_stage = 3;
    }
}

/* As in Megatron, it is off if there is only one tensor rank. */
static void drop_sequence_parallel(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_parallel_config *p = &run->config.parallel;

    if (!p->sequence_parallel || p->tensor > 1)
        return;
    mds_diag_warn(
        diag, mds_config_origin(run, "parallel.sequence_parallel"),
        "--sequence-parallel is off: it splits sequences over tensor ranks, and "
        "--tensor-model-parallel-size is 1 (Ulysses: --ds-sequence-parallel-size)");
    p->sequence_parallel = 0;
    mds_settings_derived(&run->settings, "parallel.sequence_parallel",
                         "one tensor rank");
}

/* Warn about chunks of an exchange that does not take place. */
static void check_comm_chunks(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;

    if (p->tensor_chunks > 0 && p->tensor == 1)
        mds_diag_warn(diag, mds_config_origin(run, "parallel.tensor_chunks"),
                      "--tp-comm-chunks changes nothing: there is one tensor rank, "
                      "--tensor-model-parallel-size 1");
}

int64_t mds_config_model_ranks(const struct mds_config_run *run)
{
    return mds_axes_model_ranks(mds_axes, run->config.parallel.size);
}

/* Whether so many ranks along an axis use all ranks, by the sizes of the others. */
static int is_grid(const struct mds_config_run *run, int axis, int64_t size)
{
    struct mds_parallel_config p = run->config.parallel;

    p.size[axis] = size;
    return run->world % mds_axes_model_ranks(mds_axes, p.size) == 0;
}

/* Of the sizes of an axis that use all ranks and that the model allows, the one nearest
 * to the present one; 0: none. */
static int64_t nearest_valid_size(const struct mds_config_run *run, int axis)
{
    int64_t wrong = run->config.parallel.size[axis], best = 0;

    if (wrong == 1)
        return 0;
    for (int64_t size = 1; size <= run->world; size++)
        if (run->world % size == 0 && is_grid(run, axis, size) &&
            (!run->config.model.heads || fits[axis](run, size)))
            best = nearest_neighbour((struct neighbours){.below = best, .above = size},
                                     wrong);
    return best;
}

static void fault_ranks_do_not_divide(const struct mds_config_run *run,
                                      struct mds_diag *diag)
{
    struct mds_parallel_config p = run->config.parallel;
    int64_t copy = mds_config_model_ranks(run);
    const struct mds_settings *s = &run->settings;
    struct mds_str sizes = {0}, others = {0};
    char ranks[SIZES_TEXT];

    for (int i = 0; i < MDS_AXES; i++) {
        int64_t size = fits[i] ? nearest_valid_size(run, i) : 0;

        if (size)
            mds_str_add(&others, "%s%s %lld", others.len ? ", or " : "; or give ",
                        s->set->options[mds_settings_row(s, mds_axes[i].key)].flag,
                        (long long)size);
    }
    p.data = 0; /* which is free */
    mds_axes_format(mds_axes, p.size, &sizes);
    mds_diag_fault(diag, NULL, "%lld %s into copies of %s = %lld ranks; start %s%s",
                   (long long)run->world,
                   run->world == 1 ? "rank does not divide" : "ranks do not divide",
                   sizes.len ? sizes.s : "", (long long)copy,
                   format_neighbours(nearest_multiple(run->world, copy), ranks),
                   others.len ? others.s : "");
    mds_str_fini(&sizes);
    mds_str_fini(&others);
}

static void check_expert_size(const struct mds_config_run *run, struct mds_diag *diag)
{
    int64_t expert = run->config.parallel.expert, n = run->config.model.experts.n;
    int64_t size;

    if (expert_fits(run, expert))
        return;
    size = nearest_valid_size(run, EXPERT);
    if (n == 0)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.expert"),
                       "--expert-model-parallel-size %lld: the model has no experts; "
                       "leave it out, or give --num-experts",
                       (long long)expert);
    else
        mds_diag_fault(diag, mds_config_origin(run, "parallel.expert"),
                       "--expert-model-parallel-size %lld does not divide the %lld "
                       "experts, --num-experts; %lld would do",
                       (long long)expert, (long long)n, (long long)(size ? size : 1));
}

int mds_config_resolve_grid(struct mds_config_run *run, struct mds_diag *diag)
{
    const int64_t most = 100000000; /* as --world-size: ranks are counted in an int */
    struct mds_parallel_config *p = &run->config.parallel;

    if (run->world > most) {
        mds_diag_fault(diag, NULL, "%lld ranks: a run has %lld at most",
                       (long long)run->world, (long long)most);
        return 0;
    }
    apply_sp_type(run);
    drop_sequence_parallel(run, diag);
    check_comm_chunks(run, diag);
    if (run->world % mds_config_model_ranks(run) != 0) {
        if (run->config.model.heads && !expert_fits(run, p->expert))
            check_expert_size(run, diag); /* no number of ranks would do */
        else
            fault_ranks_do_not_divide(run, diag);
        return 0;
    }
    p->data = run->world / (p->tensor * p->ulysses * p->ring * p->pipeline);
    return 1;
}

/* ---- whether the model divides ---- */

static void check_tensor_size(const struct mds_config_run *run, struct mds_diag *diag)
{
    int64_t tensor = run->config.parallel.tensor, size;
    const char *what = undivided(&run->config.model, tensor, &size);

    if (what)
        mds_diag_fault(
            diag, mds_config_origin(run, "parallel.tensor"),
            "--tensor-model-parallel-size %lld does not divide %s %lld; %lld would do",
            (long long)tensor, what, (long long)size,
            (long long)nearest_valid_size(run, TENSOR));
}

static void check_ulysses_size(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    const struct mds_parallel_config *p = &run->config.parallel;

    if (!tensor_fits(run, p->tensor) || ulysses_fits(run, p->ulysses))
        return;
    mds_diag_fault(
        diag, mds_config_origin(run, "parallel.ulysses"),
        "--ds-sequence-parallel-size %lld does not divide the %lld heads that a tensor "
        "rank has; %lld would do, and --context-parallel-size has no such limit",
        (long long)p->ulysses, (long long)(m->heads / p->tensor),
        (long long)nearest_valid_size(run, ULYSSES));
}

/* Each ring rank has two chunks of the sequence; Ulysses and tensor ranks share
 * each. */
static void check_sequence_length(const struct mds_config_run *run,
                                  struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;
    int64_t length = run->config.model.seq_length;
    int64_t unit = p->ulysses * (p->ring > 1 ? 2 * p->ring : 1) *
                   (p->sequence_parallel ? p->tensor : 1);
    struct mds_str what = {0};
    char sizes[SIZES_TEXT];

    if (length % unit == 0)
        return;
    if (p->ring > 1)
        mds_str_add(&what, " x 2 x ring %lld", (long long)p->ring);
    if (p->ulysses > 1)
        mds_str_add(&what, " x Ulysses %lld", (long long)p->ulysses);
    if (p->sequence_parallel)
        mds_str_add(&what, " x tensor %lld", (long long)p->tensor);
    mds_diag_fault(
        diag, mds_config_origin(run, "model.seq_length"),
        "--seq-length %lld does not divide into %lld parts (%s); the nearest "
        "%s",
        (long long)length, (long long)unit, what.len ? what.s + strlen(" x ") : "",
        format_neighbours(nearest_multiple(length, unit), sizes));
    mds_str_fini(&what);
}

/* ---- the pipeline ---- */

/* 0 after a fault. */
static int resolve_model_chunks(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_parallel_config *p = &run->config.parallel;
    int64_t layers = run->config.model.layers, per_stage = layers / p->pipeline;
    const char *origin = mds_config_origin(run, "parallel.virtual_layers");

    p->virtual_stages = 1;
    if (!p->virtual_layers)
        return 1;
    if (p->pipeline == 1) {
        mds_diag_fault(diag, origin,
                       "--num-layers-per-virtual-pipeline-stage %lld: one pipeline "
                       "rank has nothing to interleave; leave it out, or give "
                       "--pipeline-model-parallel-size 2 or more",
                       (long long)p->virtual_layers);
        return 0;
    }
    if (layers % p->pipeline != 0 || per_stage % p->virtual_layers != 0) {
        int64_t unit = p->pipeline * p->virtual_layers;
        char sizes[SIZES_TEXT];

        mds_diag_fault(diag, origin,
                       "--num-layers %lld is not a multiple of %lld pipeline ranks x "
                       "chunks of %lld blocks, as interleaving needs; the nearest %s",
                       (long long)layers, (long long)p->pipeline,
                       (long long)p->virtual_layers,
                       format_neighbours(nearest_multiple(layers, unit), sizes));
        return 0;
    }
    p->virtual_stages = per_stage / p->virtual_layers;
    return 1;
}

static void check_stages_interleave(const struct mds_config_run *run,
                                    struct mds_diag *diag)
{
    const struct mds_config *c = &run->config;
    int64_t unit = c->batch.micro * c->parallel.data * c->parallel.pipeline;
    char what[160];

    snprintf(what, sizeof what,
             "micro-batch %lld x %lld data-parallel rank%s x %lld pipeline ranks, as "
             "interleaving needs",
             (long long)c->batch.micro, (long long)c->parallel.data,
             mds_plural(c->parallel.data), (long long)c->parallel.pipeline);
    mds_config_check_stages(run, unit, what, diag);
}

static void check_pipeline_size(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;
    const struct mds_model_config *m = &run->config.model;
    int64_t accumulation = run->config.batch.accumulation;
    char sizes[SIZES_TEXT];

    if (m->layers < p->pipeline)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.pipeline"),
                       "--pipeline-model-parallel-size %lld is more than the %lld "
                       "blocks of the model; %lld would do",
                       (long long)p->pipeline, (long long)m->layers,
                       (long long)m->layers);
    else if (!resolve_model_chunks(run, diag) || p->virtual_stages <= 1)
        return;
    else if (run->config.batch.schedule.n > 0)
        check_stages_interleave(run, diag);
    else if (accumulation % p->pipeline != 0)
        mds_diag_fault(
            diag, mds_config_origin(run, "batch.accumulation"),
            "--gradient-accumulation-steps %lld is not a multiple of %lld "
            "pipeline ranks, as interleaving needs; the nearest %s",
            (long long)accumulation, (long long)p->pipeline,
            format_neighbours(nearest_multiple(accumulation, p->pipeline), sizes));
}

void mds_config_check_layout(struct mds_config_run *run, struct mds_diag *diag)
{
    check_tensor_size(run, diag);
    check_ulysses_size(run, diag);
    check_sequence_length(run, diag);
    check_expert_size(run, diag);
    check_pipeline_size(run, diag);
}
