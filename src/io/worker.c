/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/worker.h"
#include "base/alloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct mds_worker {
    pthread_mutex_t lock; /* of all that follows, and of the jobs' own fields */
    pthread_cond_t work, done;
    struct mds_task *first, **last; /* queue */
    int stop;
    int threads;
    pthread_t thread[];
};

/* With the lock held: the next job, or NULL when it is time to leave. */
static struct mds_task *wait_for_next_task(struct mds_worker *w)
{
    struct mds_task *job;

    while (!w->first && !w->stop)
        pthread_cond_wait(&w->work, &w->lock);
    job = w->first;
    if (!job)
        return NULL;
    w->first = job->next;
    if (!w->first)
        w->last = &w->first;
    return job;
}

static void *worker_main(void *arg)
{
    struct mds_worker *w = arg;
    struct mds_task *job;

    pthread_mutex_lock(&w->lock);
    while ((job = wait_for_next_task(w))) {
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
        job->busy = 0;
        pthread_cond_broadcast(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Starts the threads with all signals blocked, which they inherit. */
static int start_worker_threads(struct mds_worker *w, int threads)
{
    sigset_t all, before;
    int err = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (!err && w->threads < threads) {
        err = pthread_create(&w->thread[w->threads], NULL, worker_main, w);
        if (!err)
            w->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

enum mds_rc mds_worker_create(int threads, struct mds_worker **out)
{
    struct mds_worker *w =
        mds_zalloc(1, sizeof *w + (size_t)threads * sizeof w->thread[0]);
    int err;

    if (!w)
        return MDS_EMEM;
    w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    err = start_worker_threads(w, threads);
    if (err) {
        mds_worker_destroy(w);
        return mds_fail(MDS_EMEM, "cannot start a worker thread: %s", strerror(err));
    }
    *out = w;
    return MDS_OK;
}

void mds_worker_destroy(struct mds_worker *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = 1;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->threads; i++)
        pthread_join(w->thread[i], NULL);
    pthread_cond_destroy(&w->done);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void mds_worker_start(struct mds_worker *w, struct mds_task *job)
{
    pthread_mutex_lock(&w->lock);
    job->next = NULL;
    job->busy = 1;
    *w->last = job;
    w->last = &job->next;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

int mds_worker_done(struct mds_worker *w, struct mds_task *job)
{
    int busy;

    pthread_mutex_lock(&w->lock);
    busy = job->busy;
    pthread_mutex_unlock(&w->lock);
    return !busy;
}

void mds_worker_wait(struct mds_worker *w, struct mds_task *job)
{
    pthread_mutex_lock(&w->lock);
    while (job->busy)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}
