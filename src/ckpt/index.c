/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/index.h"
#include "base/alloc.h"
#include "ckpt/folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *mds_ckpt_group(enum mds_ckpt_what what)
{
    static const char *const names[] = {"weight", "adam_m", "adam_v"};

    return names[what];
}

void mds_ckpt_set_name(enum mds_ckpt_what what, const char *tensor, char name[96])
{
    snprintf(name, 96, "/%s/%s", mds_ckpt_group(what), tensor);
}

/* ---- building ---- */

enum mds_rc mds_ckpt_index_begin(const char *path, const struct mds_params *whole,
                                 int64_t ranks, struct mds_ckpt_index **out)
{
    struct mds_ckpt_index *ix = mds_zalloc(1, sizeof *ix);

    if (!ix)
        return MDS_EMEM;
    snprintf(ix->path, sizeof ix->path, "%s", path);
    ix->ranks = ranks;
    ix->tensors = mds_params_n(whole);
    ix->bytes = mds_zalloc((size_t)ranks, sizeof *ix->bytes);
    ix->tensor = mds_zalloc((size_t)ix->tensors, sizeof *ix->tensor);
    if (!ix->bytes || !ix->tensor) {
        mds_ckpt_index_destroy(ix);
        return MDS_EMEM;
    }
    for (int64_t i = 0; i < ix->tensors; i++) {
        const struct mds_param_spec *s = &mds_params_get(whole, (int)i)->spec;

        snprintf(ix->tensor[i].name, MDS_CKPT_NAME, "%s", s->name);
        ix->tensor[i].rows = s->rows;
        ix->tensor[i].cols = s->cols;
    }
    *out = ix;
    return MDS_OK;
}

void mds_ckpt_index_destroy(struct mds_ckpt_index *ix)
{
    if (!ix)
        return;
    free(ix->bytes);
    free(ix->bias);
    free(ix->tensor);
    free(ix->part);
    free(ix);
}

static int compare_parts(const void *a, const void *b)
{
    const struct mds_ckpt_part *s = a, *t = b;

    if (s->tensor != t->tensor)
        return s->tensor < t->tensor ? -1 : 1;
    if (s->row != t->row)
        return s->row < t->row ? -1 : 1;
    return (s->col > t->col) - (s->col < t->col);
}

/* Whether the part is inside its tensor, and names an existing file. */
static int part_is_valid(const struct mds_ckpt_index *ix, const struct mds_ckpt_part *p)
{
    const struct mds_ckpt_tensor *t;
    int64_t cols;

    if (p->tensor < 0 || p->tensor >= ix->tensors || p->file < 0 ||
        p->file >= ix->ranks || ix->bytes[p->file] <= 0 || p->at < 0)
        return 0;
    t = &ix->tensor[p->tensor];
    cols = t->cols ? t->cols : 1;
    return p->row >= 0 && p->rows > 0 && p->rows <= t->rows && p->col >= 0 &&
           p->cols > 0 && p->cols <= cols && p->row <= t->rows - p->rows &&
           p->col <= cols - p->cols;
}

/* Whether two parts of a tensor, which are in order, have an element in common. */
static int parts_overlap(const struct mds_ckpt_index *ix,
                         const struct mds_ckpt_tensor *t)
{
    const struct mds_ckpt_part *p = ix->part + t->first, *end = p + t->parts;

    for (; p < end; p++)
        for (const struct mds_ckpt_part *q = p + 1;
             q < end && q->row < p->row + p->rows; q++)
            if (q->col < p->col + p->cols && p->col < q->col + q->cols)
                return 1;
    return 0;
}

/* Whether each rank's parts of a tensor follow one another in its list.  next: [ranks],
 * all 0 before and after the call. */
static int parts_are_contiguous(const struct mds_ckpt_index *ix,
                                const struct mds_ckpt_tensor *t, int64_t *next)
{
    const struct mds_ckpt_part *p = ix->part + t->first, *end = p + t->parts;
    int in_lists = 1;

    for (; p < end; p++) {
        in_lists &= p->at == next[p->file];
        next[p->file] += p->rows * p->cols;
    }
    for (p = ix->part + t->first; p < end; p++)
        next[p->file] = 0;
    return in_lists;
}

enum mds_rc mds_ckpt_index_check_parts(const struct mds_ckpt_index *ix)
{
    int64_t *next = mds_zalloc((size_t)ix->ranks, sizeof *next);
    enum mds_rc rc = next ? MDS_OK : MDS_EMEM;

    for (int64_t i = 0; !rc && i < ix->tensors; i++)
        if (parts_overlap(ix, &ix->tensor[i]) ||
            !parts_are_contiguous(ix, &ix->tensor[i], next))
            rc = mds_fail(MDS_EUSER,
                          "%s/index.h5: the parts of %s are inconsistent; the file was "
                          "changed or is damaged",
                          ix->path, ix->tensor[i].name);
    free(next);
    return rc;
}

enum mds_rc mds_ckpt_index_sort_parts(struct mds_ckpt_index *ix)
{
    int64_t at = 0;

