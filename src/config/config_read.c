/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_pretrain's sources in order of precedence, and what its actions print. */
#include "config/config_impl.h"

#include "base/alloc.h"
#include "base/str.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static void read_config_file(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_tree *t = NULL;

    if (mds_tree_load(run->config.sources.config, &t)) {
        mds_diag_fault(diag, NULL, "%s", mds_fail_text());
        return;
    }
    mds_settings_read_tree(&run->settings, MDS_LEVEL_FILE, t, diag);
    mds_tree_destroy(t);
}

static void read_deepspeed_file(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_tree *t = NULL;

    if (mds_tree_load(run->config.sources.deepspeed, &t)) {
        mds_diag_fault(diag, NULL, "%s", mds_fail_text());
        return;
    }
    mds_deepspeed_apply(&run->settings, t, diag);
    mds_tree_destroy(t);
}

/* A profile of mds_launch has what concerns a run under `settings`; any other file is
 * settings altogether. */
static void read_profile_settings(struct mds_config_run *run, const struct mds_tree *t,
                                  struct mds_diag *diag)
{
    struct mds_tree part = *t;

    if (mds_node_get(t->root, "machine"))
        part.root = (struct mds_node *)mds_node_get(t->root, "settings");
    if (part.root)
        mds_settings_read_tree(&run->settings, MDS_LEVEL_MACHINE, &part, diag);
}

/* The ALCF scripts export MACHINE=polaris whether or not there is a profile, so a name
 * in the environment may miss. */
static void read_machine_profile(struct mds_config_run *run, struct mds_diag *diag)
{
    const char *name = run->config.sources.machine;
    int exported = getenv("MACHINE") && strcmp(getenv("MACHINE"), name) == 0;
    struct mds_str path = {0};
    struct mds_tree *t = NULL;
    int is_there = mds_machine_path(name, &path);

    if (path.failed)
        mds_diag_fault(diag, NULL, "%s", mds_fail_text());
    else if (!is_there && exported)
        mds_diag_warn(diag, "environment",
                      "MACHINE=%s: no such profile (%s); continuing without it", name,
                      path.s);
    else if (!is_there)
        mds_diag_fault(diag, "command line",
                       "--machine %s: no such profile (%s); give the name of another "
                       "file in that folder, or a path",
                       name, path.s);
    else if (mds_tree_load(path.s, &t))
        mds_diag_fault(diag, NULL, "machine profile %s", mds_fail_text());
    else
        read_profile_settings(run, t, diag);
    mds_tree_destroy(t);
    mds_str_fini(&path);
}

static void read_files(struct mds_config_run *run, struct mds_diag *diag)
{
    if (run->config.sources.config)
        read_config_file(run, diag);
    if (run->config.sources.deepspeed)
        read_deepspeed_file(run, diag);
    if (run->config.sources.machine)
        read_machine_profile(run, diag);
    mds_model_table_apply(run, diag);
}

enum mds_rc mds_config_read(int argc, char *const *argv, struct mds_diag *diag,
                            struct mds_config_run **out)
{
    struct mds_config_run *run = mds_zalloc(1, sizeof *run);
    enum mds_rc rc;

    if (!run)
        return MDS_EMEM;
    rc = mds_settings_init(&run->settings, &mds_pretrain_options, &run->config);
    if (rc)
        goto destroy_run;
    mds_settings_read_args(&run->settings, argc, argv, diag);
    run->action = run->settings.action;
    if (run->action == MDS_ACTION_RUN || run->action == MDS_ACTION_SHOW) {
        mds_settings_read_env(&run->settings, diag);
        read_files(run, diag);
        mds_settings_check_paths(&run->settings, diag);
        rc = mds_diag_result(diag);
    } else if (run->settings.topic) {
        rc = mds_diag_result(diag);
    }
    if (rc)
        goto destroy_run;
    *out = run;
    return MDS_OK;

destroy_run:
    mds_config_run_destroy(run);
    return rc;
}

