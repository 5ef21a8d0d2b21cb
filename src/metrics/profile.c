/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of --profile, for people. */
#include "metrics/console.h"

#include <inttypes.h>

static double per_second(double amount, double s)
{
    return s > 0 ? amount / s : 0;
}

static void append_times(struct mds_str *out, const double s[MDS_METRICS_PROFILE_PARTS])
{
    for (int k = 0; k < MDS_METRICS_PROFILE_PARTS; k++)
        mds_str_add(out, " %*.2f", k == MDS_METRICS_PROFILE_MOVE ? 14 : 10, s[k] * 1e3);
    mds_str_add(out, "\n");
}

static void append_step_table(struct mds_str *out, const struct mds_metrics_profile *p)
{
    mds_str_add(out, "\nprofile: where the device's time goes, ms per step%s\n",
                p->ranks > 1 ? ": mean and largest of all ranks" : "");
    mds_str_add(out, "%12s %10s %10s %10s %10s %10s   %12s %10s\n", "step", "all",
                "= compute", "+ exposed", "+ copies", "+ idle", "all comm",
                "host waits");
    for (int i = 0; i < p->steps; i++) {
        mds_str_add(out, "%12" PRId64, p->step[i].iteration);
        append_times(out, p->step[i].mean_s);
        if (p->ranks == 1)
            continue;
        mds_str_add(out, "%12s", "");
        append_times(out, p->step[i].most_s);
    }
}

static void append_operation_table(struct mds_str *out,
                                   const struct mds_metrics_profile *p)
{
    double all = 0, n = p->steps;

    for (int i = 0; i < p->operations; i++)
        all += p->operation[i].s;
    mds_str_add(
        out, "\noperations of rank 0, per step\n%20s %7s %10s %6s %10s %10s %9s %9s\n",
        "", "calls", "ms", "%", "us/call", "GFLOP/call", "TFLOP/s", "GB/s");
    for (int i = 0; i < p->operations; i++) {
        const struct mds_metrics_profile_row *o = &p->operation[i];
        double calls = (double)o->calls;

        mds_str_add(out, "%20s %7.0f %10.3f %6.1f %10.1f", o->name, calls / n,
                    o->s / n * 1e3, 100 * per_second(o->s, all), o->s / calls * 1e6);
        mds_str_add(out, " %10.3f %9.2f %9.1f\n", o->flops / calls / 1e9,
                    per_second(o->flops, o->s) / 1e12,
                    per_second(o->bytes, o->s) / 1e9);
    }
    mds_str_add(out, "  (GB/s: as if each operand were read or written once)\n");
}

static void append_host_table(struct mds_str *out, const struct mds_metrics_profile *p)
{
    double n = p->steps;

    if (p->hosted_operations == 0)
        return;
    mds_str_add(out, "\nupdates by rank 0's host, per step\n%20s %7s %10s %9s\n", "",
                "calls", "ms", "GB/s");
    for (int i = 0; i < p->hosted_operations; i++) {
        const struct mds_metrics_profile_row *o = &p->hosted[i];

        mds_str_add(out, "%20s %7.0f %10.3f %9.1f\n", o->name, (double)o->calls / n,
                    o->s / n * 1e3, per_second(o->bytes, o->s) / 1e9);
    }
}

static void append_transfer_table(struct mds_str *out,
                                  const struct mds_metrics_profile *p)
{
    double n = p->steps;

    if (p->transfers == 0)
        return;
    mds_str_add(out,
                "\ncommunication of rank 0, per step\n%20s %7s %10s %9s %7s %11s\n", "",
                "calls", "ms", "GB/s out", "waits", "exposed ms");
    for (int i = 0; i < p->transfers; i++) {
        const struct mds_metrics_profile_row *t = &p->transfer[i];

        mds_str_add(out, "%20s %7.0f %10.3f %9.1f %7.0f %11.3f\n", t->name,
                    (double)t->calls / n, t->s / n * 1e3,
                    per_second(t->bytes, t->s) / 1e9, (double)t->waits / n,
                    t->exposed_s / n * 1e3);
    }
}

void mds_console_profile(struct mds_str *out, const struct mds_metrics_profile *p)
{
    append_step_table(out, p);
    append_operation_table(out, p);
    append_host_table(out, p);
    append_transfer_table(out, p);
    mds_str_add(out, "\n");
}
