/* SPDX-License-Identifier: BSD-3-Clause */
/* comm: two ranks, of which the last stops (SIGSTOP) inside of NCCL.  CUDA and NCCL are
 * stand-ins: calls that connect ranks are a barrier of MPI, which has no limit of
 * time, and nothing travels.
 *
 * late init|send|sum|close   where it stops late nowhere               status 42: all
 * went well, and no timer was left running */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "transport/nccl_calls.h"
#include "device/device.h"
#include "device/profile.h"
#include "tests/mpi/ranks.h"
#include "tests/unit/fake_cuda.h"

static const char *where = "";
static MPI_Comm everyone;
static float gpu[64]; /* its memory */
static cudaStream_t compute;

/* As a call of NCCL that connects ranks: it returns when all have made it.  Rank 1 may
 * stop in it. */
static ncclResult_t wait_for_all(const char *here)
{
    if (world.rank == 1 && strcmp(where, here) == 0)
        raise(SIGSTOP);
    MPI_Barrier(everyone);
    return ncclSuccess;
}

/* ---- NCCL ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    (void)n, (void)id, (void)rank, (void)config;
    *comm = (ncclComm_t)gpu;
    return wait_for_all("init");
}

ncclResult_t ncclSend(const void *buf, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)buf, (void)n, (void)type, (void)peer, (void)comm, (void)stream;
    return wait_for_all("send");
}

ncclResult_t ncclRecv(void *buf, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return ncclSend(buf, n, type, peer, comm, stream);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)in, (void)out, (void)n, (void)type, (void)op, (void)comm, (void)stream;
    return wait_for_all("sum");
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    (void)comm;
    return wait_for_all("close");
}

/* What is not called here. */

static ncclResult_t never(void)
{
    quit("an unexpected NCCL call");
    return ncclSystemError;
}

ncclResult_t ncclGroupStart(void), ncclGroupEnd(void); /* nccl.h has no "void" */

ncclResult_t ncclGroupStart(void)
{
    return never();
}

ncclResult_t ncclGroupEnd(void)
{
    return never();
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    return never();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *code)
{
    (void)comm, (void)code;
    return never();
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    (void)in, (void)out, (void)n, (void)type, (void)comm, (void)stream;
    return never();
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)root;
    return ncclAllGather(in, out, n, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)op;
    return ncclAllGather(in, out, n, type, comm, stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)op, (void)root;
    return ncclAllGather(in, out, n, type, comm, stream);
}

const char *ncclGetErrorString(ncclResult_t code)
{
    (void)code;
    return "";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

struct mds_nccl mds_nccl = {MDS_NCCL_CALLS(MDSK_LIBRARY_LINKED)};

enum mds_rc mds_nccl_open(void)
{
    return MDS_OK;
}

/* ---- the device ---- */

int mds_dev_owns(const struct mds_dev *dev, const void *p)
{
    (void)dev;
    return p == gpu;
}

void *mds_dev_stream(const struct mds_dev *dev)
{
    (void)dev;
    return compute;
}

void mds_dev_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    (void)dev;
    memcpy(to, from, (size_t)bytes);
}

void mds_dev_set_watch(struct mds_dev *dev, mds_dev_watch *watch)
{
    (void)dev, (void)watch;
}

void mds_profile_begin(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                       struct mdsk_cost cost, void *stream)
{
    (void)dev, (void)kind, (void)member, (void)cost, (void)stream;
}

void mds_profile_end(struct mds_dev *dev, enum mds_profile_kind kind, void *stream)
{
    (void)dev, (void)kind, (void)stream;
}

void mds_range_begin(const char *name)
{
    (void)name;
}

void mds_range_end(void)
{
}

int main(int argc, char **argv)
{
    const int ranks[] = {0, 1};
    struct mds_comm *c = NULL;
    float work[8];

    where = argc > 1 ? argv[1] : "";
    ranks_init();
    mds_comm_set_timeout_s(0.5);
    fake_cuda_start();
    cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
    MPI_Comm_dup(MPI_COMM_WORLD, &everyone);
    must(mds_comm_create_nccl(ranks, 2, "pair", (struct mds_dev *)gpu, &c), "create");
    must(mds_comm_add_collectives(c), "collectives");
    must(mds_comm_add_lane(c, 3, 1), "a lane");
    must(mds_comm_all_reduce(c, gpu, 8, MDSK_F32, work), "a sum");
    mds_comm_destroy(c);
    nap(2000);
    if (world.rank == 0)
        mds_world_abort(42);
    nap(30000);
}
