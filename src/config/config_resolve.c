/* SPDX-License-Identifier: BSD-3-Clause */
/* Derives what follows from the settings and the number of ranks, and checks it. */
#include "config/config_impl.h"

#include "base/minmax.h"
#include "base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mds_config_has_shape(const struct mds_model_config *m, struct mds_diag *diag)
{
    if (m->layers && m->hidden && m->heads)
        return 1;
    mds_diag_fault(
        diag, NULL,
        "the model has no shape (layers %lld, hidden size %lld, heads %lld); give "
        "--model-size-key, such as GPT125M, or --num-layers, --hidden-size and "
        "--num-attention-heads",
        (long long)m->layers, (long long)m->hidden, (long long)m->heads);
    return 0;
}

static void resolve_heads(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;

    if (m->head_dim == 0 && m->hidden % m->heads != 0)
        mds_diag_fault(diag, mds_config_origin(run, "model.heads"),
                       "--num-attention-heads %lld does not divide --hidden-size %lld; "
                       "change one (hidden %lld would do), or give --kv-channels",
                       (long long)m->heads, (long long)m->hidden,
                       (long long)mds_round_up(m->hidden, m->heads));
    derive(run, "model.head_dim", &m->head_dim, m->hidden / m->heads, "hidden / heads");
    derive(run, "model.kv_heads", &m->kv_heads, m->heads, "as many as heads");
    if (m->heads % m->kv_heads != 0)
        mds_diag_fault(diag, mds_config_origin(run, "model.kv_heads"),
                       "--num-key-value-heads %lld does not divide "
                       "--num-attention-heads %lld",
                       (long long)m->kv_heads, (long long)m->heads);
    if (m->heads * m->head_dim > 10000000)
        mds_diag_fault(diag, mds_config_origin(run, "model.heads"),
                       "%lld heads of size %lld: more than ten million together",
                       (long long)m->heads, (long long)m->head_dim);
}

static void resolve_positions(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;
    double rotating = floor((double)m->head_dim * m->rotary_percent);

    derive(run, "model.max_positions", &m->max_positions, m->seq_length,
           "the sequence length");
    if (m->position == MDS_POSITION_LEARNED && m->seq_length > m->max_positions &&
        !run->config.train.shared_prefixes) /* rows are longer than documents */
        mds_diag_fault(diag, mds_config_origin(run, "model.max_positions"),
                       "--max-position-embeddings %lld is less than --seq-length %lld; "
                       "give shorter sequences, more positions, or "
                       "--position-embedding-type rope",
                       (long long)m->max_positions, (long long)m->seq_length);
    if (m->position == MDS_POSITION_LEARNED &&
        mds_settings_accepted(&run->settings, "--no-position-embedding"))
        mds_diag_fault(diag, mds_config_origin(run, "model.position"),
                       "--no-position-embedding: give --position-embedding-type none "
                       "for a model without positions, or rope");
    if (m->position == MDS_POSITION_ROPE && (rotating < 2 || fmod(rotating, 2) != 0))
        mds_diag_fault(diag, mds_config_origin(run, "model.rotary_percent"),
                       "--rotary-percent %g of head size %lld is %.0f; it must be even "
                       "and at least 2",
                       m->rotary_percent, (long long)m->head_dim, rotating);
}

static void resolve_activation(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;
    const struct mds_settings *s = &run->settings;
    const char *flag = NULL;

    m->activation = 0;
    for (int k = 0; k < MDSK_ACTIVATION_KINDS; k++) {
        char key[48];

        if (!m->chosen[k])
            continue;
        snprintf(key, sizeof key, "model.%s", mdsk_activation_of(k)->name);
        if (flag)
            mds_diag_fault(diag, mds_config_origin(run, key),
                           "%s and %s are both set; an MLP has one activation function",
                           flag, s->set->options[mds_settings_row(s, key)].flag);
        flag = s->set->options[mds_settings_row(s, key)].flag;
        m->activation = k;
    }
    if (mdsk_activation_of(m->activation)->gated)
        derive(run, "model.ffn_hidden", &m->ffn_hidden,
               mds_round_up((8 * m->hidden + 2) / 3, 64),
               "8/3 x hidden, rounded up to a multiple of 64");
    else
        derive(run, "model.ffn_hidden", &m->ffn_hidden, 4 * m->hidden, "4 x hidden");
    if (m->experts.n > 0)
        derive(run, "model.expert_ffn_hidden", &m->experts.ffn_hidden, m->ffn_hidden,
               "--ffn-hidden-size");
}

