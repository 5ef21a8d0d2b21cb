/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/make_input.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- kinds ---- */

static int add_kind(struct mds_make_kinds *k, const char *name, const char *more,
                    double weight)
{
    struct mds_kind *added = &k->kind[k->n];

    snprintf(added->name, sizeof added->name, "%s%s%s", name ? name : "",
             name && more ? ":" : "", more ? more : "");
    added->weight = weight;
    return k->n++;
}

void mds_make_kinds_init(const struct mds_make *m, struct mds_make_kinds *k)
{
    *k = (struct mds_make_kinds){
        .ambiguous = -1, .tag = -1, .repeat = -1, .feature = -1};
    add_kind(k, m->kind ? m->kind : "sequence", NULL, 1);
    if (mds_tokenizer_bases(m->vocabulary.tokenizer) > 0)
        k->ambiguous = add_kind(k, NULL, "ambiguous", 0);
    if (m->tag)
        k->tag = add_kind(k, NULL, "tag", 0);
    if (m->lowercase_weight >= 0)
        k->repeat = add_kind(k, m->kind, "repeat", m->lowercase_weight);
    if (m->features && m->feature_weight >= 0)
        k->feature = add_kind(k, m->kind, m->features->type, m->feature_weight);
}

/* ---- tokens ---- */

enum mds_rc mds_make_input_progress(struct mds_make_input *t)
{
    int64_t bytes = mds_reader_raw_bytes(t->reader), more = bytes - t->told;

    t->told = bytes;
    return t->sink.progress(t->sink.to, more);
}

enum mds_rc mds_make_input_add(struct mds_make_input *t, const int32_t *ids,
                               const unsigned char *kinds, size_t n)
{
    int32_t unknown = mds_tokenizer_unknown(t->m->vocabulary.tokenizer);

    for (size_t i = 0; i < n; i++)
        t->stats.unknown += ids[i] == unknown;
    MDS_TRY(mds_make_input_progress(t));
    return t->sink.add(t->sink.to, ids, kinds, n);
}

enum mds_rc mds_make_input_end_document(struct mds_make_input *t)
{
    MDS_TRY(t->sink.add(t->sink.to, &t->m->vocabulary.eod, NULL, 1));
    return t->sink.end_document(t->sink.to);
}

enum mds_rc mds_make_input_init(const struct mds_make *m, struct mds_token_sink sink,
                                struct mds_make_input *out)
{
    *out = (struct mds_make_input){.m = m, .sink = sink};
    out->ids = mds_zalloc(MDS_MAKE_BLOCK, sizeof *out->ids);
    return out->ids ? MDS_OK : MDS_EMEM;
}

void mds_make_input_fini(struct mds_make_input *t)
{
    free(t->ids);
}