static int starts_with(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* Whether the saved run set its gradient accumulation steps, whose meaning depends on
 * the layout. */
static int has_accumulation_steps(const char *text)
{
    const char *line = strstr(text, "\n  accumulation:");

    return line && !mds_settings_is_derived(line + 1, strcspn(line + 1, "\n"));
}

/* Whether a line of a saved configuration sets an option that some layouts rule out. */
static int depends_on_layout(const char *line)
{
    char start[64];

    for (const struct mds_act_option *o = mds_act_options; o->key; o++) {
        snprintf(start, sizeof start, "  %s:", o->key + strlen("train."));
        if (o->of_layout && starts_with(line, start))
            return 1;
    }
    return starts_with(line, "  accumulation:");
}

/* The lines of text but for values derived from others, the layout and what depends on
 * it; *out is the caller's to free.  Of the batch what is left has the same size in any
 * layout. */
static enum mds_rc drop_layout_lines(const char *text, int has_data, char **out)
{
    int in_layout = 0, keep_global = has_accumulation_steps(text);
    struct mds_str kept = {0};

    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        int lasts = !mds_settings_is_derived(line, n) && !depends_on_layout(line);

        if (*line != ' ')
            in_layout = starts_with(line, "parallel:");
        if (starts_with(line, "  global:") && keep_global)
            lasts = 1;
        if (starts_with(line, "  pack_documents:") && has_data)
            lasts = 1; /* derived from the data, which are not here */
        if (lasts && !in_layout)
            mds_str_add(&kept, "%.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    *out = kept.s;
    return kept.failed || !kept.s ? mds_fail(MDS_EMEM, "no host memory") : MDS_OK;
}

static void read_saved_settings(struct mds_config_run *run, const char *text,
                                const char *name, struct mds_diag *diag)
{
    struct mds_tree *t = NULL;

    if (mds_tree_parse(text, strlen(text), name, &t)) {
        mds_diag_fault(diag, NULL, "%s", mds_fail_text());
        return;
    }
    mds_settings_read_tree(&run->settings, MDS_LEVEL_CHECKPOINT, t, diag);
    mds_tree_destroy(t);
}

enum mds_rc mds_config_read_saved(const char *text, const char *name, int argc,
                                  char *const *argv, struct mds_diag *diag,
                                  struct mds_config_run **out)
{
    struct mds_config_run *run = mds_zalloc(1, sizeof *run);
    char *kept = NULL;
    int has_data;
    enum mds_rc rc;

    if (!run)
        return MDS_EMEM;
    run->action = MDS_ACTION_SHOW; /* neither data nor a length is needed */
    rc = mds_settings_init(&run->settings, &mds_pretrain_options, &run->config);
    if (!rc)
        rc = mds_saved_has_data(text, name, &has_data);
    if (!rc)
        rc = drop_layout_lines(text, has_data, &kept);
    if (!rc) {
        mds_settings_read_args(&run->settings, argc, argv, diag);
        read_saved_settings(run, kept, name, diag);
        mds_config_limit_seq_length(run, name, diag);
        rc = mds_diag_result(diag);
    }
    free(kept);
    if (rc)
        mds_config_run_destroy(run);
    else
        *out = run;
    return rc;
}

enum mds_rc mds_config_read_model(const char *text, const char *name, int argc,
                                  char *const *argv, struct mds_diag *diag,
                                  struct mds_config_run **out)
{
    struct mds_config_run *run = mds_zalloc(1, sizeof *run);
    enum mds_rc rc;

    if (!run)
        return MDS_EMEM;
    rc = mds_settings_init(&run->settings, &mds_pretrain_options, &run->config);
    if (!rc) {
        mds_settings_read_args(&run->settings, argc, argv, diag);
        rc = mds_config_inherit_model(run, text, name, diag);
    }
    run->action = MDS_ACTION_SHOW; /* neither data nor a length is needed */
    if (rc)
        mds_config_run_destroy(run);
    else
        *out = run;
    return rc;
}

void mds_config_run_destroy(struct mds_config_run *run)
{
    if (!run)
        return;
    mds_settings_fini(&run->settings);
    free(run);
}

/* 12848588800 as 12,848,588,800. */
static void add_grouped(int64_t n, struct mds_str *out)
{
    if (n >= 1000) {
        add_grouped(n / 1000, out);
        mds_str_add(out, ",%03d", (int)(n % 1000));
    } else {
        mds_str_add(out, "%d", (int)n);
    }
}

static void print_layout(const struct mds_config_run *run, FILE *f)
{
    const struct mds_parallel_config *p = &run->config.parallel;

    struct mds_str sizes = {0};

    fprintf(f, "#   ranks              %lld", (long long)run->world);
    mds_axes_format(mds_axes, p->size, &sizes);
    if (run->world > 1 && sizes.s)
        fprintf(f, " = %s", sizes.s);
    mds_str_fini(&sizes);
    fprintf(f, "\n#   data-parallel      %lld\n", (long long)p->data);
    if (p->virtual_stages > 1)
        fprintf(f, "#   pipeline           %lld chunks of %lld block%s a rank\n",
                (long long)p->virtual_stages, (long long)p->virtual_layers,
                mds_plural(p->virtual_layers));
}

static void print_activation_level(const struct mds_activations *a, const char *level,
                                   FILE *f)
{
    struct mds_str text = {0};

    mds_act_text(a, 0, &text);
    fprintf(f, "#   activation memory  %s: %s\n", level,
            text.len ? text.s : "blocks save all activations");
    mds_str_fini(&text);
}

/* Print the options that a level stands for; for auto, those of each allowed level. */
static void print_activation_levels(const struct mds_config *c, FILE *f)
{
    struct mds_config at = *c;
    char number[16];

    if (c->train.act_is_open)
        fprintf(f, "#   activation memory  the first of these levels that fits\n");
    else
        print_activation_level(&c->train.act, c->train.activation_memory, f);
    for (int level = 0;
         c->train.act_is_open && mds_config_next_level(c, &level, &at);) {
        snprintf(number, sizeof number, "%d", level - 1);
        print_activation_level(&at.train.act, number, f);
    }
}

static void print_derived(const struct mds_config_run *run, FILE *f)
{
    struct mds_model_config m = run->config.model;
    int64_t words = m.vocab ? m.vocab : MDS_GPT2_WORDS;
    struct mds_str params = {0};

    if (!m.padded_vocab)
        m.padded_vocab =
            mds_vocab_padded(words, m.vocab_divisor, run->config.parallel.tensor);
    add_grouped(mds_model_params(&m), &params);
    fprintf(f, "\n# What follows from this\n");
    print_layout(run, f);
    fprintf(f, "#   padded vocabulary  %lld words%s\n", (long long)m.padded_vocab,
            m.vocab ? "" : " (assuming GPT-2's 50257; the data decides)");
    fprintf(f, "#   parameters         %s%s\n", params.s ? params.s : "",
            m.vocab ? "" : " (with that vocabulary)");
    if (run->config.train.activation_memory &&
        mds_settings_of(&run->settings, "train.activation_memory")->level >
            MDS_LEVEL_DERIVED)
        print_activation_levels(&run->config, f);
    if (run->published_tensor)
        fprintf(f, "#   published with     tensor %lld, pipeline %lld\n",
                (long long)run->published_tensor, (long long)run->published_pipeline);
    mds_str_fini(&params);
}

static void print_accepted(const struct mds_settings *s, FILE *f)
{
    int any = 0;

    for (size_t i = 0; i < s->foreign_count; i++)
        if (!s->foreign[i].lacking)
            fprintf(f, "%s#   %-30s %s\n", any++ ? "" : "\n# Accepted without effect\n",
                    s->foreign[i].name, s->foreign[i].why);
}

static enum mds_rc print_resolved(const struct mds_config_run *run, FILE *f)
{
    char *text = mds_settings_text(&run->settings);

    if (!text)
        return MDS_EMEM;
    mds_settings_show_text(text, f);
    free(text);
    print_derived(run, f);
    print_accepted(&run->settings, f);
    return MDS_OK;
}

enum mds_rc mds_config_print(struct mds_config_run *run, struct mds_diag *diag, FILE *f)
{
    if (mds_settings_print_action(&mds_pretrain_options, run->action,
                                  run->settings.topic, f))
        return MDS_OK;
    if (run->action != MDS_ACTION_SHOW)
        return mds_fail(MDS_EBUG, "nothing to print for a run");
    if (!run->world)
        MDS_TRY(mds_config_resolve(run, mds_config_world(run), diag));
    return print_resolved(run, f);
}
