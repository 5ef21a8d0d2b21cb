/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu: collectives and messages in device memory, with one GPU per rank:
 *     mpiexec -n 4 tests/gpu/nccl
 * Small whole numbers are exact in every type and in every order of summing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "transport/world.h"
#include "device/device.h"
#include "kernels/half.h"

enum { MOST = 1 << 16 };

static struct mds_world world;
static struct mds_dev *dev;
static struct mds_comm *group;
static void *a, *b; /* of the device, MOST floats each */
static float host[MOST];
static int faults;

static void must(enum mds_rc rc, const char *what)
{
    if (rc == MDS_OK)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", world.rank, what, mds_fail_text());
    mds_world_abort(1);
}

/* Element i of rank r's input. */
static float value(int r, int64_t i)
{
    return (float)((r * 7 + i * 3) % 13);
}

static float sum_at(int64_t i)
{
    float sum = 0;

    for (int r = 0; r < world.ranks; r++)
        sum += value(r, i);
    return sum;
}

static void put(void *to, enum mdsk_dtype t, int64_t n)
{
    static uint16_t half[MOST];

    for (int64_t i = 0; i < n; i++) {
        host[i] = value(world.rank, i);
        half[i] = t == MDSK_BF16 ? mdsk_f32_to_bf16(host[i]) : mdsk_f32_to_f16(host[i]);
    }
    if (t == MDSK_F32)
        mds_dev_copy_in(dev, to, host, n * (int64_t)sizeof *host);
    else
        mds_dev_copy_in(dev, to, half, n * (int64_t)sizeof *half);
}

static void get(const void *from, enum mdsk_dtype t, int64_t n)
{
    static uint16_t half[MOST];

    if (t == MDSK_F32) {
        must(mds_dev_copy_out(dev, host, from, n * (int64_t)sizeof *host), "copy_out");
        return;
    }
    must(mds_dev_copy_out(dev, half, from, n * (int64_t)sizeof *half), "copy_out");
    for (int64_t i = 0; i < n; i++)
        host[i] = t == MDSK_BF16 ? mdsk_bf16_to_f32(half[i]) : mdsk_f16_to_f32(half[i]);
}

static void expect(const char *what, int64_t i, float got, float want)
{
    if (got == want)
        return;
    if (faults++ < 10)
        fprintf(stderr, "rank %d: %s: %g at %lld, not %g\n", world.rank, what,
                (double)got, (long long)i, (double)want);
}

static void test_sums(enum mdsk_dtype t)
{
    const int64_t n = 5000, per = 512;
    static float work[MOST];
    struct mds_comm_req req = {0};

    put(a, t, n);
    must(mds_comm_all_reduce(group, a, n, t, work), "all_reduce");
    get(a, t, n);
    for (int64_t i = 0; i < n; i++)
        expect("all_reduce", i, host[i], sum_at(i));
    put(a, t, per * world.ranks);
    must(mds_comm_reduce_scatter_start(group, a, b, per, t, work, &req), "start");
    must(mds_comm_wait(&req), "reduce_scatter");
    get(b, t, per);
    for (int64_t i = 0; i < per; i++)
        expect("reduce_scatter", i, host[i], sum_at(world.rank * per + i));
}

/* Shards of one length, and of different ones. */
static void test_shards(int64_t n)
{
    static float work[MOST];
    struct mds_comm_req req = {0};
    int64_t first, mine;

    mds_comm_shard(n, world.ranks, world.rank, &first, &mine);
    put(a, MDSK_F32, n);
    must(mds_comm_reduce_shards_start(group, a, n, work, &req), "reduce");
    must(mds_comm_wait(&req), "reduce");
    get(a, MDSK_F32, n);
    for (int64_t i = 0; i < n; i++)
        if (i >= first && i < first + mine)
            expect("reduce_shards", i, host[i], sum_at(i));
        else
            expect("reduce_shards, others' part", i, host[i], value(world.rank, i));
    must(mds_comm_gather_shards_start(group, a, n, sizeof(float), &req), "gather");
    while (!mds_comm_done(&req))
        must(mds_comm_poll(&req), "gather");
    get(a, MDSK_F32, n);
    for (int64_t i = 0; i < n; i++)
        expect("gather_shards", i, host[i], sum_at(i));
}

static void test_copies(void)
{
    const int64_t n = 1000, bytes = n * (int64_t)sizeof(float);

    put(a, MDSK_F32, n);
    must(mds_comm_all_gather(group, a, b, bytes), "all_gather");
    get(b, MDSK_F32, n * world.ranks);
    for (int64_t i = 0; i < n * world.ranks; i++)
        expect("all_gather", i, host[i], value((int)(i / n), i % n));
    put(a, MDSK_F32, n * world.ranks);
    must(mds_comm_all_to_all(group, a, b, bytes), "all_to_all");
    get(b, MDSK_F32, n * world.ranks);
    for (int64_t i = 0; i < n * world.ranks; i++)
        expect("all_to_all", i, host[i], value((int)(i / n), world.rank * n + i % n));
    put(a, MDSK_F32, n);
    must(mds_comm_broadcast(group, a, bytes, world.ranks - 1), "broadcast");
    get(a, MDSK_F32, n);
    for (int64_t i = 0; i < n; i++)
        expect("broadcast", i, host[i], value(world.ranks - 1, i));
}

