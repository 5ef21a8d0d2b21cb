/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/batches.h"

#include "base/minmax.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

static const int64_t most_sequences = 100000000;

int mds_batch_stage_at(const struct mds_batch_schedule *s,
                       const struct mds_extent *done)
{
    int i = s->n - 1;

    while (i > 0 && done->in[s->unit] < s->stage[i].from)
        i--;
    return i;
}

int64_t mds_batch_smallest(const struct mds_batch_schedule *s)
{
    int64_t size = s->stage[0].global;

    for (int i = 1; i < s->n; i++)
        size = mds_min(size, s->stage[i].global);
    return size;
}

int64_t mds_batch_largest(const struct mds_batch_schedule *s)
{
    int64_t size = s->stage[0].global;

    for (int i = 1; i < s->n; i++)
        size = mds_max(size, s->stage[i].global);
    return size;
}

/* The next word of *text; returns 0 at the end, -1 if it is longer than a number. */
static int next_word(const char **text, char *word, size_t size)
{
    size_t n;

    *text += strspn(*text, " \t,");
    n = strcspn(*text, " \t,");
    if (n >= size)
        return -1;
    memcpy(word, *text, n);
    word[n] = '\0';
    *text += n;
    return n > 0;
}

/* Megatron's B is 1e9, as G is, and letter case does not matter. */
static int parse_number(char *word, int64_t *out)
{
    static const char theirs[] = "kKmMbBgGtT", ours[] = "kkMMGGGGTT";
    size_t n = strlen(word);
    const char *unit = n > 0 ? strchr(theirs, word[n - 1]) : NULL;

    if (unit)
        word[n - 1] = ours[unit - theirs];
    return mds_parse_count(word, out);
}

static enum mds_rc refuse_stages(const char *flag, int64_t n)
{
    return mds_fail(MDS_EUSER, "%s: %lld batch sizes are more than %d", flag,
                    (long long)n, MDS_BATCH_STAGES_MAX);
}

/* ---- --rampup-batch-size ---- */

static const char rampup[] = "--rampup-batch-size";

struct ramp {
    int64_t start, increment, samples;
};

static int parse_ramp(const char *text, struct ramp *r)
{
    int64_t *const v[] = {&r->start, &r->increment, &r->samples};
    char word[32];

    for (int i = 0; i < 3; i++)
        if (next_word(&text, word, sizeof word) != 1 || parse_number(word, v[i]) ||
            *v[i] < 1)
            return 0;
    return next_word(&text, word, sizeof word) == 0;
}

static enum mds_rc check_ramp(const struct ramp *r, int64_t global)
{
    int64_t below;

    if (r->start > global)
        return mds_fail(MDS_EUSER,
                        "%s begins with %lld sequences, more than --global-batch-size "
                        "%lld",
                        rampup, (long long)r->start, (long long)global);
    below = global - (global - r->start) % r->increment;
    if (below != global)
        return mds_fail(MDS_EUSER,
                        "%s: from %lld by %lld it does not reach --global-batch-size "
                        "%lld; the nearest are %lld and %lld",
                        rampup, (long long)r->start, (long long)r->increment,
                        (long long)global, (long long)below,
                        (long long)(below + r->increment));
    if ((global - r->start) / r->increment >= MDS_BATCH_STAGES_MAX)
        return refuse_stages(rampup, (global - r->start) / r->increment + 1);
    return MDS_OK;
}

/* ceil(samples k / n), which does not overflow. */
static int64_t share(int64_t samples, int64_t k, int64_t n)
{
    return samples / n * k + mds_ceil_div(samples % n * k, n);
}

enum mds_rc mds_batch_read_rampup(const char *text, int64_t global,
                                  struct mds_batch_schedule *out)
{
    struct ramp r;
    int64_t n;

    if (!parse_ramp(text, &r))
        return mds_fail(MDS_EUSER,
                        "%s '%s': must be START INCREMENT SAMPLES, such as 32 32 "
                        "1953125",
                        rampup, text);
    MDS_TRY(check_ramp(&r, global));
    n = (global - r.start) / r.increment;
    out->n = (int)n + 1;
    out->unit = MDS_SAMPLES;
    for (int64_t k = 0; k <= n; k++)
        out->stage[k] = (struct mds_batch_stage){n > 0 ? share(r.samples, k, n) : 0,
                                                 r.start + k * r.increment};
    return MDS_OK;
}

/* ---- --step-batch-size-schedule ---- */

static const char steps[] = "--step-batch-size-schedule";

static enum mds_rc parse_stage(const char *word, struct mds_batch_stage *out)
{
    char from[48];
    char *size;

    snprintf(from, sizeof from, "%s", word);
    size = strchr(from, ':');
    if (size)
        *size++ = '\0';
    if (!size || parse_number(from, &out->from) || parse_number(size, &out->global) ||
        out->from < 0 || out->global < 1 || out->global > most_sequences)
        return mds_fail(MDS_EUSER,
                        "%s: '%s' is not TOKENS:SEQUENCES, as in \"0:768 250B:1536\"",
                        steps, word);
    return MDS_OK;
}

static enum mds_rc check_order(const struct mds_batch_stage *stage, int i)
{
    if (i == 0 && stage->from != 0)
        return mds_fail(MDS_EUSER, "%s begins at %lld tokens; it has to begin at 0",
                        steps, (long long)stage->from);
    if (i > 0 && stage[i].from <= stage[i - 1].from)
        return mds_fail(MDS_EUSER, "%s: %lld tokens come after %lld; they have to rise",
                        steps, (long long)stage[i].from, (long long)stage[i - 1].from);
    return MDS_OK;
}

enum mds_rc mds_batch_read_steps(const char *text, struct mds_batch_schedule *out)
{
    char word[48];
    int more, n = 0;

    while ((more = next_word(&text, word, sizeof word)) == 1) {
        if (n == MDS_BATCH_STAGES_MAX)
            return refuse_stages(steps, n + 1);
        MDS_TRY(parse_stage(word, &out->stage[n]));
        MDS_TRY(check_order(out->stage, n));
        n++;
    }
    if (more < 0 || n == 0)
        return mds_fail(MDS_EUSER, "%s '%s': must be such as \"0:768 250B:1536\"",
                        steps, text);
    out->n = n;
    out->unit = MDS_TOKENS;
    return MDS_OK;
}
