/* The groups of ranks a rank belongs to.
 *
 *   tp       share every weight matrix (with sequence parallelism, the rows between)
 *   ulysses  share a sequence by tokens, and attention by heads
 *   ring     share a sequence by tokens; keys and values travel
 *   data     have the same weights: data x ring x ulysses; gradients are summed over it
 *   pipe     hold the stages of the model, in order
 *   ends     first and last stage, which share a tied embedding (size 1 elsewhere)
 *   world    everybody
 */
#ifndef MDS_PARALLEL_GROUPS_H
#define MDS_PARALLEL_GROUPS_H

#include "base/status.h"
#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "topo/grid.h"

struct mds_groups {
    struct mds_grid grid;
    struct mds_place place;
    int ulysses_size, ring_size;
    struct mds_comm *tp, *ulysses, *ring, *data, *pipe, *ends, *world;
};

/* The same as a list. */
enum mds_group {
    MDS_GROUP_TP,
    MDS_GROUP_ULYSSES,
    MDS_GROUP_RING,
    MDS_GROUP_DATA,
    MDS_GROUP_PIPE,
    MDS_GROUP_ENDS,
    MDS_GROUP_WORLD,
    MDS_GROUPS
};
void mds_groups_list(const struct mds_groups *g, const struct mds_comm *of[MDS_GROUPS]);

/* How their ranks lie; those of ends as if it were stages that are neighbours. */
void mds_groups_spans(const struct mds_groups *g, struct mds_span of[MDS_GROUPS]);

/* What NCCL takes of a GPU after what the groups were used for (comm/comm.h), where
 * nodes have per_node ranks. */
int64_t mds_groups_nccl_bytes(const struct mds_groups *g, int per_node,
                              struct mds_comm_channels n);

/* The groups of `rank` among `world` ranks that each have such a device (borrowed):
 * over NCCL between GPUs, else over MPI.  Collective over the world.  dev NULL: as seen
 * by that rank alone, without any transport. */
enum mds_rc mds_groups_create(const struct mds_parallel_config *c, int world, int rank,
                              struct mds_dev *dev, struct mds_groups *out);

/* A zeroed struct is fine. */
void mds_groups_fini(struct mds_groups *g);

/* Which replica of the model this rank belongs to: its share of the global batch. */
static inline int mds_groups_replica(const struct mds_groups *g)
{
    return g->place.dp;
}

static inline int mds_groups_first_stage(const struct mds_groups *g)
{
    return g->place.pp == 0;
}

static inline int mds_groups_last_stage(const struct mds_groups *g)
{
    return g->place.pp == g->grid.pp - 1;
}

#endif
