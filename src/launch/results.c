/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/results.h"
#include "base/host.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "io/folder.h"
#include "launch/argv.h"
#include "launch/result_table.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum mds_rc create_report_file(const char *folder, const char *name, FILE **out)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_path_join(folder, name, path));
    *out = fopen(path, "we");
    return *out ? MDS_OK : mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
}

static enum mds_rc close_report_file(FILE *f, const char *name)
{
    int bad = ferror(f);

    bad |= fclose(f) != 0;
    return bad ? mds_fail(MDS_EIO, "%s: %s", name, strerror(errno)) : MDS_OK;
}

/* ---- tables ---- */

static enum mds_rc write_csv(const struct mds_results *all, const char *folder)
{
    struct mds_result_table t;
    enum mds_rc rc;
    FILE *f;

    MDS_TRY(mds_result_table_make(all, 1, &t));
    rc = create_report_file(folder, "report.csv", &f);
    if (!rc) {
        mds_result_table_print_csv(&t, f);
        rc = close_report_file(f, "report.csv");
    }
    mds_result_table_fini(&t);
    return rc;
}

static enum mds_rc write_markdown(const struct mds_results *all, const char *folder)
{
    struct mds_result_table t;
    enum mds_rc rc;
    FILE *f;

    MDS_TRY(mds_result_table_make(all, 0, &t));
    rc = create_report_file(folder, "report.md", &f);
    if (!rc) {
        mds_result_table_print_markdown(&t, f);
        mds_result_table_print_markdown(&t, stdout);
        rc = close_report_file(f, "report.md");
    }
    mds_result_table_fini(&t);
    return rc;
}

/* ---- plots ---- */

/* Whether v[i] begins another model; results are sorted by it. */
static int begins_model(const struct mds_results *all, size_t i)
{
    return i == 0 || strcmp(all->v[i].model, all->v[i - 1].model) != 0;
}

/* The longest of a model on so many ranks that made a step; 0: none. */
static long longest_sequence(const struct mds_results *all, const char *model,
                             int ranks)
{
    long most = 0;

    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].ranks == ranks && strcmp(all->v[i].model, model) == 0 &&
            all->v[i].steps > 0 && all->v[i].seq > most)
            most = all->v[i].seq;
    return most;
}

static int next_ranks(const struct mds_results *all, int above)
{
    int next = INT_MAX;

    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].ranks > above && all->v[i].ranks < next)
            next = all->v[i].ranks;
    return next;
}

/* A column of a bar for each model, a row for each number of ranks. */
static void write_longest_plot(const struct mds_results *all, FILE *f)
{
    int models = 0;

    fprintf(f, "set terminal svg size 720,432 background '#ffffff'\n"
               "set output 'longest.svg'\n"
               "set style data histogram\nset style histogram clustered gap 1\n"
               "set style fill solid 0.8 border -1\nset key top left noenhanced\n"
               "set xlabel 'ranks'\nset ylabel 'longest sequence, k tokens'\n"
               "set yrange [0:*]\n$bars << EOD\n");
    for (int ranks = next_ranks(all, -1); ranks != INT_MAX;
         ranks = next_ranks(all, ranks)) {
        fprintf(f, "%d", ranks);
        for (size_t i = 0; i < all->n; i++)
            if (begins_model(all, i))
                fprintf(f, " %.6g",
                        (double)longest_sequence(all, all->v[i].model, ranks) / 1e3);
        fputc('\n', f);
    }
    fprintf(f, "EOD\nplot");
    for (size_t i = 0; i < all->n; i++)
        if (begins_model(all, i)) {
            fprintf(f, "%s $bars using %d:xtic(1) title '%s'", models ? "," : "",
                    models + 2, all->v[i].model);
            models++;
        }
    fputc('\n', f);
}

/* Whether a line of the second plot goes on from v[i - 1] to v[i]: the same model on as
 * many ranks. */
static int same_curve(const struct mds_results *all, size_t i)
{
    return i > 0 && i < all->n && !begins_model(all, i) &&
           all->v[i].ranks == all->v[i - 1].ranks;
}

/* FLOP/s at the length of v[i], of all runs of its line the fastest; *next is the first
 * run of another length, or line. */
static double fastest_of_length(const struct mds_results *all, size_t i, size_t *next)
{
    double most = mds_result_flops_per_s(&all->v[i]);

    for (*next = i + 1; same_curve(all, *next) && all->v[*next].seq == all->v[i].seq;
         (*next)++)
        most = fmax(most, mds_result_flops_per_s(&all->v[*next]));
    return most;
}

/* The points of the line that begins at v[i]; *end is where the next begins.  Returns
 * how many there are; f: NULL to count only. */
static int write_curve(const struct mds_results *all, size_t i, size_t *end, FILE *f)
{
    int points = 0;
    size_t next;

    do {
        double flops = fastest_of_length(all, i, &next);

        if (flops > 0 && f)
            fprintf(f, "%ld %.6g\n", all->v[i].seq, flops / 1e12);
        points += flops > 0;
        i = next;
    } while (same_curve(all, i));
    *end = i;
    return points;
}