/* The gradient of a stream that attention and the MLP both read would be changed by one
 * before the norm behind the other has read it. */
static void check_norms(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;

    if (m->qk_norm_across_heads && !m->qk_layernorm)
        mds_diag_fault(diag, mds_config_origin(run, "model.qk_norm_across_heads"),
                       "--qk-norm-across-heads says which norms --qk-layernorm has; "
                       "give both");
    if (m->norm_placement == MDS_NORM_AFTER && m->parallel_residual)
        mds_diag_fault(diag, mds_config_origin(run, "model.norm_placement"),
                       "--norm-placement after: --use-parallel-residual has norms "
                       "before attention and MLP; use before or both");
}

/* 0 if there is no shape. */
static int resolve_model(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;

    if (!mds_config_has_shape(m, diag))
        return 0;
    resolve_heads(run, diag);
    resolve_positions(run, diag);
    mds_config_check_rope(run, diag);
    resolve_activation(run, diag);
    mds_config_resolve_window(run, diag);
    check_norms(run, diag);
    mds_config_resolve_mup(run, diag);
    return 1;
}

static void check_optimizer(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_optim_config *o = &run->config.optim;

    if (o->decay == MDS_LR_EXPONENTIAL && (o->min_lr == 0 || o->lr == 0))
        mds_diag_fault(diag, mds_config_origin(run, "optim.decay"),
                       "--lr-decay-style exponential: give a --min-lr above 0; it is "
                       "never reached otherwise");
    else if (o->min_lr > o->lr && o->decay != MDS_LR_EXPONENTIAL)
        mds_diag_fault(diag, mds_config_origin(run, "optim.min_lr"),
                       "--min-lr %g is above --lr %g", o->min_lr, o->lr);
    if (o->beta1 >= 1)
        mds_diag_fault(diag, mds_config_origin(run, "optim.beta1"),
                       "--adam-beta1 must be below 1");
    if (o->beta2 >= 1)
        mds_diag_fault(diag, mds_config_origin(run, "optim.beta2"),
                       "--adam-beta2 must be below 1");
    if (o->muon_momentum >= 1)
        mds_diag_fault(diag, mds_config_origin(run, "optim.muon_momentum"),
                       "--muon-momentum must be below 1");
}

/* The log-sum-exp of S equal logits is above these by ln(S).  Far above that, by twice,
 * a head's largest logits make nearly all of it (docs/adr/0060). */
static void check_qk_clip(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_optim_config *o = &run->config.optim;
    double least = 2 * log((double)run->config.model.seq_length);

    if (!o->qk_clip) {
        mds_config_warn_ignored(run, "optim.qk_clip_threshold", "--qk-clip", diag);
        mds_config_warn_ignored(run, "optim.qk_clip_alpha", "--qk-clip", diag);
        return;
    }
    if (run->config.model.qk_layernorm)
        mds_diag_fault(diag, mds_config_origin(run, "optim.qk_clip"),
                       "--qk-clip scales weights of queries and keys, which the norms "
                       "of --qk-layernorm undo; leave one of them out");
    else if (o->qk_clip_threshold < least)
        mds_diag_fault(diag, mds_config_origin(run, "optim.qk_clip_threshold"),
                       "--qk-clip-threshold %g is too low to tell large logits from "
                       "many, with sequences of %" PRId64
                       " tokens; give at least 2 ln(%" PRId64 "), %.1f",
                       o->qk_clip_threshold, run->config.model.seq_length,
                       run->config.model.seq_length, ceil(10 * least) / 10);
}

int mds_split_shares(const char *text, double shares[3])
{
    double v[3] = {0}, sum = 0;
    int parts = 0;

    for (;; text++) {
        char *end;

        if (parts == 3)
            return 0;
        v[parts] = strtod(text, &end);
        if (end == text || !isfinite(v[parts]) || v[parts] < 0)
            return 0;
        sum += v[parts++];
        text = end + strspn(end, " ");
        if (*text != ',' && *text != '/')
            break;
    }
    if (*text || sum <= 0 || !isfinite(sum))
        return 0;
    for (int s = 0; s < 3; s++)
        shares[s] = v[s] / sum;
    return 1;
}

