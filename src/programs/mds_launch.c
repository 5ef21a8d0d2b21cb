/* mds_launch: find nodes, choose a layout, start or submit mds_pretrain. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "base/str.h"
#include "base/units.h"
#include "launch/launch.h"
#include "launch/near.h"
#include "launch/options.h"
#include "launch/submit.h"
#include "plan/plan.h"
#include "programs/finish.h"
#include "programs/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What was asked for. */
struct call {
    struct mds_launch_options options;
    struct mds_settings settings;
    int argc; /* mds_pretrain's, after -- */
    char **argv;
    int all_count; /* all words */
    char **all;
};

static _Noreturn void leave(void)
{
    mds_failure_log();
    exit(EXIT_FAILURE);
}

/* ---- verbs ---- */

static void print_line(const struct mds_words *w)
{
    struct mds_str line = {0};

    mds_words_line(w, NULL, &line);
    if (!line.failed)
        puts(line.s);
    mds_str_fini(&line);
}

static enum mds_rc verb_run(struct call *c)
{
    struct mds_words arguments = {0}, command = {0};
    struct mds_estimate estimate;
    struct mds_launch l;
    enum mds_rc rc;

    MDS_TRY(mds_launch_open(&c->options, 0, c->argc, c->argv, &l));
    mds_placement_warn(&l.placement);
    rc = mds_launch_choose(&l, &arguments, &estimate);
    if (!rc)
        rc = mds_launch_command(&l, &arguments, &command);
    if (!rc)
        print_line(&command);
    if (!rc)
        rc = mds_stdout_flush();
    if (!rc && !c->options.print) {
        execvp(command.v[0], command.v);
        rc = mds_fail(MDS_EUSER, "%s: %s; is it in PATH?", command.v[0],
                      strerror(errno));
    }
    mds_words_fini(&command);
    mds_words_fini(&arguments);
    mds_launch_close(&l);
    return rc;
}

static enum mds_rc verb_where(struct call *c)
{
    struct mds_launch l;
    struct mds_near near;

    MDS_TRY(mds_launch_open(&c->options, 0, 0, NULL, &l));
    printf("machine %s (%s)\n", l.machine->name, l.machine->path);
    mds_placement_print(&l.placement, stdout);
    mds_near_find(&near);
    mds_near_print(&near, stdout);
    mds_near_fini(&near);
    printf("%lld rank%s: %lld node%s, %lld on each\n", (long long)l.ranks,
           mds_plural(l.ranks), (long long)l.nodes, mds_plural(l.nodes),
           (long long)l.per_node);
    mds_launch_close(&l);
    return MDS_OK;
}

static struct mds_plan_request request(const struct call *c, const struct mds_launch *l,
                                       const struct mds_config_run *run)
{
    return (struct mds_plan_request){.machine = l->machine,
                                     .run = run,
                                     .world = l->ranks,
                                     .per_node = l->per_node,
                                     .budget_s = c->options.plan_s};
}

static enum mds_rc print_plan(struct call *c, const struct mds_launch *l,
                              const struct mds_config_run *run)
{
    const struct mds_plan_request r = request(c, l, run);
    struct mds_diag diag = {0};
    struct mds_plan p;
    enum mds_rc rc = mds_plan_search(&r, &diag, &p);

    mds_diag_log(&diag);
    mds_diag_fini(&diag);
    if (rc)
        return rc;
    mds_plan_print(&r, &p, c->options.rows, stdout);
    if (p.fit_count == 0) {
        mds_plan_advise(&r, &p, stdout);
        rc = mds_plan_refuse(&r, &p);
    }
    mds_plan_fini(&p);
    return rc;
}

static enum mds_rc print_max_seq(const struct call *c, const struct mds_launch *l,
                                 const struct mds_config_run *run)
{
    const struct mds_plan_request r = request(c, l, run);
    struct mds_plan_longest longest;
    struct mds_str text = {0};

    MDS_TRY(mds_plan_max_seq(&r, &longest));
    if (longest.untried > 0)
        printf("not tried for want of time: %lld grids (--plan-seconds)\n",
               (long long)longest.untried);
    if (longest.seq == 0)
        return mds_fail(MDS_EUSER, "no sequence fits on %lld ranks of %s",
                        (long long)l->ranks, l->machine->name);
    mds_layout_describe(&longest.best.layout, r.world, &text);
    printf("longest sequence: %lld tokens, with %s\n%lld dry runs in %.1f s\n",
           (long long)longest.seq, text.s ? text.s : "", (long long)longest.rehearsed,
           longest.took_s);
    mds_str_fini(&text);
    return MDS_OK;
}

static enum mds_rc verb_plan(struct call *c)
{
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    struct mds_launch l;
    enum mds_rc rc;

    MDS_TRY(mds_launch_open(&c->options, 1, c->argc, c->argv, &l));
    rc = mds_launch_config(&l, NULL, 1, &run);
    if (rc)
        goto close_launch;
    if (!mds_config_has_shape(&run->config.model, &diag)) {
        rc = mds_diag_verdict(&diag);
        goto destroy_run;
    }
    printf("%s", run->config.model.size_key ? run->config.model.size_key : "a model");
    if (!c->options.max_seq)
        printf(", %lld tokens", (long long)run->config.model.seq_length);
    printf(", %lld rank%s: %lld node%s of %s\n", (long long)l.ranks,
           mds_plural(l.ranks), (long long)l.nodes, mds_plural(l.nodes),
           l.machine->name);
    rc = c->options.max_seq ? print_max_seq(c, &l, run) : print_plan(c, &l, run);
destroy_run:
    mds_diag_fini(&diag);
    mds_config_run_destroy(run);
close_launch:
    mds_launch_close(&l);
    return rc;
}