/* A line for each model and number of ranks that made a step. */
static void write_speed_plot(const struct mds_results *all, FILE *f)
{
    const char *between = "plot";
    long least = LONG_MAX, most = 0;
    size_t end;

    for (size_t i = 0; i < all->n; i = end) {
        fprintf(f, "$line%zu << EOD\n", i);
        write_curve(all, i, &end, f);
        fprintf(f, "EOD\n");
    }
    fprintf(f, "set output 'speed.svg'\nset logscale x 2\nset key below\n"
               "set xlabel 'sequence length, tokens'\nset ylabel 'TFLOP/s per rank'\n");
    for (size_t i = 0; i < all->n; i++)
        if (mds_result_flops_per_s(&all->v[i]) > 0 && all->v[i].seq > 0) {
            least = mds_min(least, all->v[i].seq);
            most = mds_max(most, all->v[i].seq);
        }
    if (most > 0) /* of a single length gnuplot would make no range, and warn */
        fprintf(f, "set xrange [%g:%g]\n", (double)least / 1.2, (double)most * 1.2);
    for (size_t i = 0; i < all->n; i = end)
        if (write_curve(all, i, &end, NULL) > 0) {
            fprintf(f,
                    "%s $line%zu using 1:2 with linespoints pt 7 title '%s, %d rank%s'",
                    between, i, all->v[i].model, all->v[i].ranks,
                    mds_plural(all->v[i].ranks));
            between = ",";
        }
    fputc('\n', f);
}

/* A curve for each run in which a rank was measured. */
static void write_straggler_plot(const struct mds_results *all, FILE *f)
{
    const char *between = "plot";

    for (size_t i = 0; i < all->n; i++) {
        if (all->v[i].slows == 0)
            continue;
        fprintf(f, "$slow%zu << EOD\n", i);
        for (size_t k = 0; k < all->v[i].slows; k++)
            fprintf(f, "%ld %.4g\n", all->v[i].slow[k].step,
                    100 * all->v[i].slow[k].excess);
        fprintf(f, "EOD\n");
    }
    for (size_t i = 0; i < all->n; i++) {
        if (all->v[i].slows == 0)
            continue;
        if (*between == 'p')
            fprintf(f, "set output 'stragglers.svg'\nunset logscale x\n"
                       "set xrange [0:*]\nset yrange [0:*]\nset xlabel 'iteration'\n"
                       "set ylabel 'slowest rank above the median, %%'\n");
        fprintf(f, "%s $slow%zu using 1:2 with linespoints pt 7 title '%s'", between, i,
                all->v[i].run);
        between = ",";
    }
    fputc('\n', f);
}

static int has_any_step(const struct mds_results *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (mds_result_flops_per_s(&all->v[i]) > 0)
            return 1;
    return 0;
}

/* Of an earlier report. */
static enum mds_rc remove_plots(const char *folder)
{
    static const char *const names[] = {"losses.svg", "longest.svg", "speed.svg",
                                        "stragglers.svg"};
    char path[MDS_PATH_SIZE];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        MDS_TRY(mds_path_join(folder, names[i], path));
        unlink(path);
    }
    return MDS_OK;
}

/* The script beside this program, or that of the source tree. */
static void add_mds_plot(struct mds_str *command)
{
    char folder[MDS_PATH_SIZE], path[MDS_PATH_SIZE];

    mds_program_folder(folder, sizeof folder);
    if (mds_path_join(folder, "mds_plot", path) || access(path, X_OK))
        snprintf(path, sizeof path, MDS_SRCDIR "/scripts/mds_plot");
    mds_str_add(command, " && ");
    mds_shell_quote(path, command);
    mds_str_add(command, " -- */metrics.jsonl losses.svg");
}

static int has_any_loss(const struct mds_results *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].has_loss)
            return 1;
    return 0;
}

static enum mds_rc write_plots(const struct mds_results *all, const char *folder)
{
    struct mds_str command = {0};
    FILE *f;
    int bad;

    MDS_TRY(remove_plots(folder));
    if (!has_any_step(all)) {
        mds_warn("no plots: no run in %s finished a step", folder);
        return MDS_OK;
    }
    MDS_TRY(create_report_file(folder, "report.gp", &f));
    write_longest_plot(all, f);
    write_speed_plot(all, f);
    write_straggler_plot(all, f);
    MDS_TRY(close_report_file(f, "report.gp"));
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        mds_warn("no plots: gnuplot is not in PATH; run it on report.gp later");
        return MDS_OK;
    }
    mds_str_add(&command, "cd -- ");
    mds_shell_quote(folder, &command);
    mds_str_add(&command, " && gnuplot report.gp");
    if (has_any_loss(all))
        add_mds_plot(&command);
    bad = command.failed || system(command.s) != 0;
    mds_str_fini(&command);
    return bad ? mds_fail(MDS_EIO,
                          "report: no plots in %s: gnuplot report.gp, or mds_plot of "
                          "the losses, failed there",
                          folder)
               : MDS_OK;
}

void mds_result_fini(struct mds_result *r)
{
    mds_history_fini(&r->history);
    free(r->slow);
}

void mds_results_fini(struct mds_results *all)
{
    for (size_t i = 0; i < all->n; i++)
        mds_result_fini(&all->v[i]);
    free(all->v);
    *all = (struct mds_results){0};
}

enum mds_rc mds_results_write(const struct mds_results *all, const char *folder)
{
    MDS_TRY(write_csv(all, folder));
    MDS_TRY(write_markdown(all, folder));
    return write_plots(all, folder);
}
