/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/generate.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "infer/continue.h"
#include "infer/table.h"
#include "infer/written.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how much there is ---- */

/* Tokens at the end of a record of n that are hidden. */
static int64_t hidden_of(const struct mds_infer_generate *s, int64_t n)
{
    if (s->complete == 0)
        return 0;
    if (s->complete >= 1)
        return (int64_t)s->complete;
    return mds_max((int64_t)(s->complete * (double)n), 1);
}

static int64_t new_tokens(const struct mds_infer_generate *s, int64_t n)
{
    return s->complete > 0 ? hidden_of(s, n) : s->new_tokens;
}

/* The rest of a record is its prompt. */
static enum mds_rc check_record(const struct mds_infer_generate *s,
                                const struct mds_infer_model *m, const char *input,
                                const struct mds_infer_record *r)
{
    int64_t hidden = hidden_of(s, r->n), prompt = r->n - hidden;
    int64_t limit = mds_infer_model_limit(m), more = new_tokens(s, r->n);

    if (prompt < 1 && hidden > 0)
        return mds_fail(MDS_EUSER,
                        "%s: %s has %" PRId64 " token%s, and --complete hides %" PRId64
                        ": there is no prompt left; leave the record out",
                        input, r->name, r->n, mds_plural(r->n), hidden);
    if (prompt < 1)
        return mds_fail(MDS_EUSER, "%s: %s has no tokens; a prompt needs one at least",
                        input, r->name);
    if (prompt + more <= limit)
        return MDS_OK;
    if (s->complete > 0 || prompt > limit)
        return mds_infer_model_check_length(m, input, r->name, r->n, limit);
    return mds_fail(MDS_EUSER,
                    "%s: %s has %" PRId64 " tokens, and %s takes %" PRId64
                    " with the new ones; --max-new-tokens up to %" PRId64 " would do",
                    input, r->name, prompt, m->path, limit, limit - prompt);
}

struct measuring {
    const struct mds_infer_generate *s;
    const struct mds_infer_model *m;
    struct mds_infer_need *need;
};

static enum mds_rc measure_record(void *ctx, struct mds_infer_records *in,
                                  struct mds_infer_record *r)
{
    const struct measuring *g = ctx;
    int64_t hidden = hidden_of(g->s, r->n), more = new_tokens(g->s, r->n);

    MDS_TRY(check_record(g->s, g->m, mds_infer_records_input(in), r));
    g->need->longest = mds_max(g->need->longest, r->n - hidden + more);
    g->need->longest_prompt = mds_max(g->need->longest_prompt, r->n - hidden);
    g->need->sequences += g->s->samples;
    g->need->prompt_tokens += g->s->samples * (r->n - hidden);
    g->need->new_tokens += g->s->samples * more;
    return MDS_OK;
}

enum mds_rc mds_infer_generate_measure(const struct mds_infer_generate *s,
                                       const struct mds_infer_model *m,
                                       struct mds_infer_need *need)
{
    struct measuring g = {s, m, need};

    return mds_infer_model_measure(m, &s->inputs, measure_record, &g, need);
}

/* ---- records that wait ---- */

struct record {
    char *name;
    int64_t length;     /* bases, or tokens */
    int64_t number;     /* of all, from 0 */
    int64_t first, n;   /* tokens of the prompt, in generation.ids */
    int64_t hidden;     /* and of what is hidden, behind them */
    int64_t want, made; /* made: of its first sample, in generation.made */
};

struct generation {
    const struct mds_infer_generate *s;
    struct mds_infer_model *m;
    struct mds_infer_table table; /* rank 0's */
    struct record *record;
    int64_t records, room;
    int32_t *ids;
    int64_t n_ids, id_room;
    int32_t *made;
    int64_t made_size;
    int64_t done, tokens; /* sequences, and their tokens */
    double identity;      /* sum over records */
};

static int writes(const struct generation *g)
{
    return g->m->world.rank == 0;
}

