/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/background.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/error_sync.h"
#include "ckpt/saving.h"
#include "io/worker.h"

#include <stdio.h>
#include <stdlib.h>

/* What the thread is doing. */
enum phase { IDLE, WRITING, RENAMING };

struct mds_ckpt_background {
    struct mds_task job;
    struct mds_worker *worker;
    float *memory; /* [capacity], borrowed: the lists one after the other */
    int64_t capacity;
    enum phase phase;
    struct mds_saving saving;
    /* result of the job */
    enum mds_rc rc;
    char why[512];
};

enum mds_rc mds_ckpt_background_create(void *memory, int64_t bytes,
                                       struct mds_ckpt_background **out)
{
    struct mds_ckpt_background *b = mds_zalloc(1, sizeof *b);
    enum mds_rc rc;

    if (!b)
        return MDS_EMEM;
    b->memory = memory;
    b->capacity = bytes / (int64_t)sizeof *b->memory;
    rc = mds_worker_create(1, &b->worker);
    if (rc)
        mds_ckpt_background_destroy(b);
    else
        *out = b;
    return rc;
}

void mds_ckpt_background_destroy(struct mds_ckpt_background *b)
{
    if (!b)
        return;
    mds_worker_destroy(b->worker);
    mds_saving_end(&b->saving, MDS_OK);
    free(b);
}

int mds_ckpt_background_busy(const struct mds_ckpt_background *b)
{
    return b->phase != IDLE;
}

/* ---- the thread ---- */

static enum mds_rc write_copied_lists(const struct mds_ckpt_background *b)
{
    const struct mds_saving *w = &b->saving;
    const float *from = b->memory;

    if (!w->file)
        return MDS_OK;
    for (int64_t i = 0; i < w->plan.lists; i++) {
        const struct mds_rank_file_list *list = &w->plan.list[i];

        for (int64_t at = 0; at < list->n; at += MDS_RANK_FILE_BLOCK) {
            int64_t left = list->n - at;
            int64_t n = mds_min(left, MDS_RANK_FILE_BLOCK);

            MDS_TRY(mds_rank_file_put(w->file, list, at, n, from + at));
        }
        from += list->n;
    }
    return mds_rank_file_seal(w->file);
}

static void run_job(struct mds_task *job)
{
    struct mds_ckpt_background *b = (struct mds_ckpt_background *)job;

    b->rc = b->phase == WRITING ? write_copied_lists(b) : mds_saving_commit(&b->saving);
    if (b->rc)
        snprintf(b->why, sizeof b->why, "%s", mds_fail_text());
}

static void start_job(struct mds_ckpt_background *b, enum phase phase)
{
    b->phase = phase;
    b->rc = MDS_OK;
    b->job.run = run_job;
    if (phase == WRITING || b->saving.rank == 0)
        mds_worker_start(b->worker, &b->job);
}

/* ---- beginning ---- */

static enum mds_rc copy_to_memory(struct mds_ckpt_background *b)
{
    const struct mds_saving *w = &b->saving;
    float *to = b->memory;

    if (w->plan.elements > b->capacity)
        return mds_fail(MDS_EBUG,
                        "checkpoint: %lld elements to copy, but memory for %lld",
                        (long long)w->plan.elements, (long long)b->capacity);
    for (int64_t i = 0; i < w->plan.lists; i++) {
        const struct mds_rank_file_list *list = &w->plan.list[i];

        MDS_TRY(mds_saving_read(w, list, 0, list->n, to));
        to += list->n;
    }
    return MDS_OK;
}

enum mds_rc mds_ckpt_background_start(struct mds_ckpt_background *b,
                                      const struct mds_ckpt_save *s)
{
    enum mds_rc rc;

    if (b->phase != IDLE)
        return mds_fail(MDS_EBUG,
                        "checkpoint: the previous one is still being written");
    MDS_TRY(mds_saving_begin(s, &b->saving));
    rc = mds_ckpt_sync_error(s->world, copy_to_memory(b));
    if (rc)
        mds_saving_end(&b->saving, rc);
    else
        start_job(b, WRITING);
    return rc;
}

/* ---- ending ---- */

static enum mds_rc end_save(struct mds_ckpt_background *b, enum mds_rc rc)
{
    b->phase = IDLE;
    mds_saving_end(&b->saving, rc);
    return rc;
}

/* *done: whether all ranks' threads have finished this phase; then returns its result.
 */
static enum mds_rc poll_ranks(struct mds_ckpt_background *b, int wait, int *done)
{
    struct mds_comm *world = b->saving.spec.world;
    double all[2];
    enum mds_rc rc;

    if (wait)
        mds_worker_wait(b->worker, &b->job);
    all[0] = !mds_worker_done(b->worker, &b->job);
    all[1] = all[0] <= 0 && b->rc;
    MDS_TRY(mds_comm_all_reduce_f64(world, all, 2, MDS_COMM_MAX));
    *done = all[0] <= 0;
    if (!*done || all[1] <= 0)
        return MDS_OK;
    rc = b->rc ? mds_fail(b->rc, "%s", b->why) : MDS_OK;
    return mds_ckpt_sync_error(world, rc);
}

enum mds_rc mds_ckpt_background_poll(struct mds_ckpt_background *b, int wait,
                                     int64_t *iteration, int64_t *bytes)
{
    enum mds_rc rc;
    int done;

    *iteration = -1;
    while (b->phase != IDLE) {
        rc = poll_ranks(b, wait, &done);
        if (rc && !mds_ckpt_is_file_error(rc))
            return rc; /* the program will exit; the thread may still be writing */
        if (rc)
            return end_save(b, rc);
        if (!done)
            return MDS_OK;
        if (b->phase == WRITING) {
            start_job(b, RENAMING);
            continue;
        }
        *iteration = b->saving.spec.state.iteration;
        *bytes = b->saving.bytes;
        end_save(b, MDS_OK);
    }
    return MDS_OK;
}
