/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/written.h"

#include <string.h>

void mds_infer_add_bases(struct mds_str *out, enum mds_tokenizer t, const int32_t *ids,
                         int64_t n)
{
    int width = mds_tokenizer_bases(t), stride = mds_tokenizer_stride(t);
    char word[8];

    for (int64_t i = 0; i < n; i++) {
        mds_tokenizer_word(t, ids[i], word);
        if (strspn(word, "ACGTN") == (size_t)width && word[width] == '\0')
            mds_str_add(out, "%s", word + width - stride);
        else
            mds_str_add(out, "%.*s", stride, "NNNNNNNN");
    }
}

void mds_infer_add_fasta(struct mds_str *out, const char *name, const char *words,
                         const char *bases)
{
    const size_t width = 80;
    size_t n = strlen(bases);

    mds_str_add(out, ">%s %s\n", name, words);
    for (size_t i = 0; i < n; i += width)
        mds_str_add(out, "%.*s\n", (int)width, bases + i);
}

static void add_text(struct mds_str *out, const int32_t *ids, int64_t n)
{
    struct mds_str text = {0};

    for (int64_t i = 0; i < n; i++)
        if (ids[i] > 0 && ids[i] < 256)
            mds_str_add(&text, "%c", ids[i]);
        else
            mds_str_add(&text, "\xef\xbf\xbd");
    mds_json_quote(text.s ? text.s : "", out);
    out->failed |= text.failed;
    mds_str_fini(&text);
}

void mds_infer_add_json(struct mds_str *out, enum mds_tokenizer t, const int32_t *ids,
                        int64_t n)
{
    int is_text = t == MDS_TOKENIZER_BYTES;

    mds_str_add(out, is_text ? "\"text\": " : "\"ids\": [");
    if (is_text) {
        add_text(out, ids, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        mds_str_add(out, "%s%d", i > 0 ? ", " : "", ids[i]);
    mds_str_add(out, "]");
}
