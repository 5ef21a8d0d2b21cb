/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/preflight.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "io/jsonl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values that should be about equal on all ranks ---- */

enum kind { COMPUTE, LINK, DISK, MEMORY };

#define AT(field) offsetof(struct mds_preflight_record, field)
static const struct value {
    const char *key, *name, *unit;
    enum kind kind;
    size_t offset;
    const char *remedy;
} values[] = {
    {"gemm_flops_per_s", "GEMMs", "FLOP/s", COMPUTE, AT(flops),
     "look for other processes there, and at nvidia-smi -q -d CLOCK,PERFORMANCE"},
    {"to_device_bytes_per_s", "copies to the GPU", "B/s", LINK, AT(in_rate),
     "its link may have fewer lanes (nvidia-smi -q, Link Width), or the rank is bound "
     "to cores far from it"},
    {"from_device_bytes_per_s", "copies from the GPU", "B/s", LINK, AT(out_rate),
     "its link may have fewer lanes (nvidia-smi -q, Link Width), or the rank is bound "
     "to cores far from it"},
    {"gpu_free_bytes", "free GPU memory", "B", COMPUTE, AT(gpu_free_bytes),
     "another process holds memory there (nvidia-smi)"},
    {"host_free_bytes", "available host memory", "B", MEMORY, AT(host_bytes),
     "another process holds memory there, or the job got less of that node"},
    {"shm_free_bytes", "free memory in /dev/shm", "B", MEMORY, AT(shm_bytes),
     "remove files there that earlier jobs have left"},
    {"save_bytes_per_s", "writing to --save", "B/s", DISK, AT(save_rate),
     "that node's link to the file system is slow"},
    {"scratch_bytes_per_s", "writing to --nvme-path", "B/s", DISK, AT(scratch_rate),
     "that disk is slow or full"},
};
enum { VALUES = sizeof values / sizeof *values };

