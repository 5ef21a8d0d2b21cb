/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/model.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/configuration.h"
#include "infer/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the checkpoint ---- */

static int is_hugging_face(const char *load, char config[MDS_PATH_SIZE])
{
    struct stat st;

    return mds_path_join(load, "config.json", config) == MDS_OK &&
           stat(config, &st) == 0;
}

/* The settings of the model, as YAML. */
static enum mds_rc read_settings(struct mds_infer_model *m, const char *load,
                                 struct mds_str *out)
{
    struct mds_config c = {.checkpoint.load = (char *)load};
    char config[MDS_PATH_SIZE], *text;

    if (is_hugging_face(load, config)) {
        snprintf(m->path, sizeof m->path, "%s", load);
        return mds_hf_get_config(config, &m->hf, out);
    }
    MDS_TRY(mds_ckpt_find_configuration(&c, m->path, &text));
    if (!text)
        return mds_fail(MDS_EUSER,
                        "--load %s: there is no checkpoint, and no config.json of a "
                        "Hugging Face model",
                        load);
    mds_str_add(out, "%s", text);
    free(text);
    MDS_TRY(mds_ckpt_index_read(m->path, &m->ix));
    return out->failed ? MDS_EMEM : mds_ckpt_index_check_files(m->ix);
}

/* What of mds_pretrain's options concerns a model that is only evaluated. */
static int concerns_evaluation(const char *key)
{
    static const char *const keys[] = {"model.seq_length",
                                       "batch.micro",
                                       "batch.accumulation",
                                       "train.device",
                                       "model.dtype",
                                       "train.sequence_tile",
                                       "train.attention_head_groups",
                                       "train.loss_tile",
                                       "train.offload_layers",
                                       "train.threads",
                                       "model.flash_attn",
                                       "train.comm_check",
                                       "train.deterministic",
                                       "train.dry_run",
                                       "train.dry_world",
                                       "train.dry_rank",
                                       "output.log_level",
                                       "output.events",
                                       NULL};

    return strncmp(key, "parallel.", 9) == 0 || mds_str_is_in(key, keys);
}

static enum mds_rc check_options(const struct mds_settings *s)
{
    if (s->action)
        return mds_fail(MDS_EUSER, "options that only print, such as --show-config, "
                                   "belong to mds_pretrain");
    for (size_t i = 0; i < s->rows; i++)
        if (s->of[i].level == MDS_LEVEL_CLI &&
            (!s->set->options[i].key || !concerns_evaluation(s->set->options[i].key)))
            return mds_fail(MDS_EUSER,
                            "%s does not concern a model that is only evaluated; leave "
                            "it out",
                            s->of[i].spelled);
    return MDS_OK;
}

/* Documents stand side by side in a row, and do not see each other.  Nothing is saved
 * for a backward pass, as tiles want it. */
static void set_evaluation(struct mds_config *c)
{
    c->train.skip_train = 1;
    c->train.token_losses = 1;
    c->train.eval_iters = 1;
    c->train.act.recompute = MDS_RECOMPUTE_FULL;
    c->data.pack_documents = MDS_PACK_OFF;
    c->data.window_stride = 0;
    c->data.random_reverse_complement = 0;
    c->data.reset_attention_mask = 1;
    c->data.reset_position_ids = 1;
    c->data.eod_mask_loss = 1;
}

static enum mds_rc find_tokenizer(struct mds_infer_model *m, const char *given)
{
    int64_t saved = m->ix ? m->ix->state.tokenizer : 0, words;
    enum mds_tokenizer t = saved > 0 && saved <= MDS_TOKENIZERS
                               ? (enum mds_tokenizer)(saved - 1)
                               : MDS_TOKENIZER_IDS;

    if (given && saved > 0 && strcmp(given, mds_tokenizer_names[t]) != 0)
        return mds_fail(MDS_EUSER,
                        "--tokenizer %s: %s was trained on tokens of %s; leave it out",
                        given, m->path, mds_tokenizer_names[t]);
    if (given)
        t = mds_tokenizer_find(given);
    words = m->ix ? m->ix->state.vocab : m->run->config.model.vocab;
    m->vocabulary = (struct mds_vocabulary){
        .tokenizer = t, .size = words, .eod = m->ix ? (int32_t)m->ix->state.eod : -1};
    if (t == MDS_TOKENIZER_IDS)
        return MDS_OK;
    m->vocabulary = mds_tokenizer_vocabulary(t);
    if (m->vocabulary.size > words)
        return mds_fail(MDS_EUSER,
                        "%s: has %" PRId64 " words, and tokenizer %s has %" PRId64
                        ": it was trained on other tokens",
                        m->path, words, mds_tokenizer_names[t], m->vocabulary.size);
    m->vocabulary.size = words;
    return MDS_OK;
}

