/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt upcycle: a dense model becomes a mixture of experts, each of them its MLP
 * (Komatsuzaki et al. 2022, arXiv:2212.05055).  As a token's weights add up to 1, the
 * model computes what it did, until its experts learn different things.
 */
#include "base/str.h"
#include "programs/mds_ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
    struct mds_ckpt_reader *reader;
    uint64_t seed;
};

/* ---- values ---- */

/* Its name in the dense model: "layer.0.mlp.experts.7.up.weight" without the two words
 * that number an expert. */
static void dense_name(const char *name, char out[64])
{
    const char *at = strstr(name, ".experts."), *end = at ? strchr(at + 9, '.') : NULL;

    if (end)
        snprintf(out, 64, "%.*s%s", (int)(at - name), name, end);
    else
        snprintf(out, 64, "%s", name);
}

/* What the dense model does not have, the router, begins as in any new run; so do
 * moments. */
static enum mds_rc fill(void *ctx, const struct mds_params *local,
                        enum mds_ckpt_what what, int unit, int64_t first, int64_t n,
                        float *out)
{
    const struct source *s = ctx;

    if (what == MDS_CKPT_WEIGHT)
        return mds_ckpt_reader_fill(s->reader, local, s->seed, what, unit, first, n,
                                    out);
    memset(out, 0, (size_t)n * sizeof *out);
    return MDS_OK;
}

/* ---- the configuration ---- */

/* Whether a line of the saved configuration sets one of these. */
static int is_replaced(const char *line)
{
    static const char *const keys[] = {"  experts:", "  expert_topk:", "  fp8_format:",
                                       "  sequence_tile:", "  tensor_chunks:"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0)
            return 1;
    return 0;
}

/* That of the dense model with experts; what these do not have is at its default. */
static enum mds_rc add_experts(const char *dense, const struct mds_ckpt_options *o,
                               struct mds_str *out)
{
    for (const char *line = dense; *line;) {
        int n = (int)strcspn(line, "\n");

        if (!is_replaced(line))
            mds_str_add(out, "%.*s\n", n, line);
        if (strncmp(line, "model:", 6) == 0)
            mds_str_add(out, "  experts: %lld\n  expert_topk: %lld\n",
                        (long long)o->experts, (long long)o->topk);
        line += n + (line[n] == '\n');
    }
    return out->failed ? mds_fail(MDS_EMEM, "no host memory") : MDS_OK;
}

static enum mds_rc read_config(const struct mds_ckpt_input *dense,
                               const struct mds_invocation *c,
                               struct mds_config_run **run)
{
    char *configuration, *provenance;
    struct mds_str text = {0};
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_index_texts(dense->ix->path, &configuration, &provenance));
    rc = add_experts(configuration, mds_ckpt_options(c), &text);
    if (!rc)
        rc = mds_layout_read(text.s, dense->ix->path, (int)c->operand_count - 1,
                             c->operand + 1, dense->ix->state.vocab, run);
    mds_str_fini(&text);
    free(configuration);
    free(provenance);
    return rc;
}

/* ---- the checkpoint ---- */

static enum mds_rc write_experts(const struct mds_ckpt_input *dense,
                                 struct mds_config_run *run,
                                 const struct mds_invocation *c)
{
    struct source s = {dense->reader, (uint64_t)run->config.train.seed};
    const struct mds_make_source source = {&s, fill};
    const struct mds_ckpt_state *was = &dense->ix->state;
    const struct mds_ckpt_state start = {
        .loss_scale = 1, .tokenizer = was->tokenizer, .eod = was->eod};
    struct mds_str origin = {0};
    enum mds_rc rc = MDS_EMEM;

    mds_ckpt_reader_rename(dense->reader, dense_name);
    mds_str_add(&origin, "made from: %s, its MLPs as %lld experts each\n",
                dense->ix->path, (long long)run->config.model.experts.n);
    if (!origin.failed)
        rc = mds_checkpoint_make(run, c->operand[1], mds_ckpt_options(c), &start, NULL,
                                 origin.s, &source);
    mds_str_fini(&origin);
    return rc;
}

static enum mds_rc check_dense(const struct mds_ckpt_index *ix)
{
    if (mds_ckpt_index_find(ix, "layer.0.mlp.router.weight") >= 0)
        return mds_fail(MDS_EUSER, "%s: has experts already", ix->path);
    if (mds_ckpt_index_find(ix, "layer.0.mlp.down.bias") >= 0)
        return mds_fail(MDS_EUSER,
                        "%s: its MLPs have biases, and experts have none; train it "
                        "with --disable-bias-linear",
                        ix->path);
    return MDS_OK;
}

enum mds_rc mds_ckpt_run_upcycle(const struct mds_invocation *c)
{
    struct mds_config_run *run;
    struct mds_ckpt_input dense;
    enum mds_rc rc;

    if (mds_ckpt_options(c)->experts == 0)
        return mds_fail(MDS_EUSER, "upcycle: give --experts N");
    if (mds_invocation_name_count(c) < 2)
        return mds_fail(MDS_EUSER, "upcycle: give a checkpoint and a folder for the "
                                   "new one, then the layout");
    MDS_TRY(mds_ckpt_input_open(c->operand[0], &dense));
    rc = check_dense(dense.ix);
    if (!rc)
        rc = read_config(&dense, c, &run);
    if (!rc) {
        rc = write_experts(&dense, run, c);
        mds_config_run_destroy(run);
    }
    mds_ckpt_input_close(&dense);
    return rc;
}