static double value_of(const struct mds_preflight_record *r, const struct value *v)
{
    double x;

    memcpy(&x, (const char *)r + v->offset, sizeof x);
    return x;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of x[n]; 0 if there are none. */
static double at(const double *x, int n, int i)
{
    return n > 0 ? x[i] : 0;
}

/* The median, and of an even number the upper one. */
static double median_value(const struct mds_preflight_record *r, int ranks,
                           const struct value *v, double *x)
{
    int n = 0;

    for (int i = 0; i < ranks; i++)
        if (value_of(&r[i], v) > 0)
            x[n++] = value_of(&r[i], v);
    qsort(x, (size_t)n, sizeof *x, compare_numbers);
    return at(x, n, n / 2);
}

/* x = what groups have measured, of which the first rank of each speaks, in order:
 * rates, or times of a short message.  Returns how many there are. */
static int sort_test(const struct mds_preflight_record *r, int ranks, int test,
                     int by_time, double *x)
{
    int n = 0;

    for (int i = 0; i < ranks; i++) {
        const struct mds_preflight_test *t = &r[i].test[test];

        if (test < r[i].tests && t->here == 0)
            x[n++] = by_time ? t->small_s : t->rate;
    }
    qsort(x, (size_t)n, sizeof *x, compare_numbers);
    return n;
}

/* ---- faults ---- */

__attribute__((format(printf, 3, 4))) static enum mds_rc
add_fault(struct mds_preflight_faults *f, int rank, const char *fmt, ...)
{
    struct mds_preflight_fault *fault;
    va_list args;

    MDS_TRY(mds_grow(&f->v, f->n, sizeof *f->v));
    fault = &f->v[f->n++];
    fault->rank = rank;
    fault->of_group = 0;
    va_start(args, fmt);
    vsnprintf(fault->text, sizeof fault->text, fmt, args);
    va_end(args);
    return MDS_OK;
}

static double limit_of(const struct mds_preflight_limits *l, enum kind kind)
{
    const double of[] = {
        [COMPUTE] = l->compute, [LINK] = l->link, [DISK] = l->disk, [MEMORY] = 0.5};

    return of[kind];
}

static enum mds_rc compare_values(const struct mds_preflight_record *r, int ranks,
                                  const struct value *v, double limit, double *x,
                                  struct mds_preflight_faults *out)
{
    double usual = median_value(r, ranks, v, x);
    char has[32], all[32];

    for (int i = 0; i < ranks; i++) {
        double own = value_of(&r[i], v);

        if (own <= 0 || own >= limit * usual)
            continue;
        MDS_TRY(add_fault(out, i, "%s: %s%s, the median is %s%s; %s", v->name,
                          mds_format_count(own, has, sizeof has), v->unit,
                          mds_format_count(usual, all, sizeof all), v->unit,
                          v->remedy));
    }
    return MDS_OK;
}

static enum mds_rc compare_collectives(const struct mds_preflight_record *r, int ranks,
                                       int test, double limit, double *x,
                                       struct mds_preflight_faults *out)
{
    int n = sort_test(r, ranks, test, 0, x);
    double usual = at(x, n, n / 2);
    char has[32], all[32];

    for (int i = 0; i < ranks; i++) {
        const struct mds_preflight_test *t = &r[i].test[test];

        if (test >= r[i].tests || t->here != 0 || t->rate >= limit * usual)
            continue;
        MDS_TRY(add_fault(out, i,
                          "%s among the %d ranks of its group: %sB/s, the median of "
                          "such groups is %sB/s; check the network of their nodes",
                          t->name, t->size, mds_format_count(t->rate, has, sizeof has),
                          mds_format_count(usual, all, sizeof all)));
        out->v[out->n - 1].of_group = 1;
    }
    return MDS_OK;
}

/* Whether the rank before it is on the same host and sees as many GPUs. */
static int is_reported_by_neighbour(const struct mds_preflight_record *r, int i)
{
    return i > 0 && r[i - 1].gpus == r[i].gpus && strcmp(r[i - 1].host, r[i].host) == 0;
}

static enum mds_rc check_each_rank(const struct mds_preflight_record *r, int ranks,
                                   struct mds_preflight_faults *out)
{
    int gpus = 0;

    for (int i = 0; i < ranks; i++)
        gpus = r[i].gpus > gpus ? r[i].gpus : gpus;
    for (int i = 0; i < ranks; i++) {
        if (*r[i].fault)
            MDS_TRY(add_fault(out, i, "%s", r[i].fault));
        if (r[i].gpus < gpus && !is_reported_by_neighbour(r, i))
            MDS_TRY(add_fault(out, i,
                              "its host has %d GPU%s, others have %d; a GPU may have "
                              "failed (look for Xid in dmesg)",
                              r[i].gpus, mds_plural(r[i].gpus), gpus));
        if (r[i].ecc_errors > 0)
            MDS_TRY(add_fault(out, i,
                              "its GPU has %.0f uncorrected ECC errors; have it reset, "
                              "or leave the node out with --exclude",
                              r[i].ecc_errors));
        if (*r[i].throttle)
            MDS_TRY(
                add_fault(out, i, "its GPU lowers its clocks (%d of %d MHz, %d C): %s",
                          r[i].sm_mhz, r[i].most_sm_mhz, r[i].celsius, r[i].throttle));
    }
    return MDS_OK;
}

enum mds_rc mds_preflight_find_faults(const struct mds_preflight_record *r, int ranks,
                                      const struct mds_preflight_limits *limits,
                                      struct mds_preflight_faults *out)
{
    double *x = mds_zalloc((size_t)ranks, sizeof *x);
    enum mds_rc rc;

    *out = (struct mds_preflight_faults){0};
    if (!x)
        return MDS_EMEM;
    rc = check_each_rank(r, ranks, out);
    for (int i = 0; i < VALUES && !rc; i++)
        rc = compare_values(r, ranks, &values[i], limit_of(limits, values[i].kind), x,
                            out);
    for (int i = 0; i < MDS_PREFLIGHT_TESTS && !rc; i++)
        rc = compare_collectives(r, ranks, i, limits->link, x, out);
    free(x);
    return rc;
}

/* ---- the table ---- */

enum { MOST_NODES = 64, MOST_FAULTS = 50, COLUMN = 11 };

/* The worst of a host's ranks. */
struct host_row {
    double lowest[VALUES];
    int gpus, sm_mhz, celsius;
    double ecc_errors;
};

/* The columns of the table: those that some rank has measured. */
struct columns {
    int shown[VALUES];
    int gpus;
};

static struct columns find_columns(const struct mds_preflight_record *r, int ranks)
{
    struct columns c = {.gpus = 0};

    for (int i = 0; i < ranks; i++) {
        c.gpus |= r[i].gpus > 0;
        for (int k = 0; k < VALUES; k++)
            c.shown[k] |= value_of(&r[i], &values[k]) > 0;
    }
    return c;
}

static void print_heads(const struct columns *c, struct mds_str *out)
{
    static const char *const heads[VALUES] = {"GEMM FLOP/s", "to GPU B/s", "from B/s",
                                              "GPU free B",  "host B",     "/dev/shm B",
                                              "save B/s",    "nvme B/s"};

    mds_str_add(out, "worst of each host's ranks:\n  %-20s", "host");
    for (int k = 0; k < VALUES; k++)
        if (c->shown[k])
            mds_str_add(out, " %*s", COLUMN, heads[k]);
    mds_str_add(out, "%s\n", c->gpus ? "  GPUs   MHz    C  ECC" : "");
}

static void print_row(const char *host, const struct host_row *w,
                      const struct columns *c, const char *end, struct mds_str *out)
{
    char text[32];

    mds_str_add(out, "  %-20.20s", host);
    for (int k = 0; k < VALUES; k++)
        if (c->shown[k])
            mds_str_add(out, " %*s", COLUMN,
                        w->lowest[k] > 0
                            ? mds_format_count(w->lowest[k], text, sizeof text)
                            : "-");
    if (c->gpus)
        mds_str_add(out, " %5d %5d %4d %4.0f", w->gpus, w->sm_mhz, w->celsius,
                    w->ecc_errors);
    mds_str_add(out, "%s\n", end);
}

static int is_first_of_host(const struct mds_preflight_record *r, int i)
{
    for (int k = i - 1; k >= 0; k--)
        if (strcmp(r[k].host, r[i].host) == 0)
            return 0;
    return 1;
}

static int host_has_fault(const struct mds_preflight_record *r, const char *host,
                          const struct mds_preflight_faults *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(r[f->v[i].rank].host, host) == 0)
            return 1;
    return 0;
}

