/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous save: this rank's elements are read buffer by buffer, while a thread
 * writes the buffers that are full. */
#include "ckpt/save.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/error_sync.h"
#include "ckpt/saving.h"
#include "io/worker.h"

#include <stdio.h>
#include <stdlib.h>

/* Elements of a buffer, in whole blocks; number of buffers. */
enum { BUFFER_ELEMENTS = 2 * MDS_RANK_FILE_BLOCK, BUFFERS = 4 };

struct buffer {
    struct mds_task job;
    struct mds_rank_file *file;
    const struct mds_rank_file_list *list;
    int64_t at, n;
    float *values;
    enum mds_rc rc;
    char why[512];
};

struct writer {
    struct mds_worker *worker;
    float *memory; /* [BUFFERS * BUFFER_ELEMENTS] */
    struct buffer buffer[BUFFERS];
    int next;
};

/* Runs in the thread. */
static void run_write(struct mds_task *job)
{
    struct buffer *p = (struct buffer *)job;

    p->rc = mds_rank_file_put(p->file, p->list, p->at, p->n, p->values);
    if (p->rc)
        snprintf(p->why, sizeof p->why, "%s", mds_fail_text());
}

/* Wait until a buffer has been written. */
static enum mds_rc wait_for_buffer(struct writer *wr, struct buffer *p)
{
    enum mds_rc rc;

    mds_worker_wait(wr->worker, &p->job);
    rc = p->rc;
    p->rc = MDS_OK;
    return rc ? mds_fail(rc, "%s", p->why) : MDS_OK;
}

static enum mds_rc wait_for_all_buffers(struct writer *wr)
{
    enum mds_rc rc = MDS_OK;

    for (int i = 0; i < BUFFERS; i++) {
        enum mds_rc of = wait_for_buffer(wr, &wr->buffer[i]);

        rc = rc ? rc : of;
    }
    return rc;
}

static enum mds_rc write_list(struct writer *wr, const struct mds_saving *w,
                              const struct mds_rank_file_list *list)
{
    for (int64_t at = 0; at < list->n; at += BUFFER_ELEMENTS) {
        struct buffer *p = &wr->buffer[wr->next];

        wr->next = (wr->next + 1) % BUFFERS;
        MDS_TRY(wait_for_buffer(wr, p));
        p->file = w->file;
        p->list = list;
        p->at = at;
        p->n = mds_min(list->n - at, BUFFER_ELEMENTS);
        MDS_TRY(mds_saving_read(w, list, at, p->n, p->values));
        mds_worker_start(wr->worker, &p->job);
    }
    return MDS_OK;
}

static enum mds_rc write_lists(struct writer *wr, const struct mds_saving *w)
{
    enum mds_rc rc = MDS_OK, settled;

    for (int64_t i = 0; !rc && i < w->plan.lists; i++)
        rc = write_list(wr, w, &w->plan.list[i]);
    settled = wait_for_all_buffers(wr);
    return rc ? rc : settled;
}

enum mds_rc mds_saving_write(const struct mds_saving *w)
{
    struct writer wr = {0};
    enum mds_rc rc;

    if (!w->file)
        return MDS_OK;
    wr.memory = mds_zalloc((size_t)BUFFERS * BUFFER_ELEMENTS, sizeof *wr.memory);
    if (!wr.memory)
        return MDS_EMEM;
    rc = mds_worker_create(1, &wr.worker);
    for (int i = 0; i < BUFFERS; i++) {
        wr.buffer[i].job.run = run_write;
        wr.buffer[i].values = wr.memory + (size_t)i * BUFFER_ELEMENTS;
    }
    if (!rc)
        rc = write_lists(&wr, w);
    if (!rc)
        rc = mds_rank_file_seal(w->file);
    mds_worker_destroy(wr.worker);
    free(wr.memory);
    return rc;
}

enum mds_rc mds_ckpt_save(const struct mds_ckpt_save *s, int64_t *bytes)
{
    struct mds_saving w;
    enum mds_rc rc;

    MDS_TRY(mds_saving_begin(s, &w));
    rc = mds_ckpt_sync_error(s->world, mds_saving_write(&w));
    if (!rc)
        rc =
            mds_ckpt_sync_error(s->world, w.rank == 0 ? mds_saving_commit(&w) : MDS_OK);
    if (!rc)
        *bytes = w.bytes;
    mds_saving_end(&w, rc);
    return rc;
}