static enum mds_rc read_model(struct mds_infer_model *m, const char *settings, int argc,
                              char *const *argv)
{
    struct mds_diag diag = {0};
    enum mds_rc rc =
        mds_config_read_model(settings, m->path, argc, argv, &diag, &m->run);

    if (!rc)
        mds_diag_log(&diag);
    mds_diag_fini(&diag);
    return rc ? rc : check_options(&m->run->settings);
}

enum mds_rc mds_infer_model_find(struct mds_infer_model *m, const char *load,
                                 const char *tokenizer, int argc, char *const *argv)
{
    struct mds_str settings = {0};
    enum mds_rc rc = read_settings(m, load, &settings);

    if (!rc)
        rc = read_model(m, settings.s, argc, argv);
    mds_str_fini(&settings);
    if (rc)
        return rc;
    set_evaluation(&m->run->config);
    return find_tokenizer(m, tokenizer);
}

enum mds_rc mds_infer_model_want_hidden(struct mds_infer_model *m, int64_t layer)
{
    struct mds_train_config *t = &m->run->config.train;
    int64_t layers = m->run->config.model.layers;

    if (layer > layers)
        return mds_fail(MDS_EUSER,
                        "--layer %" PRId64 ": %s has %" PRId64
                        " blocks; give 1 to %" PRId64,
                        layer, m->path, layers, layers);
    m->layer = layer ? layer : layers;
    t->token_losses = 0;
    t->hidden = m->layer == layers ? MDS_HIDDEN_NORMED : MDS_HIDDEN_STREAM;
    return MDS_OK;
}

void mds_infer_model_want_logits(struct mds_infer_model *m)
{
    int bases = mds_tokenizer_bases(m->vocabulary.tokenizer);

    if (bases > 0 && bases <= MDS_INFER_WORD_BASES)
        m->run->config.train.hidden = MDS_HIDDEN_LOGITS;
}

enum mds_rc mds_infer_model_want_marginals(struct mds_infer_model *m)
{
    enum mds_tokenizer t = m->vocabulary.tokenizer;
    int bases = mds_tokenizer_bases(t);

    if (bases == 0)
        return mds_fail(MDS_EUSER,
                        "--marginal-bases: tokens of %s are not words of bases; leave "
                        "it out, or if the model reads bases, say how: --tokenizer",
                        mds_tokenizer_names[t]);
    if (mds_tokenizer_stride(t) == 1)
        return mds_fail(MDS_EUSER,
                        "--marginal-bases: with tokenizer %s each token says one base "
                        "more, so its likelihood is that of the base; leave it out",
                        mds_tokenizer_names[t]);
    m->marginal_bases = 1;
    m->run->config.train.hidden = MDS_HIDDEN_LOGITS;
    return MDS_OK;
}

static int is_given(const struct mds_infer_model *m, const char *key)
{
    return mds_settings_of(&m->run->settings, key)->level == MDS_LEVEL_CLI;
}

/* ---- generation ---- */

/* Blocks run by lists, which read a few rows at a time: there is nothing to tile.  The
 * norms of one row cannot be shared by ranks. */
enum mds_rc mds_infer_model_want_generation(struct mds_infer_model *m)
{
    static const char *const no_effect[] = {"parallel.sequence_parallel",
                                            "parallel.tensor_chunks",
                                            "parallel.virtual_layers",
                                            "batch.accumulation",
                                            "train.sequence_tile",
                                            "train.attention_head_groups",
                                            "train.loss_tile",
                                            NULL};
    struct mds_config *c = &m->run->config;

    for (int i = 0; no_effect[i]; i++)
        if (is_given(m, no_effect[i]))
            return mds_fail(MDS_EUSER, "%s does not concern generation; leave it out",
                            mds_settings_of(&m->run->settings, no_effect[i])->spelled);
    m->generates = 1;
    c->train.host_caches = c->train.act.offload_layers;
    c->train.act.offload_layers = 0;
    c->train.token_losses = 0;
    c->data.reset_attention_mask = c->data.reset_position_ids = 0;
    c->data.eod_mask_loss = 0;
    c->model.fp8.format = MDS_FP8_NONE; /* its scales are of all rows together */
    return MDS_OK;
}