static enum mds_rc add_record(struct generation *g, const char *input,
                              const struct mds_infer_record *is)
{
    struct record *r;

    MDS_TRY(check_record(g->s, g->m, input, is));
    MDS_TRY(mds_reserve(&g->record, &g->room, g->records + 1, sizeof *g->record));
    MDS_TRY(mds_reserve(&g->ids, &g->id_room, g->n_ids + is->n, sizeof *g->ids));
    r = &g->record[g->records];
    *r = (struct record){.name = mds_strdup(is->name),
                         .length = is->length,
                         .number = g->done / g->s->samples + g->records,
                         .first = g->n_ids,
                         .hidden = hidden_of(g->s, is->n),
                         .want = new_tokens(g->s, is->n),
                         .made = g->made_size};
    if (!r->name)
        return MDS_EMEM;
    r->n = is->n - r->hidden;
    memcpy(g->ids + g->n_ids, is->ids, (size_t)is->n * sizeof *is->ids);
    g->n_ids += is->n;
    g->made_size += g->s->samples * (1 + r->want);
    g->records++;
    return MDS_OK;
}

/* ---- results ---- */

/* What a sample of a record has: its number of tokens, and these. */
static const int32_t *made_of(const struct generation *g, const struct record *r,
                              int64_t sample)
{
    return g->made + r->made + sample * (1 + r->want);
}

static enum mds_tokenizer tokenizer_of(const struct generation *g)
{
    return g->m->vocabulary.tokenizer;
}

static int makes_bases(const struct generation *g)
{
    return mds_tokenizer_bases(tokenizer_of(g)) > 0;
}

static const char *end_of(const struct record *r, const int32_t *made)
{
    return made[0] < r->want ? "eod" : "length";
}

static void add_fasta(struct generation *g, const struct record *r, const char *name,
                      const int32_t *made)
{
    struct mds_str bases = {0};
    char words[64];

    snprintf(words, sizeof words, "tokens=%d end=%s", made[0], end_of(r, made));
    mds_infer_add_bases(&bases, tokenizer_of(g), made + 1, made[0]);
    mds_infer_add_fasta(&g->table.text, name, words, bases.s ? bases.s : "");
    g->table.text.failed |= bases.failed;
    mds_str_fini(&bases);
}

static void add_json(struct generation *g, const struct record *r, const char *name,
                     const int32_t *made)
{
    struct mds_str *out = &g->table.text;

    mds_str_add(out, "{\"name\": ");
    mds_json_quote(name, out);
    mds_str_add(out, ", \"tokens\": %d, \"end\": \"%s\", ", made[0], end_of(r, made));
    mds_infer_add_json(out, tokenizer_of(g), made + 1, made[0]);
    mds_str_add(out, "}\n");
}

/* Samples of one prompt have its name and their number. */
static void report_samples(struct generation *g, const struct record *r)
{
    struct mds_str name = {0};

    for (int64_t k = 0; k < g->s->samples; k++) {
        const int32_t *made = made_of(g, r, k);

        name.len = 0;
        mds_str_add(&name, "%s", r->name);
        if (g->s->samples > 1)
            mds_str_add(&name, "/%" PRId64, k + 1);
        if (makes_bases(g))
            add_fasta(g, r, name.s ? name.s : "", made);
        else
            add_json(g, r, name.s ? name.s : "", made);
        g->table.text.failed |= name.failed;
        g->table.lines++;
        g->tokens += made[0];
    }
    mds_str_fini(&name);
}

/* How many bases, or of other tokenizers tokens, of the hidden ones were made as they
 * are; *of: of how many.  An ambiguous base is none of them. */
static int64_t count_identical(struct generation *g, const struct record *r,
                               const int32_t *made, int64_t *of)
{
    const int32_t *hidden = g->ids + r->first + r->n;
    struct mds_str was = {0}, is = {0};
    int64_t n = 0;

    *of = r->hidden;
    if (!makes_bases(g)) {
        for (int64_t i = 0; i < made[0]; i++)
            n += made[1 + i] == hidden[i];
        return n;
    }
    mds_infer_add_bases(&was, tokenizer_of(g), hidden, r->hidden);
    mds_infer_add_bases(&is, tokenizer_of(g), made + 1, made[0]);
    for (size_t i = 0; i < is.len; i++)
        n += was.s[i] == is.s[i] && is.s[i] != 'N';
    *of = (int64_t)was.len;
    g->table.text.failed |= was.failed | is.failed;
    mds_str_fini(&was);
    mds_str_fini(&is);
    return n;
}