static enum mds_rc verb_check_profile(struct call *c)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};
    const char *path;
    enum mds_rc rc;

    if (c->settings.operand_count != 2)
        return mds_fail(MDS_EUSER, "check-profile needs one FILE");
    path = c->settings.operands[1];
    rc = mds_machine_load(path, &diag, &m);
    if (!rc)
        printf("%s: %s, %s\n", path, m->name, m->about);
    mds_machine_destroy(m);
    mds_diag_fini(&diag);
    return rc;
}

static enum mds_rc verb_submit(struct call *c)
{
    return mds_submit(&c->options, c->settings.operands + 1,
                      c->settings.operand_count - 1, c->argc, c->argv);
}

/* Everything but the verb and its table goes to each cell's submit. */
static enum mds_rc verb_sweep(struct call *c)
{
    char **rest = c->all + 1;
    int n = 0;

    if (c->settings.operand_count != 2)
        return mds_fail(MDS_EUSER, "sweep needs one FILE");
    for (int i = 1; i < c->all_count; i++)
        if (c->all[i] != c->settings.operands[0] &&
            c->all[i] != c->settings.operands[1])
            rest[n++] = c->all[i];
    return mds_sweep(&c->options, c->settings.operands[1], n, rest);
}

static enum mds_rc verb_report(struct call *c)
{
    if (c->settings.operand_count != 2)
        return mds_fail(MDS_EUSER, "report needs one DIR of run folders");
    return mds_report(c->settings.operands[1]);
}

static const struct verb {
    const char *name;
    size_t words; /* that it takes, at most */
    enum mds_rc (*call)(struct call *c);
} verbs[] = {
    {"run", 0, verb_run},       {"where", 0, verb_where},
    {"plan", 0, verb_plan},     {"check-profile", 1, verb_check_profile},
    {"submit", 4, verb_submit}, {"sweep", 1, verb_sweep},
    {"report", 1, verb_report},
};

enum { VERBS = sizeof verbs / sizeof *verbs };

static enum mds_rc check_and_call(struct call *c, const struct verb *v)
{
    if (c->settings.operand_count > v->words + 1)
        return mds_fail(MDS_EUSER,
                        "'%s' is one word too many; see mds_launch %s --help",
                        c->settings.operands[v->words + 1], v->name);
    return v->call(c);
}

static enum mds_rc call_verb(struct call *c)
{
    const char *name = c->settings.operand_count ? c->settings.operands[0] : "run";
    const char *names[VERBS], *near;

    for (int i = 0; i < VERBS; i++) {
        if (strcmp(name, verbs[i].name) == 0)
            return check_and_call(c, &verbs[i]);
        names[i] = verbs[i].name;
    }
    near = mds_str_nearest(name, names, VERBS);
    return mds_fail(MDS_EUSER, "unknown verb '%s'; %s%s%s", name,
                    near ? "did you mean " : "see --help", near ? near : "",
                    near ? "?" : "");
}

/* ---- start ---- */

/* --help and its like; 0 if something else is asked for. */
static int print_action(const struct call *c)
{
    switch (c->settings.action) {
    case MDS_LAUNCH_HELP:
        if (c->settings.operand_count == 0 ||
            !mds_launch_help(c->settings.operands[0], stdout))
            mds_settings_help(&mds_launch_options, stdout);
        return 1;
    case MDS_LAUNCH_VERSION:
        mds_settings_version(&mds_launch_options, stdout);
        return 1;
    case MDS_LAUNCH_MAN:
        mds_settings_man(&mds_launch_options, stdout);
        return 1;
    default:
        return 0;
    }
}

/* Everything before -- is ours. */
static enum mds_rc read_call(struct call *c, int argc, char **argv,
                             struct mds_diag *diag)
{
    int ours = 1;

    while (ours < argc && strcmp(argv[ours], "--") != 0)
        ours++;
    c->all_count = argc;
    c->all = argv;
    c->argc = ours < argc ? argc - ours - 1 : 0;
    c->argv = argv + ours + (ours < argc);
    MDS_TRY(mds_settings_init(&c->settings, &mds_launch_options, &c->options));
    mds_settings_read_args(&c->settings, ours, argv, diag);
    mds_settings_read_env(&c->settings, diag);
    mds_settings_check_paths(&c->settings, diag);
    return mds_diag_verdict(diag);
}

int main(int argc, char **argv)
{
    struct mds_diag diag = {0};
    struct call c = {.argc = 0};

    mds_program_start();
    if (read_call(&c, argc, argv, &diag))
        leave();
    if (!print_action(&c) && call_verb(&c))
        leave();
    if (mds_stdout_flush())
        leave();
    mds_settings_fini(&c.settings);
    mds_diag_fini(&diag);
    return EXIT_SUCCESS;
}
