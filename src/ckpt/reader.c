/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/reader.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/folder.h"
#include "ckpt/rank_file.h"

#include <stdlib.h>
#include <string.h>

/* FILES: open at a time.  ROWS_BUFFER: elements of a buffer for rows.  THREADS: for
 * O_DIRECT reads; most of them wait for the disk.  MEANS: of embedding and head. */
enum { FILES = 16, ROWS_BUFFER = 1 << 22, THREADS = 8, MEANS = 2 };

struct slot {
    struct mds_rank_file_reader *file; /* NULL: free */
    int64_t rank, stamp;
};

struct mds_ckpt_reader {
    const struct mds_ckpt_index *ix; /* borrowed */
    struct mds_rank_file_workers workers;
    struct slot slot[FILES];
    int64_t clock;
    int64_t words; /* of the model; 0: as many as the checkpoint has */
    enum mds_resize resize;
    mds_ckpt_find_name *find; /* NULL: names are the same, and all are there */
    struct {
        int64_t tensor;
        float *row; /* [columns] */
    } mean[MEANS];
    int means;
};

enum mds_rc mds_ckpt_reader_create(const struct mds_ckpt_index *ix, int alone,
                                   struct mds_ckpt_reader **out)
{
    struct mds_ckpt_reader *r = mds_zalloc(1, sizeof *r);
    enum mds_rc rc;

    if (!r)
        return MDS_EMEM;
    r->ix = ix;
    rc = mds_worker_create(1, &r->workers.cached);
    if (!rc && alone)
        rc = mds_worker_create(THREADS, &r->workers.direct);
    if (rc)
        mds_ckpt_reader_destroy(r);
    else
        *out = r;
    return rc;
}

void mds_ckpt_reader_destroy(struct mds_ckpt_reader *r)
{
    if (!r)
        return;
    for (int i = 0; i < FILES; i++)
        mds_rank_file_close(r->slot[i].file);
    for (int i = 0; i < r->means; i++)
        free(r->mean[i].row);
    mds_worker_destroy(r->workers.direct);
    mds_worker_destroy(r->workers.cached);
    free(r);
}

int64_t mds_ckpt_reader_bytes(void)
{
    return (int64_t)FILES * MDS_RANK_FILE_FETCHES * MDS_RANK_FILE_BLOCK *
           (int64_t)sizeof(float);
}

void mds_ckpt_reader_rename(struct mds_ckpt_reader *r, mds_ckpt_find_name *find)
{
    r->find = find;
}

const struct mds_ckpt_index *mds_ckpt_reader_index(const struct mds_ckpt_reader *r)
{
    return r->ix;
}

/* ---- files ---- */

/* The slot with this rank's file, or the least recently used one, emptied. */
static struct slot *find_slot(struct mds_ckpt_reader *r, int64_t rank)
{
    struct slot *oldest = &r->slot[0];

    for (int i = 0; i < FILES; i++) {
        struct slot *s = &r->slot[i];

        if (s->file && s->rank == rank)
            return s;
        if (s->stamp < oldest->stamp)
            oldest = s;
    }
    mds_rank_file_close(oldest->file);
    oldest->file = NULL;
    return oldest;
}

static enum mds_rc open_rank_file(struct mds_ckpt_reader *r, int64_t rank,
                                  struct mds_rank_file_reader **out)
{
    const struct mds_rank_file_id id = {
        .save = r->ix->save, .rank = rank, .iteration = r->ix->state.iteration};
    struct slot *s = find_slot(r, rank);
    char path[MDS_PATH_SIZE];

    s->stamp = ++r->clock;
    if (!s->file) {
        MDS_TRY(mds_ckpt_file(r->ix->path, rank, path));
        MDS_TRY(mds_rank_file_open(path, &id, r->workers, &s->file));
        s->rank = rank;
    }
    *out = s->file;
    return MDS_OK;
}

/* ---- parts ---- */

/* Where the rows of `sub` are in the list of `whole`. */
static struct mds_strided_rows strided_rows(const struct mds_ckpt_part *whole,
                                            const struct mds_ckpt_part *sub)
{
    struct mds_strided_rows r = {.first = mds_part_offset(whole, sub),
                                 .n = sub->cols,
                                 .step = whole->cols,
                                 .count = sub->rows};

    return r;
}

/* Copy what the files have of part `need`, in the tensor's first `rows` rows, to its
 * place in the list out. */