static void add_rank(struct host_row *w, const struct mds_preflight_record *r)
{
    for (int k = 0; k < VALUES; k++) {
        double x = value_of(r, &values[k]);

        if (x > 0 && (w->lowest[k] <= 0 || x < w->lowest[k]))
            w->lowest[k] = x;
    }
    w->gpus = r->gpus;
    if (r->sm_mhz > 0 && (w->sm_mhz == 0 || r->sm_mhz < w->sm_mhz))
        w->sm_mhz = r->sm_mhz;
    w->celsius = r->celsius > w->celsius ? r->celsius : w->celsius;
    w->ecc_errors = fmax(w->ecc_errors, r->ecc_errors);
}

static void print_hosts(const struct mds_preflight_record *r, int ranks,
                        const struct mds_preflight_faults *faults, struct mds_str *out)
{
    const struct columns c = find_columns(r, ranks);
    int shown = 0, hosts = 0;

    print_heads(&c, out);
    for (int i = 0; i < ranks; i++) {
        struct host_row w = {.gpus = 0};
        int marked;

        if (!is_first_of_host(r, i))
            continue;
        hosts++;
        marked = host_has_fault(r, r[i].host, faults);
        if (!marked && shown >= MOST_NODES)
            continue;
        for (int k = i; k < ranks; k++)
            if (strcmp(r[k].host, r[i].host) == 0)
                add_rank(&w, &r[k]);
        print_row(r[i].host, &w, &c, marked ? "  <--" : "", out);
        shown++;
    }
    if (shown < hosts)
        mds_str_add(out, "  and %d more without a fault\n", hosts - shown);
}

static void print_tests(const struct mds_preflight_record *r, int ranks,
                        struct mds_str *out)
{
    double *x = mds_zalloc((size_t)ranks, sizeof *x);
    char rate[32], least[32], time[32], most[32];

