/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_pretrain's configuration: reading it from all sources, and resolving it.
 *
 *     read -> (print and leave, unless the action is MDS_ACTION_RUN) -> MPI ->
 *     take_model -> resolve -> open the data -> set_vocab -> train
 *
 * With --dry-run there is neither MPI nor data: read -> take_model -> resolve for
 * mds_config_world() ranks, which sets the vocabulary, too.
 *
 * Precedence: command line > environment > --config and --deepspeed_config files >
 * model table > checkpoint of --load (the model alone) > machine profile > default. */
#ifndef MDS_CONFIG_OPTIONS_H
#define MDS_CONFIG_OPTIONS_H

#include "base/str.h"
#include "config/config.h"
#include "config/diag.h"
#include "config/optset.h"

#include <limits.h>
#include <stdio.h>

struct mds_config_run {
    struct mds_config config;
    enum mds_action action;
    struct mds_settings settings; /* the origin of every value */
    int64_t world;                /* ranks; 0 until resolved */
    int64_t published_tensor;     /* layout in the model table, for information; or 0 */
    int64_t published_pipeline;
};

extern const struct mds_option_set mds_pretrain_options;

extern const struct mds_option_example mds_pretrain_examples[];

/* Names in scripts for Megatron-DeepSpeed (megatron.c): other spellings of options
 * here, options that are accepted without effect, options that are not supported, and
 * variables that only the scripts read (NULL at the end); and short words, not read. */
extern const struct mds_option_alias mds_short_words[];
extern const struct mds_option_alias mds_megatron_aliases[];
extern const struct mds_option_foreign mds_megatron_accepted[];
extern const struct mds_option_foreign mds_megatron_unsupported[];
extern const char *const mds_script_variables[];

/* Read every source.  *out is set on success only.  diag (zeroed by the caller)
 * receives all faults and warnings; the faults are in mds_fail_text(), too.  With
 * --help or --version nothing else is read. */
enum mds_rc mds_config_read(int argc, char *const *argv, struct mds_diag *diag,
                            struct mds_config_run **out);
void mds_config_run_destroy(struct mds_config_run *run); /* NULL is fine */

/* Read the configuration that an earlier run printed (mds_settings_show; `name` is for
 * messages), changed only by command-line arguments.  The layout of that run is left
 * out, and derived values will be derived again. */
enum mds_rc mds_config_read_saved(const char *text, const char *name, int argc,
                                  char *const *argv, struct mds_diag *diag,
                                  struct mds_config_run **out);

/* For a program that only evaluates a model: command-line arguments, and the model's
 * settings from text, the configuration in checkpoint `name`.  Neither environment nor
 * files; no data are needed. */
enum mds_rc mds_config_read_model(const char *text, const char *name, int argc,
                                  char *const *argv, struct mds_diag *diag,
                                  struct mds_config_run **out);

/* ---- the model of a checkpoint ---- */

/* Take the model's settings from text, the configuration in checkpoint `name`, as far
 * as nobody has set them; before resolving.  Derived values are derived again, but for
 * the vocabulary, which the data may only enlarge. */
enum mds_rc mds_config_inherit_model(struct mds_config_run *run, const char *text,
                                     const char *name, struct mds_diag *diag);

/* Whether the setting changes what the model computes from the same weights. */
int mds_config_affects_model(const char *key);

/* "--rotary-base 10000 (now 500000), ..."; s is NULL where nothing changed. */
struct mds_config_changes {
    struct mds_str function; /* settings for which mds_config_affects_model holds */
    struct mds_str others;   /* that a run may change, and that show in its losses */
};

/* From the configuration in checkpoint `name` to that of a run, `now`: texts of
 * mds_settings_text. */
enum mds_rc mds_config_compare(const char *before, const char *name, const char *now,
                               struct mds_config_changes *out);
void mds_config_changes_fini(struct mds_config_changes *c);

/* The path of a file or folder that comes with mds.  For a program in its build tree it
 * is in_source, and 1 is returned.  Otherwise it is `name` in the data folder of the
 * installation that this program is in, even if that was moved. */
int mds_config_shipped_path(const char *in_source, const char *name,
                            char path[PATH_MAX]);

/* The folder of the machine profiles that come with mds. */
const char *mds_machine_folder(void);