/* Caches in host memory are those of blocks. */
static enum mds_rc check_host_caches(const struct mds_infer_model *m)
{
    const struct mds_config *c = &m->run->config;
    int64_t blocks = mds_stage_blocks(c);

    if (c->train.host_caches <= blocks)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "--cpu-offloading-num-layers %" PRId64
                    ": a rank has the keys and values of %" PRId64
                    " block%s; give %" PRId64 " at most",
                    c->train.host_caches, blocks, mds_plural(blocks), blocks);
}

/* ---- the shape of a step ---- */

int64_t mds_infer_model_limit(const struct mds_infer_model *m)
{
    const struct mds_model_config *c = &m->run->config.model;
    int last = m->layer == 0; /* which is a target only */

    if (is_given(m, "model.seq_length"))
        return c->seq_length + last;
    return c->position == MDS_POSITION_LEARNED ? c->max_positions + last : INT64_MAX;
}

enum mds_rc mds_infer_model_check_length(const struct mds_infer_model *m,
                                         const char *input, const char *name,
                                         int64_t tokens, int64_t limit)
{
    const char *remedy =
        is_given(m, "model.seq_length")
            ? "give a larger --seq-length"
            : "the model learned a position for each: cut the sequence into parts, or "
              "train a model of rotary positions (docs/context-extension.md)";

    if (tokens <= limit)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: %s has %" PRId64 " tokens, and %s takes %" PRId64 "; %s",
                    input, name, tokens, m->path, limit, remedy);
}

/* Reads on until the time is over. */
struct limited {
    mds_infer_visit_fn *visit;
    void *ctx;
    struct mds_infer_need *need;
};

static enum mds_rc visit_in_time(void *ctx, struct mds_infer_records *in,
                                 struct mds_infer_record *r)
{
    const struct limited *l = ctx;
    struct mds_infer_need *need = l->need;

    need->cut = need->until_s > 0 && mds_clock_s() > need->until_s;
    if (need->cut)
        need->read_bytes += mds_infer_records_raw_bytes(in);
    return need->cut ? MDS_EUSER : l->visit(l->ctx, in, r);
}

enum mds_rc mds_infer_model_measure(const struct mds_infer_model *m,
                                    const struct mds_infer_inputs *inputs,
                                    mds_infer_visit_fn *visit, void *ctx,
                                    struct mds_infer_need *need)
{
    struct limited limited = {visit, ctx, need};
    int64_t limit = mds_infer_model_limit(m);

    for (size_t i = 0; i < inputs->n && !need->cut; i++) {
        struct mds_infer_inputs one = *inputs;
        struct stat st;
        enum mds_rc rc;

        one.path += i;
        one.n = 1;
        if (strcmp(one.path[0], "-") != 0) {
            rc = mds_infer_records_each(&one, &m->vocabulary, visit_in_time, &limited);
            if (rc && !need->cut)
                return rc;
            if (!need->cut && stat(one.path[0], &st) == 0)
                need->read_bytes += (int64_t)st.st_size;
        } else if (limit == INT64_MAX) {
            return mds_fail(MDS_EUSER, "standard input is read once only: give "
                                       "--seq-length, the longest sequence in tokens");
        } else {
            need->longest = need->longest_prompt = limit;
            need->tokens = need->sequences = INT64_MAX / 2;
        }
    }
    return MDS_OK;
}

/* What a row's length has to be a multiple of; more than 1 without ranks, too, so that
 * kernels have whole tiles. */
static int64_t length_unit(const struct mds_parallel_config *p)
{
    return 16 * p->ulysses * p->ring * p->tensor;
}

/* Rows for several sequences that share a prefix are as long as a micro-batch, or
 * hardly longer than the longest one.  Rings have other attention. */
static int can_share_prefixes(const struct mds_infer_model *m,
                              const struct mds_infer_need *need)
{
    const struct mds_config *c = &m->run->config;
    int64_t rows = is_given(m, "batch.micro") ? c->batch.micro : 1;

    return need->row > 0 && c->parallel.ring == 1 && !is_given(m, "model.seq_length") &&
           (need->row <= need->batch_tokens / rows ||
            need->row - need->longest <= need->longest / 16);
}