static void report_identity(struct generation *g, const struct record *r)
{
    const int32_t *made = made_of(g, r, 0);
    int64_t of, n = count_identical(g, r, made, &of);
    double identity = (double)n / (double)of;

    mds_str_add(&g->table.text, "%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64,
                r->name, r->length, r->n, r->hidden, n);
    mds_str_add(&g->table.text, "\t");
    mds_infer_add_real(&g->table.text, identity);
    mds_str_add(&g->table.text, "\n");
    g->table.lines++;
    g->identity += identity;
    g->tokens += made[0];
}

/* ---- a run of those that wait ---- */

static void list_prompts(const struct generation *g, struct mds_infer_prompt *prompt)
{
    for (int64_t i = 0; i < g->records; i++)
        for (int64_t k = 0; k < g->s->samples; k++) {
            const struct record *r = &g->record[i];

            *prompt++ = (struct mds_infer_prompt){.ids = g->ids + r->first,
                                                  .n = r->n,
                                                  .want = r->want,
                                                  .number = r->number,
                                                  .sample = k,
                                                  .at = r->made + k * (1 + r->want)};
        }
}

static enum mds_rc continue_all(struct generation *g)
{
    int64_t n = g->records * g->s->samples;
    struct mds_infer_prompt *prompt = mds_zalloc((size_t)n, sizeof *prompt);
    enum mds_rc rc = MDS_EMEM;

    g->made = mds_zalloc((size_t)g->made_size, sizeof *g->made);
    if (prompt && g->made) {
        list_prompts(g, prompt);
        rc =
            mds_infer_continue(g->m, &g->s->sampling, prompt, n, g->made, g->made_size);
    }
    free(prompt);
    return rc;
}

static enum mds_rc run_waiting(struct generation *g)
{
    enum mds_rc rc = g->records > 0 ? continue_all(g) : MDS_OK;

    for (int64_t i = 0; i < g->records; i++) {
        if (!rc && writes(g) && g->s->complete > 0)
            report_identity(g, &g->record[i]);
        else if (!rc && writes(g))
            report_samples(g, &g->record[i]);
        free(g->record[i].name);
    }
    free(g->made);
    g->made = NULL;
    g->done += g->records * g->s->samples;
    g->records = g->n_ids = g->made_size = 0;
    return !rc && writes(g) ? mds_infer_table_flush(&g->table) : rc;
}

static int is_full(const struct generation *g)
{
    const struct mds_batch_config *c = &g->m->run->config.batch;
    int64_t replicas = mds_groups_size(&g->m->groups, MDS_AXIS_DATA);

    return g->records * g->s->samples >=
           MDS_INFER_GENERATE_BATCHES * replicas * c->micro * c->accumulation;
}

static enum mds_rc generate_record(void *ctx, struct mds_infer_records *in,
                                   struct mds_infer_record *r)
{
    struct generation *g = ctx;

    MDS_TRY(add_record(g, mds_infer_records_input(in), r));
    return is_full(g) ? run_waiting(g) : MDS_OK;
}

/* ---- all of it ---- */

static void report_end(const struct generation *g, double seconds)
{
    mds_info("%" PRId64 " tokens generated in %" PRId64 " sequence%s, %.4g tokens/s",
             g->tokens, g->done, mds_plural(g->done), (double)g->tokens / seconds);
    if (g->s->complete > 0 && g->done > 0)
        mds_info("mean identity %.4f", g->identity / (double)g->done);
}

enum mds_rc mds_infer_generate_run(const struct mds_infer_generate *s,
                                   struct mds_infer_model *m)
{
    struct generation g = {.s = s, .m = m};
    double begin = mds_clock_s();
    const char *header =
        s->complete > 0 ? "name\tlength\tprompt\thidden\tidentical\tidentity" : NULL;
    enum mds_rc rc =
        writes(&g) ? mds_infer_table_open(&g.table, s->output, s->overwrite, header)
                   : MDS_OK;

    if (!rc)
        rc = mds_infer_records_each(&s->inputs, &m->vocabulary, generate_record, &g);
    if (!rc)
        rc = run_waiting(&g);
    if (!rc && writes(&g))
        rc = mds_infer_table_close(&g.table);
    if (rc)
        mds_infer_table_abandon(&g.table);
    if (!rc && writes(&g))
        report_end(&g, mds_clock_s() - begin);
    for (int64_t i = 0; i < g.records; i++)
        free(g.record[i].name);
    free(g.record);
    free(g.ids);
    free(g.made);
    return rc;
}
