/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/result_table.h"
#include "config/options.h"

#include <math.h>
#include <string.h>

double mds_result_flops_per_s(const struct mds_result *r)
{
    return r->elapsed_s > 0 && r->ranks > 0 ? r->flops / r->elapsed_s / r->ranks : 0;
}

double mds_result_tokens_per_s(const struct mds_result *r)
{
    return r->elapsed_s > 0 && r->ranks > 0
               ? r->global * (double)r->seq / r->elapsed_s / r->ranks
               : 0;
}

/* ---- what varied ---- */

/* Whether an option has a column if it varies.  Those that have one always, and names
 * of outputs, have not. */
static int may_vary(const char *flag)
{
    static const char *const not_here[] = {"--seq-length", "--model-size-key", NULL};
    static const char *const groups[] = {"General", "Output", "Checkpoints", NULL};
    const struct mds_option *o = mds_pretrain_options.options;

    while (o->help && !(o->flag && strcmp(o->flag, flag) == 0))
        o++;
    return strncmp(flag, "--", 2) == 0 && !mds_str_is_in(flag, not_here) &&
           !(o->help && mds_str_is_in(o->group, groups));
}

static int differs(const struct mds_argv *a, const struct mds_argv *b, const char *flag)
{
    struct mds_str x = {0}, y = {0};
    int has_x = mds_history_option(a, flag, &x),
        has_y = mds_history_option(b, flag, &y);
    int same = has_x == has_y && (!has_x || strcmp(x.s, y.s) == 0);

    mds_str_fini(&x);
    mds_str_fini(&y);
    return !same;
}

static int is_among(const struct mds_argv *words, const char *word)
{
    for (size_t i = 0; i < words->n; i++)
        if (strcmp(words->v[i], word) == 0)
            return 1;
    return 0;
}

/* Add the flags that a or b has and that do not have the same value in both. */
static void add_differing(const struct mds_argv *a, const struct mds_argv *b,
                          struct mds_argv *flags)
{
    for (size_t i = 0; i < a->n; i++)
        if (may_vary(a->v[i]) && !is_among(flags, a->v[i]) && differs(a, b, a->v[i]))
            mds_argv_add(flags, "%s", a->v[i]);
}

/* All runs beside the first: what is the same there is the same in all. */
static void find_varied(const struct mds_results *all, struct mds_argv *flags)
{
    const struct mds_argv *first = &all->v[0].history.asked;

    for (size_t i = 1; i < all->n; i++) {
        add_differing(first, &all->v[i].history.asked, flags);
        add_differing(&all->v[i].history.asked, first, flags);
    }
}

/* ---- cells ---- */

static void add_heading(const struct mds_argv *varied, int exact,
                        struct mds_argv *cells)
{
    static const char *const brief[] = {
        "run",           "model",        "ranks", "sequence", "steps",      "step s",
        "tokens/s/rank", "TFLOP/s/rank", "loss",  "valid",    "node-hours", NULL};
    static const char *const full[] = {"run",
                                       "model",
                                       "ranks",
                                       "seq_length",
                                       "steps",
                                       "step_s",
                                       "tokens_per_s_per_rank",
                                       "tflops_per_rank",
                                       "lm_loss",
                                       "validation_loss",
                                       "node_hours",
                                       NULL};

    for (const char *const *p = exact ? full : brief; *p; p++)
        mds_argv_add(cells, "%s", *p);
    for (size_t i = 0; i < varied->n; i++)
        mds_argv_add(cells, "%s", varied->v[i] + strlen("--"));
}

static void add_history(const struct mds_result *r, int exact, struct mds_argv *cells)
{
    double node_hours = mds_history_node_hours(&r->history);

    mds_argv_add(cells,
                 isnan(r->valid_loss) ? ""
                 : exact              ? "%.6g"
                                      : "%.4f",
                 r->valid_loss);
    mds_argv_add(cells, isnan(node_hours) ? "" : "%.*g", exact ? 6 : 3, node_hours);
}

static void add_speed(const struct mds_result *r, int exact, struct mds_argv *cells)
{
    double tflops = mds_result_flops_per_s(r) / 1e12;

    if (r->steps == 0) {
        mds_argv_add(cells, "%s", exact ? "0" : "no step yet");
        for (int i = 0; i < 4; i++)
            mds_argv_add(cells, "%s", "");
        return;
    }
    mds_argv_add(cells, "%ld", r->steps);
    mds_argv_add(cells, "%.*g", exact ? 6 : 4, r->elapsed_s);
    mds_argv_add(cells, exact ? "%.6g" : "%.0f", mds_result_tokens_per_s(r));
    mds_argv_add(cells, "%.*g", exact ? 6 : 4, tflops);
    mds_argv_add(cells, exact ? "%.6g" : "%.4f", r->loss);
}