static enum mds_rc read_part(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                             int64_t tensor, int64_t rows,
                             const struct mds_ckpt_part *need, float *out)
{
    const struct mds_ckpt_tensor *t = &r->ix->tensor[tensor];
    char name[96];

    mds_ckpt_set_name(what, t->name, name);
    for (int64_t i = 0; i < t->parts; i++) {
        const struct mds_ckpt_part *stored = &r->ix->part[t->first + i];
        struct mds_ckpt_part have = *stored;
        struct mds_rank_file_reader *file;
        struct mds_strided_rows from, to;
        struct mds_ckpt_part both;

        have.rows = mds_min(have.rows, rows - have.row);
        if (!mds_part_intersect(&have, need, &both))
            continue;
        MDS_TRY(open_rank_file(r, have.file, &file));
        from = strided_rows(stored, &both);
        to = strided_rows(need, &both);
        MDS_TRY(mds_rank_file_read(file, name, &from, out, &to));
    }
    return MDS_OK;
}

/* ---- words that the checkpoint does not have ---- */

void mds_ckpt_reader_resize(struct mds_ckpt_reader *r, int64_t words,
                            enum mds_resize how)
{
    r->words = words;
    r->resize = how;
}

static int gets_words(const struct mds_ckpt_reader *r, const struct mds_ckpt_tensor *t)
{
    return mds_ckpt_is_by_word(t->name) && r->words > r->ix->state.vocab;
}

/* Sum up the rows of words, in their order, in each layout the same. */
static enum mds_rc compute_mean(struct mds_ckpt_reader *r, int64_t tensor, double *sum,
                                float *buf, int64_t elements, float *out)
{
    struct mds_ckpt_tensor words = r->ix->tensor[tensor];

    words.rows = r->ix->state.vocab;
    for (struct mds_ckpt_part p = {0}; mds_ckpt_next_rows(&words, elements, &p);) {
        MDS_TRY(read_part(r, MDS_CKPT_WEIGHT, tensor, words.rows, &p, buf));
        for (int64_t i = 0; i < p.rows * p.cols; i++)
            sum[i % p.cols] += (double)buf[i];
    }
    for (int64_t i = 0; i < words.cols; i++)
        out[i] = (float)(sum[i] / (double)words.rows);
    return MDS_OK;
}

static enum mds_rc add_mean(struct mds_ckpt_reader *r, int64_t tensor)
{
    int64_t cols = r->ix->tensor[tensor].cols;
    int64_t elements = mds_max(cols, MDS_RANK_FILE_BLOCK);
    double *sum = mds_zalloc((size_t)cols, sizeof *sum);
    float *buf = mds_zalloc((size_t)elements, sizeof *buf);
    float *row = mds_zalloc((size_t)cols, sizeof *row);
    enum mds_rc rc =
        sum && buf && row ? compute_mean(r, tensor, sum, buf, elements, row) : MDS_EMEM;

    free(sum);
    free(buf);
    if (rc) {
        free(row);
        return rc;
    }
    r->mean[r->means].tensor = tensor;
    r->mean[r->means++].row = row;
    return MDS_OK;
}

static enum mds_rc mean_of(struct mds_ckpt_reader *r, int64_t tensor, const float **out)
{
    int i = 0;

    while (i < r->means && r->mean[i].tensor != tensor)
        i++;
    if (i == r->means)
        MDS_TRY(add_mean(r, tensor));
    *out = r->mean[i].row;
    return MDS_OK;
}

/* Replace initial values of rows that are words by the mean of the checkpoint's words.
 */
static enum mds_rc put_mean(struct mds_ckpt_reader *r, const struct mds_param *p,
                            int64_t tensor, int64_t first, int64_t n, float *out)
{
    int64_t cols = p->spec.cols, known = r->ix->state.vocab;
    const float *mean;

    if (mds_param_whole_index(p, first + n - 1) / cols < known)
        return MDS_OK;
    MDS_TRY(mean_of(r, tensor, &mean));
    for (int64_t i = 0; i < n; i++) {
        int64_t whole = mds_param_whole_index(p, first + i), row = whole / cols;

        if (row >= known && row < r->words)
            out[i] = mean[whole % cols];
    }
    return MDS_OK;
}

static int64_t find_tensor(const struct mds_ckpt_reader *r, const struct mds_param *p)
{
    char name[sizeof p->spec.name];

    if (!r->find)
        return mds_ckpt_index_find(r->ix, p->spec.name);
    r->find(p->spec.name, name);
    return mds_ckpt_index_find(r->ix, name);
}