    if (!x || r[0].tests == 0) {
        free(x);
        return;
    }
    mds_str_add(out,
                "collectives over the layout's groups:\n"
                "  %-24s %6s %12s %12s %12s %12s\n",
                "group", "ranks", "64 KiB", "longest", "long, B/s", "lowest");
    for (int t = 0; t < r[0].tests; t++) {
        /* of an even number a median is the better one */
        int n = sort_test(r, ranks, t, 1, x);
        double usual_s = at(x, n, (n - 1) / 2), longest_s = at(x, n, n - 1);

        n = sort_test(r, ranks, t, 0, x);
        mds_str_add(out, "  %-24s %6d %12s %12s %12s %12s\n", r[0].test[t].name,
                    r[0].test[t].size, mds_format_step(usual_s, time, sizeof time),
                    mds_format_step(longest_s, most, sizeof most),
                    mds_format_count(at(x, n, n / 2), rate, sizeof rate),
                    mds_format_count(at(x, n, 0), least, sizeof least));
    }
    free(x);
}

void mds_preflight_print(const struct mds_preflight_record *r, int ranks,
                         const struct mds_preflight_faults *faults, struct mds_str *out)
{
    mds_str_add(out, "preflight: %d rank%s%s%s\n", ranks, mds_plural(ranks),
                *r[0].gpu ? ", rank 0 on " : "", r[0].gpu);
    print_hosts(r, ranks, faults, out);
    print_tests(r, ranks, out);
    for (size_t i = 0; i < faults->n && i < MOST_FAULTS; i++)
        mds_str_add(out, "fault: %srank %d on %s: %s\n",
                    faults->v[i].of_group ? "the group of " : "", faults->v[i].rank,
                    r[faults->v[i].rank].host, faults->v[i].text);
    if (faults->n > MOST_FAULTS)
        mds_str_add(out, "and %zu more faults\n", faults->n - MOST_FAULTS);
    if (faults->n == 0)
        mds_str_add(out, "preflight: no faults\n");
}

/* ---- JSON ---- */

static enum mds_rc write_record(struct mds_jsonl *j,
                                const struct mds_preflight_record *r, int rank)
{
    char key[64];

    mds_jsonl_begin(j);
    mds_jsonl_add_string(j, "event", "preflight");
    mds_jsonl_add_real(j, "wall_time_s", mds_clock_wall_s());
    mds_jsonl_add_int(j, "rank", rank);
    mds_jsonl_add_string(j, "host", r->host);
    mds_jsonl_add_string(j, "gpu", r->gpu);
    mds_jsonl_add_int(j, "gpus", r->gpus);
    mds_jsonl_add_real(j, "gpu_bytes", r->gpu_bytes);
    mds_jsonl_add_int(j, "sm_mhz", r->sm_mhz);
    mds_jsonl_add_int(j, "most_sm_mhz", r->most_sm_mhz);
    mds_jsonl_add_int(j, "celsius", r->celsius);
    mds_jsonl_add_real(j, "uncorrected_ecc_errors", r->ecc_errors);
    mds_jsonl_add_string(j, "throttle", r->throttle);
    for (int i = 0; i < VALUES; i++)
        mds_jsonl_add_real(j, values[i].key, value_of(r, &values[i]));
    for (int i = 0; i < r->tests; i++) {
        snprintf(key, sizeof key, "%s s", r->test[i].name);
        mds_jsonl_add_real(j, key, r->test[i].small_s);
        snprintf(key, sizeof key, "%s bytes_per_s", r->test[i].name);
        mds_jsonl_add_real(j, key, r->test[i].rate);
    }
    return mds_jsonl_end(j);
}

static enum mds_rc write_fault(struct mds_jsonl *j, const char *host,
                               const struct mds_preflight_fault *f)
{
    mds_jsonl_begin(j);
    mds_jsonl_add_string(j, "event", "preflight_fault");
    mds_jsonl_add_int(j, "rank", f->rank);
    mds_jsonl_add_string(j, "host", host);
    mds_jsonl_add_string(j, "fault", f->text);
    return mds_jsonl_end(j);
}

enum mds_rc mds_preflight_write(const struct mds_preflight_record *r, int ranks,
                                const struct mds_preflight_faults *faults,
                                const char *path)
{
    struct mds_jsonl *j = NULL;
    enum mds_rc rc = mds_jsonl_open(path, 1, &j), closed;

    if (rc)
        return rc;
    for (int i = 0; i < ranks && !rc; i++)
        rc = write_record(j, &r[i], i);
    for (size_t i = 0; i < faults->n && !rc; i++)
        rc = write_fault(j, r[faults->v[i].rank].host, &faults->v[i]);
    closed = mds_jsonl_close(j);
    return rc ? rc : closed;
}
