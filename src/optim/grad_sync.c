#include "optim/grad_sync.h"
#include "base/alloc.h"

#include <stdlib.h>

/* Requests in flight, each with working memory of its own.  Two keep the network busy
 * while the next bucket fills; more would only cost memory. */
enum { SLOTS = 2 };

/* Neighbouring parameters, whose gradients travel together. */
struct bucket {
    int64_t first, n; /* elements of the flat buffer */
    int params;       /* in it */
    int waiting;      /* of them, not ready in this pass */
};

struct mds_grad_sync {
    struct mds_grad_sync_spec spec;
    struct bucket *bucket;
    int buckets;
    int *bucket_of; /* by parameter */
    int last;       /* this pass is a step's last */
    int64_t work_floats;
    float *work[SLOTS];
    struct mds_comm_req req[SLOTS];
    int next; /* slot for the next bucket */
};

/* From the last parameter to the first, as backward meets them. */
static void fill_buckets(struct mds_grad_sync *s)
{
    int64_t end = 0, enough = s->spec.bucket_bytes / (int64_t)sizeof(float);
    struct bucket *b = NULL;

    for (int id = mds_params_n(s->spec.ps) - 1; id >= 0; id--) {
        const struct mds_param *p = mds_params_get(s->spec.ps, id);

        if (!b || b->n >= enough) {
            end = p->offset + p->count;
            b = &s->bucket[s->buckets++];
        }
        b->first = p->offset;
        b->n = end - p->offset;
        b->params++;
        s->bucket_of[id] = s->buckets - 1;
    }
}

enum mds_rc mds_grad_sync_create(const struct mds_grad_sync_spec *spec,
                                 struct mds_grad_sync **out)
{
    struct mds_grad_sync *s = mds_zalloc(1, sizeof *s);
    size_t n = (size_t)mds_params_n(spec->ps);

    if (!s)
        return MDS_EMEM;
    s->spec = *spec;
    s->bucket = mds_zalloc(n, sizeof *s->bucket);
    s->bucket_of = mds_zalloc(n, sizeof *s->bucket_of);
    if (!s->bucket || !s->bucket_of) {
        mds_grad_sync_destroy(s);
        return MDS_EMEM;
    }
    fill_buckets(s);
    for (int b = 0; b < s->buckets; b++) {
        int64_t work = mds_comm_all_reduce_work(spec->comm, s->bucket[b].n);

        if (work > s->work_floats)
            s->work_floats = work;
    }
    *out = s;
    return MDS_OK;
}

void mds_grad_sync_destroy(struct mds_grad_sync *s)
{
    if (!s)
        return;
    free(s->bucket);
    free(s->bucket_of);
    free(s);
}

static int64_t slot_bytes(const struct mds_grad_sync *s)
{
    int64_t bytes = s->work_floats * (int64_t)sizeof(float);

    return (bytes + MDS_ARENA_ALIGN - 1) / MDS_ARENA_ALIGN * MDS_ARENA_ALIGN;
}

int64_t mds_grad_sync_bytes(const struct mds_grad_sync *s)
{
    return SLOTS * slot_bytes(s);
}

enum mds_rc mds_grad_sync_take(struct mds_grad_sync *s, struct mds_arena *arena)
{
    for (int i = 0; i < SLOTS; i++) {
        void *p = NULL;

        MDS_TRY(mds_arena_take(arena, MDS_MEM_COMM, slot_bytes(s), &p));
        s->work[i] = p;
    }
    return MDS_OK;
}

void mds_grad_sync_begin(struct mds_grad_sync *s, int last)
{
    s->last = last;
    for (int b = 0; b < s->buckets; b++)
        s->bucket[b].waiting = s->bucket[b].params;
}

static enum mds_rc send_bucket(struct mds_grad_sync *s, const struct bucket *b)
{
    struct mds_comm_req *req = &s->req[s->next];

    MDS_TRY(mds_comm_wait(req));
    MDS_TRY(mds_comm_all_reduce_start(s->spec.comm,
                                      mds_params_grads(s->spec.ps) + b->first, b->n,
                                      MDS_COMM_SUM, s->work[s->next], req));
    s->next = (s->next + 1) % SLOTS;
    return MDS_OK;
}

enum mds_rc mds_grad_sync_ready(void *ctx, int id)
{
    struct mds_grad_sync *s = ctx;
    struct bucket *b = &s->bucket[s->bucket_of[id]];

    if (b->waiting < 1)
        return mds_fail(MDS_EBUG, "gradient of %s: ready twice in one pass",
                        mds_params_get(s->spec.ps, id)->spec.name);
    b->waiting--;
    if (!s->last || !s->spec.overlap)
        return MDS_OK;
    if (b->waiting == 0)
        MDS_TRY(send_bucket(s, b));
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(mds_comm_poll(&s->req[i]));
    return MDS_OK;
}

enum mds_rc mds_grad_sync_finish(struct mds_grad_sync *s)
{
    for (int b = 0; b < s->buckets; b++) {
        if (s->bucket[b].waiting > 0)
            return mds_fail(MDS_EBUG, "gradient bucket %d: %d parameters not ready", b,
                            s->bucket[b].waiting);
        if (!s->spec.overlap)
            MDS_TRY(send_bucket(s, &s->bucket[b]));
    }
    for (int i = 0; i < SLOTS; i++)
        MDS_TRY(mds_comm_wait(&s->req[i]));
    return MDS_OK;
}
