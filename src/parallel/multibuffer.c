/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/multibuffer.h"
#include "base/minmax.h"

enum mds_rc mds_multibuffer_open(const struct mds_par *p, void *host, int64_t bytes,
                                 int64_t chunk_bytes, int slots,
                                 struct mds_multibuffer *out)
{
    int64_t most = mds_min(chunk_bytes, bytes);

    *out = (struct mds_multibuffer){.dev = p->dev,
                                    .host = host,
                                    .bytes = bytes,
                                    .chunk_bytes = chunk_bytes,
                                    .slots = slots};
    for (int i = 0; i < slots; i++) {
        out->slot[i].chunk = -1;
        MDS_TRY(mds_arena_alloc(p->arena, MDS_MEM_WORK, most, &out->slot[i].data));
    }
    return MDS_OK;
}

/* Bytes of a chunk; 0 if it does not exist. */
static int64_t chunk_size(const struct mds_multibuffer *w, int64_t chunk)
{
    int64_t left = w->bytes - chunk * w->chunk_bytes;

    if (left < 0)
        return 0;
    return mds_min(left, w->chunk_bytes);
}

static void *chunk_on_host(const struct mds_multibuffer *w, int64_t chunk)
{
    return w->host + chunk * w->chunk_bytes;
}

/* Empty a slot, after its copies. */
static void wait_and_clear(struct mds_multibuffer *w, struct mds_multibuffer_slot *p)
{
    mds_dev_wait_copy(w->dev, p->in);
    mds_dev_wait_copy(w->dev, p->out);
    *p = (struct mds_multibuffer_slot){.data = p->data, .chunk = -1};
}

/* The slot with a chunk, or -1. */
static int find_slot(const struct mds_multibuffer *w, int64_t chunk)
{
    for (int i = 0; i < w->slots; i++)
        if (w->slot[i].chunk == chunk)
            return i;
    return -1;
}

static int next_slot(const struct mds_multibuffer *w)
{
    return (w->now + 1) % w->slots;
}

void mds_multibuffer_prefetch(struct mds_multibuffer *w, int64_t chunk)
{
    struct mds_multibuffer_slot *p = &w->slot[next_slot(w)];
    int64_t bytes = chunk_size(w, chunk);

    if (bytes == 0 || find_slot(w, chunk) >= 0)
        return;
    wait_and_clear(w, p);
    p->chunk = chunk;
    p->in = mds_dev_reload_start(w->dev, p->data, chunk_on_host(w, chunk), bytes);
}

void *mds_multibuffer_get(struct mds_multibuffer *w, int64_t chunk)
{
    mds_multibuffer_prefetch(w, chunk);
    w->now = find_slot(w, chunk);
    mds_dev_wait_copy(w->dev, w->slot[w->now].in);
    mds_dev_wait_copy(w->dev, w->slot[w->now].out); /* the caller may change it */
    return w->slot[w->now].data;
}

void *mds_multibuffer_fill(struct mds_multibuffer *w, int64_t chunk)
{
    w->now = next_slot(w);
    wait_and_clear(w, &w->slot[w->now]);
    w->slot[w->now].chunk = chunk;
    return w->slot[w->now].data;
}

void mds_multibuffer_offload(struct mds_multibuffer *w)
{
    struct mds_multibuffer_slot *p = &w->slot[w->now];

    p->out = mds_dev_offload_start(w->dev, chunk_on_host(w, p->chunk), p->data,
                                   chunk_size(w, p->chunk));
}

void mds_multibuffer_close(struct mds_multibuffer *w)
{
    for (int i = 0; i < w->slots; i++)
        wait_and_clear(w, &w->slot[i]);
}
