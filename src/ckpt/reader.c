#include "ckpt/reader.h"
#include "base/alloc.h"
#include "ckpt/folder.h"
#include "io/h5_array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 16, PIECE = 1 << 19 };

/* A file that is open, and the set last read in it. */
struct slot {
    struct mds_h5 *h5; /* NULL: free */
    int64_t rank, stamp;
    struct mds_h5_floats *set;
    char name[96];
};

struct mds_ckpt_reader {
    const struct mds_ckpt_index *ix; /* borrowed */
    struct slot slot[FILES];
    int64_t clock;
};

enum mds_rc mds_ckpt_reader_create(const struct mds_ckpt_index *ix,
                                   struct mds_ckpt_reader **out)
{
    struct mds_ckpt_reader *r = mds_zalloc(1, sizeof *r);

    if (!r)
        return MDS_EMEM;
    r->ix = ix;
    *out = r;
    return MDS_OK;
}

static void close_slot(struct slot *s)
{
    (void)mds_h5_floats_close(s->set);
    (void)mds_h5_close(s->h5);
    *s = (struct slot){0};
}

void mds_ckpt_reader_destroy(struct mds_ckpt_reader *r)
{
    if (!r)
        return;
    for (int i = 0; i < FILES; i++)
        close_slot(&r->slot[i]);
    free(r);
}

const struct mds_ckpt_index *mds_ckpt_reader_index(const struct mds_ckpt_reader *r)
{
    return r->ix;
}

/* ---- files ---- */

/* Of this very save: not one of another run or step that was copied here. */
static enum mds_rc check_identity(const struct mds_ckpt_index *ix, struct mds_h5 *f,
                                  const char *path, int64_t rank)
{
    int64_t save, iteration, of;

    MDS_TRY(mds_h5_get_int(f, "save", &save));
    MDS_TRY(mds_h5_get_int(f, "iteration", &iteration));
    MDS_TRY(mds_h5_get_int(f, "rank", &of));
    if (iteration != ix->state.iteration || of != rank)
        return mds_fail(MDS_EUSER,
                        "%s: was written by rank %" PRId64 " at iteration %" PRId64,
                        path, of, iteration);
    if (save != ix->save)
        return mds_fail(MDS_EUSER, "%s: belongs to another save of this iteration",
                        path);
    return MDS_OK;
}

static struct slot *pick_slot(struct mds_ckpt_reader *r, int64_t rank)
{
    struct slot *oldest = &r->slot[0];

    for (int i = 0; i < FILES; i++) {
        struct slot *s = &r->slot[i];

        if (s->h5 && s->rank == rank)
            return s;
        if (s->stamp < oldest->stamp)
            oldest = s;
    }
    close_slot(oldest);
    return oldest;
}

static enum mds_rc open_file(struct mds_ckpt_reader *r, int64_t rank, struct slot **out)
{
    struct slot *s = pick_slot(r, rank);
    char path[MDS_CKPT_PATH];

    s->stamp = ++r->clock;
    if (!s->h5) {
        MDS_TRY(mds_ckpt_file(r->ix->path, rank, path));
        MDS_TRY(mds_h5_open(path, NULL, &s->h5));
        s->rank = rank;
        MDS_TRY(check_identity(r->ix, s->h5, path, rank));
    }
    *out = s;
    return MDS_OK;
}

static enum mds_rc open_set(struct mds_ckpt_reader *r, int64_t rank, const char *name,
                            struct mds_h5_floats **out)
{
    struct slot *s;

    MDS_TRY(open_file(r, rank, &s));
    if (!s->set || strcmp(s->name, name) != 0) {
        (void)mds_h5_floats_close(s->set);
        s->set = NULL;
        MDS_TRY(mds_h5_floats_open(s->h5, name, &s->set));
        memcpy(s->name, name, strlen(name) + 1);
    }
    *out = s->set;
    return MDS_OK;
}

/* ---- parts ---- */

/* Where the rows of `sub` are in the list of `whole`. */
static struct mds_h5_runs runs_of(const struct mds_part *whole,
                                  const struct mds_part *sub)
{
    struct mds_h5_runs r = {.first = mds_part_offset(whole, sub),
                            .n = sub->cols,
                            .step = whole->cols,
                            .runs = sub->rows};

    return r;
}

/* out's list, of which `need` is one part, gets what files have of it. */
static enum mds_rc read_part(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                             int64_t tensor, const struct mds_part *need, float *out)
{
    const struct mds_ckpt_tensor *t = &r->ix->tensor[tensor];
    char name[96];