/* Of what the checkpoint does not have. */
static void put_start(const struct mds_param *p, uint64_t seed, enum mds_ckpt_what what,
                      int64_t first, int64_t n, float *out)
{
    if (what == MDS_CKPT_WEIGHT)
        mds_param_init_values(p, seed, first, n, out);
    else
        memset(out, 0, (size_t)n * sizeof *out);
}

/* Elements first .. first + n - 1 of this rank's shard of a parameter. */
static enum mds_rc read_shard(struct mds_ckpt_reader *r, const struct mds_param *p,
                              uint64_t seed, enum mds_ckpt_what what, int64_t first,
                              int64_t n, float *out)
{
    int64_t tensor = find_tensor(r, p), rows;
    struct mds_ckpt_part need[MDS_PART_SPLIT];
    int parts = mds_part_split(p, first, n, need), grows;

    if (tensor < 0 && r->find) {
        put_start(p, seed, what, first, n, out);
        return MDS_OK;
    }
    if (tensor < 0)
        return mds_fail(MDS_EBUG, "%s: no %s", r->ix->path, p->spec.name);
    grows = gets_words(r, &r->ix->tensor[tensor]);
    /* Not the padding that the checkpoint has where this model has words. */
    rows = grows ? r->ix->state.vocab : r->ix->tensor[tensor].rows;
    if (rows < p->spec.rows)
        put_start(p, seed, what, first, n, out);
    if (grows && what == MDS_CKPT_WEIGHT && r->resize == MDS_RESIZE_MEAN)
        MDS_TRY(put_mean(r, p, tensor, first, n, out));
    for (int i = 0; i < parts; i++)
        MDS_TRY(read_part(r, what, tensor, rows, &need[i], out));
    return MDS_OK;
}

enum mds_rc mds_ckpt_reader_fill(struct mds_ckpt_reader *r,
                                 const struct mds_params *local, uint64_t seed,
                                 enum mds_ckpt_what what, int unit, int64_t first,
                                 int64_t n, float *out)
{
    const struct mds_param_unit *u = mds_params_unit(local, unit);

    memset(out, 0, (size_t)n * sizeof *out);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(local, id);
        struct mds_param_overlap here = mds_param_overlap(local, p, first, n);

        if (here.n > 0)
            MDS_TRY(read_shard(r, p, seed, what, here.first, here.n, out + here.at));
    }
    return MDS_OK;
}

enum mds_rc mds_ckpt_reader_part(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                                 int64_t tensor, const struct mds_ckpt_part *part,
                                 float *out)
{
    const struct mds_ckpt_part need = {
        .row = part->row, .rows = part->rows, .col = part->col, .cols = part->cols};

    return read_part(r, what, tensor, r->ix->tensor[tensor].rows, &need, out);
}

int mds_ckpt_next_rows(const struct mds_ckpt_tensor *t, int64_t elements,
                       struct mds_ckpt_part *part)
{
    int64_t most = elements / (t->cols ? t->cols : 1);

    part->row += part->rows;
    part->rows = mds_min(t->rows - part->row, most);
    part->cols = t->cols ? t->cols : 1;
    if (part->rows < 1)
        part->rows = part->row < t->rows;
    return part->rows > 0;
}

int64_t mds_ckpt_rows_buffer(const struct mds_ckpt_index *ix)
{
    int64_t elements = ROWS_BUFFER;

    for (int64_t i = 0; i < ix->tensors; i++)
        if (elements < ix->tensor[i].cols)
            elements = ix->tensor[i].cols;
    return elements;
}

/* ---- verification ---- */

static enum mds_rc verify_tensor(struct mds_rank_file_reader *f, int64_t rank,
                                 const struct mds_ckpt_index *ix,
                                 const struct mds_ckpt_tensor *t)
{
    int64_t count = 0;

    for (int64_t i = 0; i < t->parts; i++) {
        const struct mds_ckpt_part *p = &ix->part[t->first + i];

        if (p->file == rank)
            count += p->rows * p->cols;
    }
    for (int what = 0; count > 0 && what < MDS_CKPT_STATES; what++) {
        char name[96];

        mds_ckpt_set_name(what, t->name, name);
        MDS_TRY(mds_rank_file_verify(f, name, count));
    }
    return MDS_OK;
}

enum mds_rc mds_ckpt_reader_verify(struct mds_ckpt_reader *r, int64_t rank)
{
    struct mds_rank_file_reader *f;

    MDS_TRY(open_rank_file(r, rank, &f));
    for (int64_t i = 0; i < r->ix->tensors; i++)
        MDS_TRY(verify_tensor(f, rank, r->ix, &r->ix->tensor[i]));
    return MDS_OK;
}