/* Either --data-path with --split, or files for each split. */
static void check_data_paths(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_data_config *d = &run->config.data;
    const char *option = d->train_paths   ? "train"
                         : d->valid_paths ? "valid"
                         : d->test_paths  ? "test"
                                          : NULL;
    char key[32];

    if (!option)
        return;
    snprintf(key, sizeof key, "data.%s_paths", option);
    if (d->paths)
        mds_diag_fault(diag, mds_config_origin(run, key),
                       "--%s-data-path and --data-path (%s) are both set: either give "
                       "each split its files, or cut all by --split",
                       option, mds_config_origin(run, "data.paths"));
    else if (!d->train_paths && !run->config.train.skip_train)
        mds_diag_fault(diag, mds_config_origin(run, key),
                       "--%s-data-path needs --train-data-path", option);
    if (mds_config_is_given(run, "data.split"))
        mds_diag_fault(diag, mds_config_origin(run, "data.split"),
                       "--split cuts the files of --data-path; it has no effect with "
                       "--%s-data-path",
                       option);
    if (mds_config_is_given(run, "data.split_at"))
        mds_diag_fault(diag, mds_config_origin(run, "data.split_at"),
                       "--split-at is for --split, which has no effect with "
                       "--%s-data-path",
                       option);
}

int mds_config_data_decide_packing(const struct mds_config_run *run)
{
    const struct mds_data_config *d = &run->config.data;

    return d->pack_documents == MDS_PACK_AUTO && mds_config_data_paths(d) &&
           !d->reset_attention_mask && !d->reset_position_ids && !d->eod_mask_loss;
}

void mds_config_set_packing(struct mds_config_run *run, enum mds_pack pack)
{
    run->config.data.pack_documents = pack;
    mds_settings_derived(&run->settings, "data.pack_documents",
                         pack == MDS_PACK_ON
                             ? "the data have several documents"
                             : "the data are one document, or Megatron's");
}

/* Packed documents have nothing to do with each other. */
static void resolve_documents(struct mds_config_run *run)
{
    struct mds_data_config *d = &run->config.data;
    int *const follow[] = {&d->reset_attention_mask, &d->reset_position_ids,
                           &d->eod_mask_loss};
    static const char *const key[] = {"data.reset_attention_mask",
                                      "data.reset_position_ids", "data.eod_mask_loss"};

    if (d->pack_documents == MDS_PACK_AUTO) {
        d->pack_documents = MDS_PACK_OFF;
        mds_settings_derived(&run->settings, "data.pack_documents",
                             "no data, or --reset-... and --eod-... without packing");
    }
    for (int i = 0; d->pack_documents == MDS_PACK_ON && i < 3; i++) {
        if (!*follow[i])
            mds_settings_derived(&run->settings, key[i], "--pack-documents");
        *follow[i] = 1;
    }
}

static void check_window_stride(const struct mds_config_run *run, struct mds_diag *diag)
{
    int64_t stride = run->config.data.window_stride, S = run->config.model.seq_length;
    const char *origin = mds_config_origin(run, "data.window_stride");

    if (stride > 0 && run->config.data.pack_documents != MDS_PACK_ON)
        mds_diag_fault(diag, origin,
                       "--window-stride is for --pack-documents on; without it, "
                       "windows do not overlap");
    if (stride > S)
        mds_diag_fault(diag, origin,
                       "--window-stride %lld: tokens between windows would never be "
                       "targets: use at most --seq-length %lld",
                       (long long)stride, (long long)S);
}

static void check_data_options(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_data_config *d = &run->config.data;
    double shares[3];

    if (!d->split || !mds_split_shares(d->split, shares))
        mds_diag_fault(diag, mds_config_origin(run, "data.split"),
                       "--split '%s': must be proportions such as 949,50,1",
                       d->split ? d->split : "");
    check_data_paths(run, diag);
    check_window_stride(run, diag);
    if (run->action == MDS_ACTION_RUN && !run->config.train.dry_run)
        mds_config_need_data(run, diag);
}