    mds_ckpt_set_name(what, t->name, name);
    for (int64_t i = 0; i < t->parts; i++) {
        const struct mds_part *have = &r->ix->part[t->first + i];
        struct mds_h5_runs from, to;
        struct mds_h5_floats *set;
        struct mds_part both;

        if (!mds_part_meet(have, need, &both))
            continue;
        MDS_TRY(open_set(r, have->file, name, &set));
        from = runs_of(have, &both);
        to = runs_of(need, &both);
        MDS_TRY(mds_h5_floats_read(set, &from, out, &to));
    }
    return MDS_OK;
}

/* Elements first .. first + n - 1 of a parameter's share. */
static enum mds_rc read_share(struct mds_ckpt_reader *r, const struct mds_param *p,
                              uint64_t seed, enum mds_ckpt_what what, int64_t first,
                              int64_t n, float *out)
{
    int64_t tensor = mds_ckpt_index_find(r->ix, p->spec.name);
    struct mds_part need[MDS_PART_SPLIT];
    int parts = mds_part_split(p, first, n, need);

    if (tensor < 0)
        return mds_fail(MDS_EBUG, "%s: no %s", r->ix->path, p->spec.name);
    if (what == MDS_CKPT_WEIGHT && r->ix->tensor[tensor].rows < p->spec.rows)
        mds_param_init_values(p, seed, first, n, out);
    for (int i = 0; i < parts; i++)
        MDS_TRY(read_part(r, what, tensor, &need[i], out));
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
        int64_t begin = p->offset - u->first; /* in the unit */
        int64_t from = begin > first ? begin : first;
        int64_t to = begin + p->count < first + n ? begin + p->count : first + n;

        if (from < to)
            MDS_TRY(read_share(r, p, seed, what, from - begin, to - from,
                               out + from - first));
    }
    return MDS_OK;
}

enum mds_rc mds_ckpt_reader_part(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                                 int64_t tensor, const struct mds_part *part,
                                 float *out)
{
    const struct mds_part need = {
        .row = part->row, .rows = part->rows, .col = part->col, .cols = part->cols};

    return read_part(r, what, tensor, &need, out);
}

int mds_ckpt_next_rows(const struct mds_ckpt_tensor *t, int64_t elements,
                       struct mds_part *part)
{
    int64_t most = elements / (t->cols ? t->cols : 1);

    part->row += part->rows;
    part->rows = t->rows - part->row < most ? t->rows - part->row : most;
    part->cols = t->cols ? t->cols : 1;
    if (part->rows < 1)
        part->rows = part->row < t->rows;
    return part->rows > 0;
}

int64_t mds_ckpt_rows_room(const struct mds_ckpt_index *ix)
{
    int64_t room = 8 * PIECE;

    for (int64_t i = 0; i < ix->tensors; i++)
        if (room < ix->tensor[i].cols)
            room = ix->tensor[i].cols;
    return room;
}

/* ---- verification ---- */

static enum mds_rc verify_set(struct mds_ckpt_reader *r, int64_t rank, const char *name,
                              int64_t count, float *buf)
{
    struct mds_h5_floats *set;
    int64_t n;

    MDS_TRY(open_set(r, rank, name, &set));
    n = mds_h5_floats_length(set);
    if (n != count)
        return mds_fail(MDS_EUSER,
                        "%s/rank_%05" PRId64 ".h5: %s has %" PRId64
                        " numbers, the index says %" PRId64,
                        r->ix->path, rank, name, n, count);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t m = n - at < PIECE ? n - at : PIECE;
        struct mds_h5_runs from = {at, m, m, 1}, to = {0, m, m, 1};

        MDS_TRY(mds_h5_floats_read(set, &from, buf, &to));
    }
    return MDS_OK;
}

static enum mds_rc verify_tensor(struct mds_ckpt_reader *r, int64_t rank,
                                 const struct mds_ckpt_tensor *t, float *buf)
{
    int64_t count = 0;

    for (int64_t i = 0; i < t->parts; i++) {
        const struct mds_part *p = &r->ix->part[t->first + i];

        if (p->file == rank)
            count += p->rows * p->cols;
    }
    for (int what = 0; count > 0 && what < MDS_CKPT_STATES; what++) {
        char name[96];

        mds_ckpt_set_name(what, t->name, name);
        MDS_TRY(verify_set(r, rank, name, count, buf));
    }
    return MDS_OK;
}

enum mds_rc mds_ckpt_reader_verify(struct mds_ckpt_reader *r, int64_t rank)
{
    float *buf = mds_zalloc(PIECE, sizeof *buf);
    enum mds_rc rc = buf ? MDS_OK : MDS_EMEM;

    for (int64_t i = 0; !rc && i < r->ix->tensors; i++)
        rc = verify_tensor(r, rank, &r->ix->tensor[i], buf);
    free(buf);
    return rc;
}
