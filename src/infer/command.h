/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line of mds_infer: what it asks for, for the ranks that do it and for
 * mds_launch, which plans it. */
#ifndef MDS_INFER_COMMAND_H
#define MDS_INFER_COMMAND_H

#include "infer/embed.h"
#include "infer/generate.h"
#include "infer/options.h"
#include "infer/variants.h"

/* In the order of mds_infer_verbs. */
enum mds_infer_verb { MDS_INFER_SCORE, MDS_INFER_EMBED, MDS_INFER_GENERATE };

/* Their names, and the headings of the options that each takes. */
struct mds_infer_verb_row {
    const char *name, *groups;
};
extern const struct mds_infer_verb_row mds_infer_verbs[]; /* ends with zeros */

struct mds_infer_command {
    enum mds_infer_verb verb;
    const struct mds_settings *settings; /* borrowed, of struct mds_infer_options */
    char *const *operand;   /* borrowed: files, then options of mds_pretrain */
    size_t operands, files; /* files: how many of them */
    int64_t window;         /* from measure on, of variants */
};

/* Refuse options that do not go together, or would do nothing. */
enum mds_rc mds_infer_command_check(const struct mds_infer_command *c);

/* Refuse outputs that are inputs, that two inputs would share, that are there already
 * or have no folder: all of them, before the first is made. */
enum mds_rc mds_infer_command_check_outputs(const struct mds_infer_command *c);

/* Find the model, and say what is wanted of it.  Nothing of the inputs is read.  *m is
 * zeroed by the caller, who closes it in any case. */
enum mds_rc mds_infer_command_find(const struct mds_infer_command *c,
                                   struct mds_infer_model *m);

/* Read the inputs once; mds_infer_model_resolve follows.  need->until_s may limit it.
 */
enum mds_rc mds_infer_command_measure(struct mds_infer_command *c,
                                      const struct mds_infer_model *m,
                                      struct mds_infer_need *need);

/* With --resume: refuse outputs that were begun with something else.  The model is
 * resolved. */
enum mds_rc mds_infer_command_check_begun(const struct mds_infer_command *c,
                                          struct mds_infer_model *m);

/* Do it; the model is started.  Collective. */
enum mds_rc mds_infer_command_run(const struct mds_infer_command *c,
                                  struct mds_infer_model *m);

/* Whether --output has a {}, and each input an output of its own. */
int mds_infer_command_has_many_outputs(const struct mds_infer_command *c);

/* The file of the last --events among words, or NULL: it is needed before options are
 * read, as what is wrong with those is an event, too. */
const char *mds_infer_events_path(char *const *word, size_t n);

/* The output of input i; free it.  NULL: standard output, or no memory. */
char *mds_infer_command_output(const struct mds_infer_command *c, size_t i);

#endif