    for (int64_t i = 0; i < ix->parts; i++)
        if (!part_is_valid(ix, &ix->part[i]))
            return mds_fail(MDS_EUSER,
                            "%s/index.h5: part %" PRId64
                            " is invalid; the file was changed or is damaged",
                            ix->path, i);
    if (ix->parts)
        qsort(ix->part, (size_t)ix->parts, sizeof *ix->part, compare_parts);
    for (int64_t i = 0; i < ix->tensors; i++) {
        struct mds_ckpt_tensor *t = &ix->tensor[i];
        int64_t there = 0, count = t->rows * (t->cols ? t->cols : 1);

        t->first = at;
        for (; at < ix->parts && ix->part[at].tensor == i; at++)
            there += ix->part[at].rows * ix->part[at].cols;
        t->parts = at - t->first;
        if (there != count)
            return mds_fail(MDS_EUSER,
                            "%s/index.h5: has %" PRId64 " of the %" PRId64
                            " elements of %s; the file was changed or is damaged",
                            ix->path, there, count, t->name);
    }
    return MDS_OK;
}

int64_t mds_ckpt_index_find(const struct mds_ckpt_index *ix, const char *name)
{
    for (int64_t i = 0; i < ix->tensors; i++)
        if (strcmp(ix->tensor[i].name, name) == 0)
            return i;
    return -1;
}

int mds_ckpt_is_by_word(const char *name)
{
    return strcmp(name, "embedding.word.weight") == 0 ||
           strcmp(name, "head.weight") == 0;
}

/* ---- checks ---- */

/* Whether only the vocabulary differs, and all words of the checkpoint are there. */
static int has_all_words(const struct mds_ckpt_index *ix,
                         const struct mds_ckpt_tensor *t,
                         const struct mds_param_spec *s, int64_t vocab,
                         int64_t padded_vocab)
{
    return mds_ckpt_is_by_word(s->name) && vocab >= ix->state.vocab &&
           t->rows == ix->state.padded_vocab && s->rows == padded_vocab;
}

static const char remedy[] =
    "; give the settings that it was saved with: mds_ckpt info --config prints them";

enum mds_rc mds_ckpt_index_check_model(const struct mds_ckpt_index *ix,
                                       const struct mds_params *whole, int64_t vocab,
                                       int64_t padded_vocab)
{
    for (int i = 0; i < mds_params_n(whole); i++) {
        const struct mds_param_spec *s = &mds_params_get(whole, i)->spec;
        int64_t id = mds_ckpt_index_find(ix, s->name);
        const struct mds_ckpt_tensor *t = id < 0 ? NULL : &ix->tensor[id];

        if (!t)
            return mds_fail(MDS_EUSER,
                            "%s: has no parameter %s: it is of another model%s",
                            ix->path, s->name, remedy);
        if (t->cols != s->cols ||
            (t->rows != s->rows && !has_all_words(ix, t, s, vocab, padded_vocab)))
            return mds_fail(MDS_EUSER,
                            "%s: %s is %" PRId64 " x %" PRId64
                            ", this model's is %" PRId64 " x %" PRId64 "%s",
                            ix->path, s->name, t->rows, t->cols ? t->cols : 1, s->rows,
                            s->cols ? s->cols : 1, remedy);
    }
    for (int64_t i = 0; i < ix->tensors; i++)
        if (mds_params_find(whole, ix->tensor[i].name) < 0)
            return mds_fail(MDS_EUSER, "%s: has parameter %s, which this model lacks%s",
                            ix->path, ix->tensor[i].name, remedy);
    return MDS_OK;
}

enum mds_rc mds_ckpt_index_check_files(const struct mds_ckpt_index *ix)
{
    char file[MDS_PATH_SIZE];
    struct stat st;

    for (int64_t i = 0; i < ix->ranks; i++) {
        if (ix->bytes[i] == 0)
            continue;
        MDS_TRY(mds_ckpt_file(ix->path, i, file));
        if (stat(file, &st))
            return mds_fail(MDS_EUSER, "%s: %s", file, strerror(errno));
        if (st.st_size != ix->bytes[i])
            return mds_fail(MDS_EUSER, "%s: has %lld bytes, but %lld were written",
                            file, (long long)st.st_size, (long long)ix->bytes[i]);
    }
    return MDS_OK;
}

/* ---- broadcast ---- */

static enum mds_rc broadcast_list(struct mds_comm *world, void *list, int64_t n,
                                  size_t size)
{
    void **p = list;

    if (mds_comm_rank(world) > 0) {
        *p = mds_zalloc((size_t)n, size);
        if (!*p)
            return MDS_EMEM;
    }
    return mds_comm_broadcast(world, *p, n * (int64_t)size, 0);
}

enum mds_rc mds_ckpt_index_broadcast(struct mds_comm *world, struct mds_ckpt_index **ix)
{
    int first = mds_comm_rank(world) == 0;
    struct mds_ckpt_index *a = first ? *ix : mds_zalloc(1, sizeof *a), head = {0};
    enum mds_rc rc;

    if (!a)
        return MDS_EMEM;
    if (first)
        head = *a;
    rc = mds_comm_broadcast(world, &head, sizeof head, 0);
    if (!first) {
        *a = head;
        a->bytes = NULL;
        a->bias = NULL;
        a->tensor = NULL;
        a->part = NULL;
    }
    if (!rc)
        rc = broadcast_list(world, &a->bytes, head.ranks, sizeof *a->bytes);
    if (!rc)
        rc = broadcast_list(world, &a->tensor, head.tensors, sizeof *a->tensor);
    if (!rc)
        rc = broadcast_list(world, &a->part, head.parts, sizeof *a->part);
    if (!rc && head.state.expert_biases > 0)
        rc = broadcast_list(world, &a->bias, head.state.expert_biases, sizeof *a->bias);
    a->state.expert_bias = a->bias;
    if (rc && !first)
        mds_ckpt_index_destroy(a);
    else
        *ix = a;
    return rc;
}