/* As CSV, Markdown and HTML all take it. */
static void add_option(const struct mds_result *r, const char *flag,
                       struct mds_argv *cells)
{
    struct mds_str value = {0};

    mds_history_option(&r->history.asked, flag, &value);
    for (char *p = value.s; p && (p = strpbrk(p, ",\"|\t\n")) != NULL;)
        *p = *p == ',' ? ';' : ' ';
    mds_argv_add(cells, "%s", value.s ? value.s : "");
    cells->failed |= value.failed;
    mds_str_fini(&value);
}

static void add_row(const struct mds_result *r, const struct mds_argv *varied,
                    int exact, struct mds_argv *cells)
{
    mds_argv_add(cells, "%s", r->run);
    mds_argv_add(cells, "%s", r->model);
    mds_argv_add(cells, "%d", r->ranks);
    mds_argv_add(cells, "%ld", r->seq);
    add_speed(r, exact, cells);
    add_history(r, exact, cells);
    for (size_t i = 0; i < varied->n; i++)
        add_option(r, varied->v[i], cells);
}

/* ---- notes ---- */

/* Of the measured steps, those in which slow[i]'s rank was slow; *excess is the mean of
 * these. */
static size_t count_slow_steps(const struct mds_result *r, size_t i, double *excess)
{
    double sum = 0;
    size_t n = 0;

    for (size_t k = 0; k < r->slows; k++)
        if (r->slow[k].excess > 0.1 && r->slow[k].rank == r->slow[i].rank &&
            strcmp(r->slow[k].host, r->slow[i].host) == 0) {
            n++;
            sum += r->slow[k].excess;
        }
    *excess = n > 0 ? sum / (double)n : 0;
    return n;
}

/* A rank that was slow in more than half of the measured steps. */
static void note_straggler(const struct mds_result *r, struct mds_argv *notes)
{
    double excess;

    for (size_t i = 0; i < r->slows; i++) {
        size_t steps = count_slow_steps(r, i, &excess);

        if (2 * steps <= r->slows)
            continue;
        mds_argv_add(notes,
                     "%s: the other ranks waited for rank %d on %s in %zu of %zu "
                     "measured steps; it took %.0f %% longer than the median.",
                     r->run, r->slow[i].rank, r->slow[i].host, steps, r->slows,
                     100 * excess);
        return;
    }
}

static void note_losses(const struct mds_result *r, struct mds_argv *notes)
{
    for (size_t i = 0; i < r->history.losses.n; i++)
        mds_argv_add(notes, "%s: %s", r->run, r->history.losses.v[i]);
}

/* ---- the table ---- */

enum mds_rc mds_result_table_make(const struct mds_results *all, int exact,
                                  struct mds_result_table *out)
{
    struct mds_argv varied = {0};
    int failed;

    *out = (struct mds_result_table){0};
    find_varied(all, &varied);
    add_heading(&varied, exact, &out->cells);
    out->columns = out->cells.n;
    for (size_t i = 0; i < all->n; i++)
        add_row(&all->v[i], &varied, exact, &out->cells);
    for (size_t i = 0; i < all->n; i++)
        note_straggler(&all->v[i], &out->notes);
    for (size_t i = 0; i < all->n; i++)
        note_losses(&all->v[i], &out->notes);
    failed = varied.failed || out->cells.failed || out->notes.failed;
    mds_argv_fini(&varied);
    if (failed)
        mds_result_table_fini(out);
    return failed ? mds_fail(MDS_EMEM, "no host memory for the table of runs") : MDS_OK;
}

void mds_result_table_fini(struct mds_result_table *t)
{
    mds_argv_fini(&t->cells);
    mds_argv_fini(&t->notes);
}

void mds_result_table_print_csv(const struct mds_result_table *t, FILE *f)
{
    for (size_t i = 0; i < t->cells.n; i++)
        fprintf(f, "%s%s", t->cells.v[i], (i + 1) % t->columns ? "," : "\n");
}

void mds_result_table_print_markdown(const struct mds_result_table *t, FILE *f)
{
    for (size_t i = 0; i < t->cells.n; i++) {
        fprintf(f, "|%s%s%s", *t->cells.v[i] ? " " : "", t->cells.v[i],
                (i + 1) % t->columns ? " " : " |\n");
        for (size_t k = 0; i + 1 == t->columns && k < t->columns; k++)
            fprintf(f, "|---%s", k + 1 < t->columns ? "" : "|\n");
    }
    for (size_t i = 0; i < t->notes.n; i++)
        fprintf(f, "\n%s\n", t->notes.v[i]);
}