const char *mds_config_data_paths(const struct mds_data_config *d)
{
    return d->paths         ? d->paths
           : d->train_paths ? d->train_paths
           : d->valid_paths ? d->valid_paths
                            : d->test_paths;
}

void mds_config_need_data(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_config *c = &run->config;

    if (c->train.preflight_only)
        return;
    if (c->train.skip_train && !c->checkpoint.load && !c->output.init_weights)
        mds_diag_fault(diag, mds_config_origin(run, "train.skip_train"),
                       "--skip-train: nothing to evaluate; give --load a folder of "
                       "checkpoints, or --init-weights a file");
    if (!mds_config_data_paths(&c->data))
        mds_diag_fault(diag, NULL,
                       "no data; give --data-path (DATA_PATH); mds_data makes such "
                       "files");
    if (mds_extent_unit(&c->train.length) == MDS_UNITS && !c->train.skip_train)
        mds_diag_fault(diag, NULL,
                       "no length of the run; give --train-iters, --train-samples or "
                       "--train-tokens");
}

static void resolve_dry_run(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_train_config *t = &run->config.train;
    struct mds_model_config *m = &run->config.model;

    if (t->dry_world && t->dry_world != run->world)
        mds_diag_fault(diag, mds_config_origin(run, "train.dry_world"),
                       "--world-size %lld, but the run has %lld rank%s; it is for "
                       "--dry-run and --show-config, leave it out here",
                       (long long)t->dry_world, (long long)run->world,
                       mds_plural(run->world));
    if (t->dry_rank >= run->world)
        mds_diag_fault(diag, mds_config_origin(run, "train.dry_rank"),
                       "--dry-run-rank %lld: of %lld rank%s the last is %lld",
                       (long long)t->dry_rank, (long long)run->world,
                       mds_plural(run->world), (long long)run->world - 1);
    if (t->show_step && !t->dry_run)
        mds_diag_fault(diag, mds_config_origin(run, "train.show_step"),
                       "--show-step is for dry runs: add --dry-run");
    if (!t->dry_run)
        return;
    derive(run, "train.dry_world", &t->dry_world, run->world, "the fewest");
    derive(run, "model.vocab", &m->vocab, MDS_GPT2_WORDS, "as GPT-2, without data");
    m->padded_vocab =
        mds_vocab_padded(m->vocab, m->vocab_divisor, run->config.parallel.tensor);
}

void mds_config_set_started_ranks(struct mds_config_run *run, int ranks)
{
    if (ranks > 1)
        derive(run, "train.dry_world", &run->config.train.dry_world, ranks,
               "as many as were started");
}

int64_t mds_config_world(const struct mds_config_run *run)
{
    int64_t world = run->config.train.dry_world;

    return world ? world : mds_config_model_ranks(run);
}

static void check_profiled_steps(const struct mds_config_run *run,
                                 struct mds_diag *diag)
{
    const int64_t most = 1000; /* steps: they are kept apart */
    const struct mds_train_config *t = &run->config.train;
    int64_t steps = t->profile_end - t->profile_start;

    if (t->profile && (steps < 1 || steps > most))
        mds_diag_fault(
            diag, mds_config_origin(run, "train.profile_end"),
            "--profile measures the steps after --profile-step-start %lld up "
            "to --profile-step-end %lld: 1 to %lld of them",
            (long long)t->profile_start, (long long)t->profile_end, (long long)most);
}

static void check_checkpoints(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_checkpoint_config *c = &run->config.checkpoint;

    if (c->finetune && !c->load)
        mds_diag_fault(
            diag, mds_config_origin(run, "checkpoint.finetune"),
            "--finetune needs a checkpoint; give --load a folder of checkpoints");
    if (c->interval && !c->save &&
        mds_settings_of(&run->settings, "checkpoint.interval")->level >
            MDS_LEVEL_DERIVED)
        mds_diag_warn(diag, mds_config_origin(run, "checkpoint.interval"),
                      "--save-interval: nothing is saved; give --save a folder");
    if (c->async_save && !c->save)
        mds_diag_fault(diag, mds_config_origin(run, "checkpoint.async_save"),
                       "--async-save: nothing is saved; give --save a folder");
    if (c->override_model && !c->load)
        mds_diag_fault(diag, mds_config_origin(run, "checkpoint.override_model"),
                       "--override-model-config without --load");
    if (c->no_load_optim && !c->load)
        mds_diag_fault(diag, mds_config_origin(run, "checkpoint.no_load_optim"),
                       "--no-load-optim without --load");
    if (run->config.train.on_nonfinite == MDS_NONFINITE_ROLLBACK && !c->save)
        mds_diag_fault(diag, mds_config_origin(run, "optim.on_nonfinite"),
                       "--on-nonfinite rollback needs checkpoints; give --save a "
                       "folder, and --save-interval");
}