static int64_t choose_length(const struct mds_infer_model *m, int64_t longest)
{
    const struct mds_model_config *c = &m->run->config.model;
    int64_t unit = length_unit(&m->run->config.parallel);
    int64_t length = mds_max(longest - (m->layer == 0), 1);

    if (is_given(m, "model.seq_length"))
        return c->seq_length;
    if (c->position == MDS_POSITION_LEARNED && !m->run->config.train.shared_prefixes &&
        mds_round_up(length, unit) > c->max_positions)
        return c->max_positions;
    return mds_round_up(length, unit);
}

/* So that all stages of a pipeline have something to do. */
static int64_t batches_at_once(const struct mds_infer_model *m,
                               const struct mds_infer_need *need, int64_t replicas)
{
    int64_t stages = m->run->config.parallel.pipeline;
    int64_t share = mds_ceil_div(need->sequences, replicas);

    if (stages == 1)
        return 1;
    return m->generates ? mds_max(mds_min(stages, share), 1) : 2 * stages;
}

/* No more rows than there are tokens for. */
static void choose_batch(struct mds_infer_model *m, const struct mds_infer_need *need,
                         int64_t ranks)
{
    struct mds_config *c = &m->run->config;
    const struct mds_parallel_config *p = &c->parallel;
    int64_t copy = p->tensor * p->ulysses * p->ring * p->pipeline;
    int64_t replicas = mds_max(ranks / copy, 1);
    int64_t row = c->model.seq_length + 1;
    int64_t rows = m->generates ? need->sequences : mds_ceil_div(need->tokens, row);

    if (!is_given(m, "batch.accumulation"))
        c->batch.accumulation = batches_at_once(m, need, replicas);
    if (is_given(m, "batch.micro"))
        return;
    c->batch.micro = mds_max(need->batch_tokens / c->model.seq_length, 1);
    rows = mds_ceil_div(rows, replicas * c->batch.accumulation);
    if (rows > 0)
        c->batch.micro = mds_max(mds_min(c->batch.micro, rows), 1);
}

/* The model ends behind the block that is asked for. */
static enum mds_rc cut_model(struct mds_infer_model *m)
{
    struct mds_config *c = &m->run->config;
    int64_t chunks = c->parallel.pipeline * mds_max(c->parallel.virtual_stages, 1);

    m->layers = c->model.layers;
    if (m->layer == 0)
        return MDS_OK;
    if (m->layer < chunks)
        return mds_fail(MDS_EUSER,
                        "--layer %" PRId64
                        ": so many blocks cannot be shared by %" PRId64
                        " parts of the pipeline; use fewer pipeline ranks",
                        m->layer, chunks);
    c->model.layers = m->layer;
    return MDS_OK;
}

enum mds_rc mds_infer_model_resolve(struct mds_infer_model *m,
                                    const struct mds_infer_need *need, int64_t ranks)
{
    struct mds_config_run *run = m->run;
    struct mds_diag diag = {0};
    enum mds_rc rc;

    if (is_given(m, "train.offload_layers") && !m->generates)
        return mds_fail(MDS_EUSER,
                        "--cpu-offloading-num-layers: a model that is only evaluated "
                        "keeps nothing of its blocks; leave it out");
    m->trained = run->config.model.seq_length;
    run->config.train.shared_prefixes = can_share_prefixes(m, need);
    run->config.model.seq_length =
        choose_length(m, run->config.train.shared_prefixes ? need->row : need->longest);
    if (ranks == 0)
        ranks = mds_config_world(run);
    choose_batch(m, need, ranks);
    rc = mds_config_resolve(run, ranks, &diag);
    if (!rc)
        mds_diag_log(&diag);
    mds_diag_fini(&diag);
    if (!rc)
        rc = mds_config_set_vocab(run, m->vocabulary.size);
    run->config.train.prompt = need->longest_prompt;
    if (!rc && m->generates)
        run->config.train.prefill = mds_max(
            mds_min(need->batch_tokens / run->config.batch.micro,
                    mds_min(need->longest_prompt, run->config.model.seq_length)),
            1);
    if (!rc)
        rc = check_host_caches(m);
    return rc ? rc : cut_model(m);
}
