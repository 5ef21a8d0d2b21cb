/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/position.h"

#include "base/alloc.h"
#include "config/tree.h"
#include "data/mix.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MOST (INT64_C(1) << 42) /* more than any run needs */

/* The numbers of a file, and their valid ranges. */
static const struct number {
    const char *name;
    size_t at;
    int64_t least, most;
} numbers[] = {
    {"share", offsetof(struct mds_file_position, share), 0, MDS_MIX_PERIOD},
    {"key", offsetof(struct mds_file_position, key), 0, MOST},
    {"start", offsetof(struct mds_file_position, start), 0, MOST},
    {"samples", offsetof(struct mds_file_position, samples), 1, MOST},
    {"tokens", offsetof(struct mds_file_position, tokens), 1, INT64_MAX},
    {"documents", offsetof(struct mds_file_position, documents), 0, INT64_MAX},
    {"hash", offsetof(struct mds_file_position, hash), INT64_MIN, INT64_MAX},
    {"modified", offsetof(struct mds_file_position, modified), INT64_MIN, INT64_MAX},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers };

void mds_position_fini(struct mds_position *p)
{
    for (int i = 0; i < p->n; i++)
        free(p->file[i].path);
    free(p->file);
    *p = (struct mds_position){0};
}

enum mds_rc mds_position_add(struct mds_position *p, const struct mds_file_position *f)
{
    MDS_TRY(mds_grow(&p->file, (size_t)p->n, sizeof *p->file));
    p->file[p->n] = *f;
    p->file[p->n].path = mds_strdup(f->path);
    if (!p->file[p->n].path)
        return MDS_EMEM;
    p->mixed += f->share > 0;
    p->n++;
    return MDS_OK;
}

void mds_position_text(const struct mds_position *p, struct mds_str *out)
{
    mds_str_add(out, "began: %" PRId64 "\nfiles:\n", p->began);
    for (int i = 0; i < p->n; i++) {
        mds_str_add(out, "- {path: ");
        mds_json_quote(p->file[i].path, out);
        for (int k = 0; k < NUMBERS; k++)
            mds_str_add(out, ", %s: %" PRId64, numbers[k].name,
                        *(const int64_t *)((const char *)&p->file[i] + numbers[k].at));
        mds_str_add(out, "}\n");
    }
}

/* 1 if map has a whole number from least to most under key. */
static int get_number(const struct mds_node *map, const char *key, int64_t least,
                      int64_t most, int64_t *out)
{
    const struct mds_node *n = mds_node_get(map, key);
    char *end;

    if (!n || !n->text)
        return 0;
    errno = 0;
    *out = strtoll(n->text, &end, 10);
    return !errno && end != n->text && !*end && *out >= least && *out <= most;
}

static int get_file(const struct mds_node *n, struct mds_file_position *f)
{
    const struct mds_node *path = mds_node_get(n, "path");

    if (!path || !path->text)
        return 0;
    f->path = (char *)path->text; /* copied by mds_position_add */
    for (int k = 0; k < NUMBERS; k++)
        if (!get_number(n, numbers[k].name, numbers[k].least, numbers[k].most,
                        (int64_t *)((char *)f + numbers[k].at)))
            return 0;
    return 1;
}

static enum mds_rc read_tree(const struct mds_tree *t, int64_t samples,
                             struct mds_position *p)
{
    const struct mds_node *files = mds_node_get(t->root, "files");
    struct mds_file_position f;
    int64_t slots = 0;
    int valid = get_number(t->root, "began", 0, samples, &p->began) && files;

    for (const struct mds_node *n = valid ? files->first : NULL; n && valid;
         n = n->next) {
        /* those of the mix come first */
        valid = get_file(n, &f) && (f.share == 0 || p->n == p->mixed);
        slots += valid ? f.share : 0;
        if (valid)
            MDS_TRY(mds_position_add(p, &f));
    }
    return valid && slots == MDS_MIX_PERIOD
               ? MDS_OK
               : mds_fail(MDS_EUSER,
                          "%s: what it says of the data is inconsistent; the file was "
                          "changed or is damaged",
                          t->name);
}

enum mds_rc mds_position_parse(const char *text, const char *name, int64_t samples,
                               struct mds_position *out)
{
    struct mds_position p = {0};
    struct mds_tree *tree;
    enum mds_rc rc;

    MDS_TRY(mds_tree_parse(text, strlen(text), name, &tree));
    rc = read_tree(tree, samples, &p);
    mds_tree_destroy(tree);
    if (rc)
        mds_position_fini(&p);
    else
        *out = p;
    return rc;
}

enum mds_rc mds_position_advance(struct mds_position *p, int64_t sample)
{
    double *shares = mds_zalloc((size_t)p->mixed, sizeof *shares);
    int64_t *counts = mds_zalloc((size_t)p->mixed, sizeof *counts);
    enum mds_rc rc = shares && counts ? MDS_OK : MDS_EMEM;
    struct mds_mix *mix = NULL;

    for (int i = 0; !rc && i < p->mixed; i++)
        shares[i] = (double)p->file[i].share;
    if (!rc)
        rc = mds_mix_create(shares, p->mixed, &mix);
    if (!rc) {
        mds_mix_count(mix, sample - p->began, counts);
        for (int i = 0; i < p->mixed; i++)
            p->file[i].start += counts[i];
        p->began = sample;
    }
    mds_mix_destroy(mix);
    free(counts);
    free(shares);
    return rc;
}