/* Add to path the profile that `name` means: name itself if it is a path or ends as one
 * (.yaml, .yml), otherwise a file of mds_machine_folder().  Returns 0 if that folder
 * has none of this name. */
int mds_machine_path(const char *name, struct mds_str *path);

/* The number of ranks to resolve for if no ranks were started: --world-size, or the
 * smallest that the given sizes allow. */
int64_t mds_config_world(const struct mds_config_run *run);

/* Tell mds_config_world that `ranks` ranks were started; without --world-size it then
 * returns that number, if it is more than one. */
void mds_config_set_started_ranks(struct mds_config_run *run, int ranks);

/* Print what the action asks for, on f.  MDS_ACTION_SHOW resolves first, for
 * mds_config_world() ranks unless that was done.  MDS_ACTION_RUN is MDS_EBUG. */
enum mds_rc mds_config_print(struct mds_config_run *run, struct mds_diag *diag,
                             FILE *f);

/* Whether layers, hidden size and heads are known; if not that is a fault, since
 * nothing else can be checked then. */
int mds_config_has_shape(const struct mds_model_config *m, struct mds_diag *diag);

/* The first files that the user named: to train on, else to evaluate; NULL: none. */
const char *mds_config_data_paths(const struct mds_data_config *d);

/* Check what a real run needs but a dry run does not: data, and a length of the run or
 * weights to evaluate.  Faults go to diag. */
void mds_config_need_data(const struct mds_config_run *run, struct mds_diag *diag);

/* Fill in what follows from other values and from the number of ranks, and check that
 * everything fits together.  All faults go to diag; MDS_EUSER if there are any. */
enum mds_rc mds_config_resolve(struct mds_config_run *run, int64_t world,
                               struct mds_diag *diag);

/* Of the options of activation memory those that the user has fixed, one by one or by a
 * level, as bits: i is mds_act_options[i]; *now: their values.  Before resolving. */
unsigned mds_config_fixed_activations(const struct mds_config_run *run,
                                      struct mds_activations *now);

/* Set vocab and padded_vocab for data with a vocabulary of `words`; a larger
 * --vocab-size is kept, and a larger vocabulary of a checkpoint.  MDS_EUSER if
 * --vocab-size is smaller. */
enum mds_rc mds_config_set_vocab(struct mds_config_run *run, int64_t words);

/* Whether the data files decide about --pack-documents: it is auto, and none of the
 * options is set that keep documents apart in windows. */
int mds_config_data_decide_packing(const struct mds_config_run *run);

/* What they decided, before resolving. */
void mds_config_set_packing(struct mds_config_run *run, enum mds_pack pack);

/* Read the model table that run names, or else the one that came with mds: a map from
 * names to shapes.  The caller frees *out by mds_tree_destroy. */
enum mds_rc mds_model_table_load(struct mds_config_run *run, struct mds_tree **out);

/* The row of the option that n, a value of a shape in the table, sets; s->rows if it is
 * not about the shape: other names, the published layout, a sequence length. */
size_t mds_model_shape_row(const struct mds_settings *s, const struct mds_node *n);

/* Trainable numbers of a resolved shape (padded_vocab > 0), exactly:
 *
 *   embeddings  V H, and V H more for an untied head; learned positions P H
 *   a block     norms 2 (2 H, or H with RMSNorm); attention H A D + 2 H G D + A D H;
 *               MLP 2 H F, or 3 H F with SwiGLU; and biases (A + 2 G) D + H for the
 *               attention, F (2 F with SwiGLU) + H for the MLP; or (A + 2 G) D alone
 *   final norm  2 H, or H
 *
 * V is padded_vocab, P max_positions, F ffn_hidden (letters: kernels/README.md). */
int64_t mds_model_params(const struct mds_model_config *m);

#define MDS_DEFAULT_SPLIT "949,50,1"

/* --split: one to three proportions, ',' or '/' between them as Megatron takes them;
 * what is left out is 0.  shares[] sum to 1.  Returns 0 if text is no such thing. */
int mds_split_shares(const char *text, double shares[3]);

/* By enum mds_split_at; NULL at the end. */
extern const char *const mds_split_at_names[];

/* words rounded up to a multiple of vocab_divisor * tensor, as Megatron does. */
int64_t mds_vocab_padded(int64_t words, int64_t vocab_divisor, int64_t tensor);

#endif