/* Rank a sends rank b (a + 2 b) % 3 * 500 numbers, from its own number b on. */
static void test_exchange(void)
{
    const int64_t n = 1000;
    struct mds_comm_block send[64] = {{0}}, recv[64] = {{0}};

    for (int p = 0; p < world.ranks; p++) {
        send[p] = (struct mds_comm_block){4 * p, (world.rank + 2 * p) % 3 * 2000};
        recv[p] = (struct mds_comm_block){4 * n * p, (p + 2 * world.rank) % 3 * 2000};
    }
    put(a, MDSK_F32, n + world.ranks);
    must(mds_comm_exchange(group, 1, a, send, b, recv), "exchange");
    get(b, MDSK_F32, n * world.ranks);
    for (int64_t p = 0; p < world.ranks; p++)
        for (int64_t i = 0; p != world.rank && i < recv[p].bytes / 4; i++)
            expect("exchange", i, host[p * n + i], value((int)p, world.rank + i));
}

/* Messages with both tags at once, in an order of sends and receives that would
 * deadlock on a single communicator, and buffers that are reused before the host
 * waits. */
static void test_lanes(void)
{
    const int64_t n = 1 << 15, bytes = n * (int64_t)sizeof(float);
    int next = (world.rank + 1) % world.ranks;
    int before = (world.rank + world.ranks - 1) % world.ranks;
    struct mds_comm_p2p in0 = {0}, out0 = {0}, in1 = {0}, out1 = {0};

    must(mds_comm_add_lane(group, 0, 1), "lane");
    must(mds_comm_add_lane(group, 1, -1), "lane");
    put(a, MDSK_F32, n);
    must(mds_comm_send_start(group, a, bytes, next, 0, &out0), "send");
    must(mds_comm_recv_start(group, b, bytes, before, 0, &in0), "recv");
    must(mds_comm_p2p_wait(&in0), "recv");
    must(mds_comm_p2p_wait(&out0), "send");
    must(mds_comm_recv_start(group, a, bytes, next, 1, &in1), "recv");
    must(mds_comm_send_start(group, b, bytes, before, 1, &out1), "send");
    must(mds_comm_p2p_wait(&out1), "send");
    must(mds_comm_p2p_wait(&in1), "recv");
    get(b, MDSK_F32, n);
    for (int64_t i = 0; i < n; i++)
        expect("from before", i, host[i], value(before, i));
    get(a, MDSK_F32, n);
    for (int64_t i = 0; i < n; i++)
        expect("there and back", i, host[i], value(world.rank, i));
}

/* Messages in host memory still work between those in device memory. */
static void test_host(void)
{
    static float work[MOST];
    const int64_t n = 3000;
    double one = 1;

    put(a, MDSK_F32, n);
    must(mds_comm_all_reduce(group, host, n, MDSK_F32, work), "host all_reduce");
    for (int64_t i = 0; i < n; i++)
        expect("host all_reduce", i, host[i], sum_at(i));
    must(mds_comm_all_reduce_f64(group, &one, 1, MDS_COMM_SUM), "f64");
    expect("all_reduce_f64", 0, (float)one, (float)world.ranks);
    must(mds_comm_barrier(group), "barrier");
}

/* A group without mds_comm_add_collectives takes only host memory, and says so. */
static void test_bare(const int *ranks)
{
    struct mds_comm *bare;
    double sum = 1;

    must(mds_comm_create_nccl(ranks, world.ranks, "bare", dev, &bare), "group");
    must(mds_comm_all_reduce_f64(bare, &sum, 1, MDS_COMM_SUM), "all_reduce_f64");
    expect("all_reduce_f64", 0, (float)sum, (float)world.ranks);
    if (world.ranks > 1)
        expect("collectives refused", 0,
               (float)mds_comm_all_reduce(bare, a, 1, MDSK_F32, NULL), MDS_EBUG);
    mds_comm_destroy(bare);
}

int main(void)
{
    struct mds_dev_spec spec = {.name = "cuda"};
    int ranks[64];

    must(mds_world_init(&world), "MPI");
    spec.local_rank = world.local_rank;
    for (int i = 0; i < world.ranks && i < 64; i++)
        ranks[i] = i;
    must(mds_dev_create(&spec, &dev), "device");
    must(mds_dev_alloc(dev, MOST * (int64_t)sizeof(float), &a), "memory");
    must(mds_dev_alloc(dev, MOST * (int64_t)sizeof(float), &b), "memory");
    test_bare(ranks);
    must(mds_comm_create_nccl(ranks, world.ranks, "world", dev, &group), "group");
    must(mds_comm_add_collectives(group), "collectives");
    test_sums(MDSK_F32);
    test_sums(MDSK_BF16);
    test_sums(MDSK_F16);
    test_shards(64 * world.ranks * 10);
    test_shards(5001);
    test_shards(70);
    test_copies();
    test_exchange();
    test_host();
    if (world.ranks > 1)
        test_lanes();
    if (world.rank == 0)
        printf("%s on %d ranks\n", mds_dev_describe(dev), world.ranks);
    mds_comm_destroy(group);
    mds_dev_free(dev, a, 0);
    mds_dev_free(dev, b, 0);
    mds_dev_destroy(dev);
    printf("%s %d - collectives of rank %d\n", faults ? "not ok" : "ok", world.rank + 1,
           world.rank);
    mds_world_fini(&world);
    return faults != 0;
}
