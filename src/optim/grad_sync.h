/* The sum of gradients over data-parallel ranks, in buckets that travel while backward
 * still computes the ones before. */
#ifndef MDS_OPTIM_GRAD_SYNC_H
#define MDS_OPTIM_GRAD_SYNC_H

#include "comm/comm.h"
#include "device/arena.h"
#include "tensor/params.h"

struct mds_grad_sync;

struct mds_grad_sync_spec {
    struct mds_params *ps; /* borrowed; buffers need not be bound yet */
    struct mds_comm *comm; /* borrowed: the ranks that share these weights */
    int64_t bucket_bytes;  /* a bucket closes once it holds this much */
    int overlap;           /* 0: everything is sent in finish */
};

enum mds_rc mds_grad_sync_create(const struct mds_grad_sync_spec *spec,
                                 struct mds_grad_sync **out);
void mds_grad_sync_destroy(struct mds_grad_sync *s);

/* Bytes of working memory, and taking them (tag comm). */
int64_t mds_grad_sync_bytes(const struct mds_grad_sync *s);
enum mds_rc mds_grad_sync_take(struct mds_grad_sync *s, struct mds_arena *arena);

/* A backward pass begins; in the last one of a step its gradients are to be summed. */
void mds_grad_sync_begin(struct mds_grad_sync *s, int last);

/* The hook for mds_params_hook: ctx is the mds_grad_sync. */
enum mds_rc mds_grad_sync_ready(void *ctx, int id);

/* Block until all gradients are sums.  Every parameter must have been reported ready.
 */
enum mds_rc mds_grad_sync_finish(struct mds_grad_sync *s);

#endif
