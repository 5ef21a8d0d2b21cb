/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/infer_line.h"

#include <stdlib.h>
#include <string.h>

static enum mds_rc find_verb(const char *word, enum mds_infer_verb *out)
{
    for (int i = 0; word && mds_infer_verbs[i].name; i++)
        if (strcmp(word, mds_infer_verbs[i].name) == 0) {
            *out = (enum mds_infer_verb)i;
            return MDS_OK;
        }
    return mds_fail(MDS_EUSER,
                    "--program mds_infer: behind -- write score, embed or generate, "
                    "and its options%s%s",
                    word ? ", not " : "", word ? word : "");
}

static enum mds_rc read_words(struct mds_infer_line *l)
{
    struct mds_diag diag = {0};
    enum mds_rc rc;

    mds_settings_read_args(&l->settings, (int)l->argv.n, l->argv.v, &diag);
    mds_settings_check_paths(&l->settings, &diag);
    rc = mds_diag_result(&diag);
    mds_diag_fini(&diag);
    if (!rc && l->settings.action)
        rc = mds_fail(MDS_EUSER, "options that only print, such as --help, need no "
                                 "launcher: call mds_infer itself");
    return rc;
}

static size_t count_files(const struct mds_infer_command *c)
{
    size_t n = 0;

    while (n < c->operands && strncmp(c->operand[n], "--", 2) != 0)
        n++;
    return n;
}

enum mds_rc mds_infer_line_read(struct mds_infer_line *out,
                                const struct mds_argv *const *words)
{
    struct mds_infer_command *c = &out->command;

    *out = (struct mds_infer_line){.set = mds_infer_options};
    mds_argv_add(&out->argv, "mds_infer");
    for (; *words; words++)
        mds_argv_add_words(&out->argv, (*words)->n, (*words)->v);
    if (out->argv.failed)
        return mds_fail(MDS_EMEM, "no host memory for arguments");
    MDS_TRY(find_verb(out->argv.v[1], &c->verb));
    MDS_TRY(mds_option_set_select(&mds_infer_options, mds_infer_verbs[c->verb].groups,
                                  &out->rows));
    out->set.options = out->rows;
    out->set.others = mds_infer_options.options;
    out->set.passes_unknown = 1;
    MDS_TRY(mds_settings_init(&out->settings, &out->set, &out->values));
    MDS_TRY(read_words(out));
    c->settings = &out->settings;
    c->operand = out->settings.operands + 1;
    c->operands = out->settings.operand_count - 1;
    c->files = count_files(c);
    for (size_t i = c->files; i < c->operands; i++)
        if (strcmp(c->operand[i], "--dry-run") == 0)
            return mds_fail(MDS_EUSER, "--dry-run: use `mds_launch plan`, or call "
                                       "mds_infer itself");
    return mds_infer_command_check(c);
}

void mds_infer_line_close(struct mds_infer_line *l)
{
    if (l->rows)
        mds_settings_fini(&l->settings);
    free(l->rows);
    mds_argv_fini(&l->argv);
}

static int is_operand(const struct mds_infer_line *l, const char *word)
{
    for (size_t i = 0; i < l->command.operands; i++)
        if (l->command.operand[i] == word)
            return 1;
    return 0;
}

void mds_infer_line_split(const struct mds_infer_line *l, struct mds_argv *own,
                          struct mds_argv *files, struct mds_argv *passed)
{
    const struct mds_infer_command *c = &l->command;

    for (size_t i = 1; i < l->argv.n; i++)
        if (!is_operand(l, l->argv.v[i]))
            mds_argv_add(own, "%s", l->argv.v[i]);
    mds_argv_add_words(files, c->files, c->operand);
    mds_argv_add_words(passed, c->operands - c->files, c->operand + c->files);
}