/* A fault for an option that needs training steps. */
static void fault_with_skip_train(const struct mds_config_run *run, const char *key,
                                  struct mds_diag *diag)
{
    mds_diag_fault(
        diag, mds_config_origin(run, key),
        "%s cannot be combined with --skip-train, which trains nothing; leave one "
        "of them out",
        mds_settings_flag(&run->settings, key));
}

static void resolve_skip_train(struct mds_config_run *run, struct mds_diag *diag)
{
    const int64_t all = 1000000000000; /* more than any data has */
    struct mds_config *c = &run->config;

    if (!c->train.skip_train)
        return;
    if (mds_settings_of(&run->settings, "train.eval_iters")->level ==
        MDS_LEVEL_DEFAULT) {
        c->train.eval_iters = all;
        mds_settings_derived(&run->settings, "train.eval_iters",
                             "--skip-train evaluates all");
    }
    if (c->train.eval_iters == 0)
        mds_diag_fault(diag, mds_config_origin(run, "train.eval_iters"),
                       "--skip-train with --eval-iters 0 does nothing; leave it out");
    if (c->output.export_weights)
        fault_with_skip_train(run, "output.export_weights", diag);
    if (c->output.trace_dir)
        fault_with_skip_train(run, "output.trace_dir", diag);
    if (c->train.profile)
        fault_with_skip_train(run, "train.profile", diag);
    if (c->checkpoint.async_save) {
        c->checkpoint.async_save = 0;
        mds_settings_derived(&run->settings, "checkpoint.async_save",
                             "--skip-train saves nothing");
    }
}

/* A run that saves does so when it is interrupted. */
static void resolve_signals(struct mds_config_run *run)
{
    static const char key[] = "train.exit_signal_handler";

    if (!run->config.checkpoint.save || mds_settings_of(&run->settings, key)->level)
        return;
    run->config.train.exit_signal_handler = 1;
    mds_settings_derived(&run->settings, key, "--save is given");
}

enum mds_rc mds_config_resolve(struct mds_config_run *run, int64_t world,
                               struct mds_diag *diag)
{
    int has_model;

    run->world = world;
    has_model = resolve_model(run, diag);
    if (mds_config_resolve_grid(run, diag)) {
        if (mds_config_resolve_batch(run, diag))
            mds_config_resolve_lengths(run, diag);
        if (has_model)
            mds_config_check_layout(run, diag);
        if (has_model) {
            mds_config_check_fp8(run, diag);
            mds_config_check_experts(run, diag);
        }
    }
    mds_config_check_memory(run, diag);
    check_optimizer(run, diag);
    check_qk_clip(run, diag);
    resolve_documents(run);
    check_data_options(run, diag);
    check_checkpoints(run, diag);
    resolve_signals(run);
    check_profiled_steps(run, diag);
    resolve_skip_train(run, diag);
    resolve_dry_run(run, diag);
    return mds_diag_result(diag);
}

enum mds_rc mds_config_set_vocab(struct mds_config_run *run, int64_t words)
{
    struct mds_model_config *m = &run->config.model;
    enum mds_level level = mds_settings_of(&run->settings, "model.vocab")->level;

    if (m->vocab && m->vocab < words && level != MDS_LEVEL_CHECKPOINT)
        return mds_fail(
            MDS_EUSER,
            "%s: --vocab-size %lld, but the data has %lld words; leave it out",
            mds_config_origin(run, "model.vocab"), (long long)m->vocab,
            (long long)words);
    if (m->vocab < words) {
        m->vocab = words;
        mds_settings_derived(&run->settings, "model.vocab", "the data's words");
    }
    m->padded_vocab =
        mds_vocab_padded(m->vocab, m->vocab_divisor, run->config.parallel.tensor);
    return MDS_OK;
}
