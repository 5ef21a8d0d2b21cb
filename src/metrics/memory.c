/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/memory.h"

#include "base/units.h"

static void append_memory_row(struct mds_str *out, const char *name, double now,
                              double peak, double total_peak)
{
    char now_text[32], peak_text[32];

    mds_str_add(out, "  %-14s %12s %12s %6.1f %%\n", name,
                mds_format_bytes(now, now_text, sizeof now_text),
                mds_format_bytes(peak, peak_text, sizeof peak_text),
                total_peak > 0 ? 100 * peak / total_peak : 0.0);
}

void mds_memory_table(struct mds_str *out, size_t n, const char *const *names,
                      const int64_t *current, const int64_t *peak, int64_t total_peak)
{
    double now = 0;

    mds_str_add(out, "  %-14s %12s %12s %8s\n", "purpose", "now", "peak", "of peak");
    for (size_t i = 0; i < n; i++) {
        if (peak[i] == 0)
            continue;
        now += (double)current[i];
        append_memory_row(out, names[i], (double)current[i], (double)peak[i],
                          (double)total_peak);
    }
    append_memory_row(out, "all", now, (double)total_peak, (double)total_peak);
}
