/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/provenance.h"

#include <inttypes.h>
#include <time.h>

void mds_ckpt_provenance(const char *program, const char *version, const char *host,
                         int64_t ranks, const struct mds_parallel_config *p,
                         struct mds_str *out)
{
    time_t now = time(NULL);
    struct tm utc;
    char when[32] = "";

    if (gmtime_r(&now, &utc))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    mds_str_add(out, "program: %s %s\nwritten: %s\nhost: %s\nranks: %" PRId64 "\n",
                program, version, when, host, ranks);
    mds_str_add(out, "layout: ");
    mds_axes_format(mds_axes, p->size, out);
    mds_str_add(out, ", zero stage %" PRId64 "\n", p->zero_stage);
}
