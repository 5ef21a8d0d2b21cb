/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes in order, each checked. */
#include "block/build.h"
#include "block/passes.h"

/* The storage of parameters is told when a block begins and ends. */
static void add_hooks(struct mds_step_list *p, int backward, int sum_norms)
{
    struct mds_step begin = mds_step_of(MDS_STEP_GRAD_BEGIN, -1);
    struct mds_step acquire = mds_step_of(MDS_STEP_ACQUIRE, -1);

    if (backward)
        mds_insert_step(p, 0, &begin);
    mds_insert_step(p, 0, &acquire);
    if (backward && sum_norms)
        mds_add_step(p, MDS_STEP_SUM_NORMS, -1);
    if (backward)
        mds_add_step(p, MDS_STEP_GRAD_READY, -1);
    mds_add_step(p, MDS_STEP_RELEASE, -1);
}

/* From what is saved on, of one list. */
static enum mds_rc finish(const struct mds_block_policy *policy, const char *what,
                          struct mds_step_list *p)
{
    int backward = p->d >= 0;

    MDS_TRY(mds_block_check(p, what));
    mds_block_fuse(p, policy->gelu);
    if (!backward && mds_list_is_tiled(p))
        mds_block_end_in_argument(p);
    if (policy->fp8)
        mds_block_magnitudes(p);
    add_hooks(p, backward, policy->sum_norms);
    if (!backward && policy->away)
        mds_block_put_input(p);
    if (!backward && policy->o_away && policy->training)
        mds_block_put_o(p);
    if (backward && policy->fetch)
        mds_block_fetch_input(p);
    if (backward && policy->o_fetch)
        mds_block_fetch_o(p);
    if (policy->chunked)
        mds_block_chunks(p, policy->chunked);
    if (p->groups > 1)
        mds_block_groups(p, policy->group_weights);
    if (mds_list_is_tiled(p))
        mds_block_tiles(p);
    mds_block_messages(p, !policy->fp8);
    MDS_TRY(mds_block_check(p, what));
    p->saved_bytes = policy->slot_bytes;
    mds_block_place(p);
    return mds_block_check(p, what);
}

enum mds_rc mds_block_compile(const struct mds_block_policy *policy,
                              struct mds_step_list *p, struct mds_step_list *b)
{
    struct mds_step_list joint;

    p->forward = p->steps;
    MDS_TRY(mds_block_check(p, "declaration of a block"));
    mds_block_exchange(p, &policy->ranks);
    MDS_TRY(mds_block_check(p, "exchanges of a block"));
    joint = *p;
    mds_block_differentiate(&joint);
    MDS_TRY(mds_block_check(&joint, "gradients of a block"));
    if (policy->fp8) {
        mds_block_fp8(&joint, policy->training ? policy->keep : 0, policy->fp8);
        MDS_TRY(mds_block_check(&joint, "FP8 in a block"));
    }
    if (policy->training)
        mds_block_save(&joint, policy->keep, policy->away, policy->o_away, p, b);
    else {
        *p = joint;
        mds_block_forward_only(p);
    }
    MDS_TRY(finish(policy, "forward of a block", p));
    if (!policy->training)
        return MDS_OK;
    MDS_TRY(finish(policy, "backward of a block", b));
    if (p->saved_bytes != b->saved_bytes || p->kept_bytes != b->kept_bytes)
        return mds_fail(MDS_EBUG, "a block saves %lld bytes and reads %lld",
                        (long long)p->kept_bytes, (long long)b->kept_bytes);
    return MDS_OK;
}
