/* SPDX-License-Identifier: BSD-3-Clause */
/* comm: shards, 16-bit sums, exchanges and messages in flight, and their counts, on as
 * many ranks as it is started with. */
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/mpi/ranks.h"

enum { MOST = 5000, RANKS = 64 };

static const int64_t counts[] = {0, 1, 63, 64, 65, 128, 1000, 4096, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static float work[RANKS * MOST];

static void test_slice_arithmetic(void)
{
    static const struct {
        int64_t count;
        int size, rank;
        int64_t first, n;
    } known[] = {
        {0, 4, 0, 0, 0},        {1, 4, 0, 0, 1},
        {1, 4, 3, 1, 0},        {1000, 4, 0, 0, 256},
        {1000, 4, 3, 768, 232}, {300, 4, 2, 256, 44},
        {300, 4, 3, 300, 0},    {512, 2, 1, 256, 256},
        {7, 1, 0, 0, 7},        {1L << 40, 3, 2, 733007751936, 366503875840},
    };
    int bad = 0;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int64_t first, n;

        mds_comm_shard(known[i].count, known[i].size, known[i].rank, &first, &n);
        bad += first != known[i].first || n != known[i].n;
    }
    for (int64_t count = 0; count < 700; count++) {
        int64_t end = 0;

        for (int r = 0; r < 7; r++) {
            int64_t first, n;

            mds_comm_shard(count, 7, r, &first, &n);
            bad += first != end || n < 0 || (n % 64 != 0 && first + n != count);
            end = first + n;
        }
        bad += end != count;
    }
    check(bad, "shards follow each other");
}

static int shards_of(int64_t count)
{
    static float buf[MOST + 1];
    struct mds_comm_req req = {0};
    int64_t first, n;
    int bad = 0;

    fill(buf, world.rank, count);
    buf[count] = 77;
    must(mds_comm_reduce_shards_start(all, buf, count, work, &req), "reduce");
    must(mds_comm_wait(&req), "wait");
    mds_comm_shard(count, world.ranks, world.rank, &first, &n);
    for (int64_t i = 0; i < count; i++)
        if (i < first || i >= first + n)
            bad += buf[i] != number(world.rank, i);
    must(mds_comm_gather_shards_start(all, buf, count, sizeof *buf, &req), "gather");
    must(mds_comm_wait(&req), "wait");
    return bad + wrong(buf, 0, count) + (buf[count] != 77);
}

static void test_shards(const char *name)
{
    int bad = 0;

    for (int i = 0; i < COUNTS; i++)
        bad += shards_of(counts[i]);
    check(bad, name);
}

static uint16_t narrow(float x, enum mdsk_dtype t)
{
    return t == MDSK_BF16 ? mdsk_f32_to_bf16(x) : mdsk_f32_to_f16(x);
}

static float widen(uint16_t x, enum mdsk_dtype t)
{
    return t == MDSK_BF16 ? mdsk_bf16_to_f32(x) : mdsk_f16_to_f32(x);
}

static void fill16(uint16_t *buf, int r, int64_t n, enum mdsk_dtype t)
{
    for (int64_t i = 0; i < n; i++)
        buf[i] = narrow(number(r, i), t);
}

/* Added in float, rounded once. */
static int wrong16(const uint16_t *buf, int64_t i0, int64_t n, enum mdsk_dtype t)
{
    int bad = 0;

    for (int64_t i = 0; i < n; i++) {
        float acc = widen(narrow(number(0, i0 + i), t), t);

        for (int r = 1; r < world.ranks; r++)
            acc += widen(narrow(number(r, i0 + i), t), t);
        bad += buf[i] != narrow(acc, t);
    }
    hash_bytes(buf, (size_t)n * sizeof *buf);
    return bad;
}

static int reduce16(int64_t n, enum mdsk_dtype t)
{
    static uint16_t buf[RANKS * MOST];
    int64_t bytes = mds_comm_all_reduce_work(all, n, t);
    uint16_t *own = calloc((size_t)bytes + 1, 1);
    uint16_t out[MOST];
    int bad;

    fill16(buf, world.rank, n, t);
    must(mds_comm_all_reduce(all, buf, n, t, own), "all_reduce");
    bad = wrong16(buf, 0, n, t);
    fill16(buf, world.rank, n * world.ranks, t);
    reduce_scatter(all, buf, out, n, t, work);
    bad += wrong16(out, world.rank * n, n, t);
    free(own);
    return bad;
}

static void test_16_bits(enum mdsk_dtype t, const char *name)
{
    int bad = 0;

    for (int i = 0; i < COUNTS; i++)
        bad += reduce16(counts[i], t);
    check(bad, name);
}

/* Block p of rank r: number(r, p * n + i). */
static int exchange(int64_t n)
{
    static float in[RANKS * MOST], out[RANKS * MOST];
    int bad = 0;

    fill(in, world.rank, n * world.ranks);
    must(mds_comm_all_to_all(all, in, out, n * (int64_t)sizeof *in), "all_to_all");
    for (int p = 0; p < world.ranks; p++)
        for (int64_t i = 0; i < n; i++)
            bad += out[p * n + i] != number(p, world.rank * n + i);
    return bad;
}

static void test_all_to_all(const char *name)
{
    int bad = 0;

    for (int i = 0; i < COUNTS; i++)
        bad += exchange(counts[i]);
    check(bad, name);
}

enum { FLOATS = 1500 };

/* What is in flight at once, and its buffers. */
struct flight {
    struct mds_comm_req reduce, gather, scatter, share, swap;
    float grads[FLOATS], params[FLOATS], part[300];
    float in[RANKS * 300], out[RANKS * 300], shared[RANKS * 300], swapped[RANKS * 300];
    float work[3][RANKS * FLOATS];
};

static void take_off(struct flight *f)
{
    const int64_t bytes = 300 * sizeof(float);
    int64_t first, n;

    fill(f->grads, world.rank, FLOATS);
    fill(f->in, world.rank, 300 * world.ranks);
    memset(f->params, 0, sizeof f->params);
    mds_comm_shard(FLOATS, world.ranks, world.rank, &first, &n);
    for (int64_t i = first; i < first + n; i++)
        f->params[i] = number(99, i);
    must(mds_comm_reduce_shards_start(all, f->grads, FLOATS, f->work[0], &f->reduce),
         "reduce_shards");
    must(mds_comm_gather_shards_start(all, f->params, FLOATS, 4, &f->gather),
         "gather_shards");
    must(mds_comm_reduce_scatter_start(all, f->in, f->part, 300, MDSK_F32, f->work[1],
                                       &f->scatter),
         "reduce_scatter");
    must(mds_comm_all_gather_start(all, f->in, f->shared, bytes, &f->share), "gather");
    must(mds_comm_all_to_all_start(all, f->in, f->swapped, bytes, &f->swap), "swap");
}

static int land(struct flight *f, int turn)
{
    struct mds_comm_req *reqs[] = {&f->reduce, &f->gather, &f->scatter, &f->share,
                                   &f->swap};
    int64_t first, n;
    int bad = 0;

    for (int i = 0; i < 5; i++)
        must(mds_comm_wait(reqs[(i * 2 + turn + world.rank) % 5]), "wait");
    mds_comm_shard(FLOATS, world.ranks, world.rank, &first, &n);
    bad += wrong(f->grads + first, first, n);
    bad += wrong(f->part, world.rank * 300, 300);
    for (int64_t i = 0; i < FLOATS; i++)
        bad += f->params[i] != number(99, i);
    for (int p = 0; p < world.ranks; p++)
        for (int64_t i = 0; i < 300; i++) {
            bad += f->shared[p * 300 + i] != number(p, i);
            bad += f->swapped[p * 300 + i] != number(p, world.rank * 300 + i);
        }
    return bad;
}

static void test_flights(const char *name)
{
    static struct flight f[4];
    int bad = 0;

    for (int i = 0; i < 4; i++) {
        nap((world.rank + i) % world.ranks);
        take_off(&f[i]);
    }
    for (int i = 0; i < 4; i++)
        bad += land(&f[i], i);
    check(bad, name);
}

enum { IN_FLIGHT = 12, LONGEST = 20000 };

/* Around the ring: several at once, of different lengths, two to a tag. */
static void test_messages(const char *name)
{
    static float out[IN_FLIGHT][LONGEST], in[IN_FLIGHT][LONGEST];
    struct mds_comm_p2p send[IN_FLIGHT] = {0}, recv[IN_FLIGHT] = {0};
    int next = (world.rank + 1) % world.ranks, bad = 0;
    int prev = (world.rank + world.ranks - 1) % world.ranks;
    double one = 1;

    for (int i = 0; i < IN_FLIGHT; i++) {
        int64_t n = (i * 1867 + 1) % LONGEST, tag = i / 2;

        fill(out[i], world.rank + i, n);
        memset(in[i], 0, sizeof in[i]);
        if (world.rank % 2)
            nap(1);
        must(mds_comm_recv_start(all, in[i], n * 4, prev, (int)tag, &recv[i]), "recv");
        must(mds_comm_send_start(all, out[i], n * 4, next, (int)tag, &send[i]), "send");
    }
    must(mds_comm_all_reduce_f64(all, &one, 1, MDS_COMM_SUM), "overtake");
    bad += one != world.ranks;
    for (int i = IN_FLIGHT - 1; i >= 0; i--) {
        int64_t n = (i * 1867 + 1) % LONGEST;

        must(mds_comm_p2p_wait(&recv[i]), "wait");
        must(mds_comm_p2p_wait(&send[i]), "wait");
        for (int64_t k = 0; k < n; k++)
            bad += in[i][k] != number(prev + i, k);
        bad += in[i][n] != 0;
    }
    check(bad, name);
}

static void test_the_highest_tag(void)
{
    struct mds_comm_p2p m = {0};
    int x = world.rank, bad = 0;

    if (world.rank == 0)
        must(mds_comm_recv_start(all, &x, sizeof x, 1, MDS_COMM_P2P_TAGS - 1, &m),
             "recv");
    if (world.rank == 1)
        must(mds_comm_send_start(all, &x, sizeof x, 0, MDS_COMM_P2P_TAGS - 1, &m),
             "send");
    must(mds_comm_p2p_wait(&m), "wait");
    bad = world.rank == 0 && x != 1;
    check(bad, "a message of the highest tag");
}

static void use_everything(struct mds_comm *c, float *a, float *b, float *w)
{
    int next = (world.rank + 1) % world.ranks;
    int prev = (world.rank + world.ranks - 1) % world.ranks;
    struct mds_comm_block to[RANKS] = {{0}}, from[RANKS] = {{0}};
    struct mds_comm_p2p out = {0}, in = {0};
    struct mds_comm_req req = {0};
    double d[3] = {0};

    to[next].bytes = from[prev].bytes = 17;
    must(mds_comm_all_reduce(c, a, 1001, MDSK_F32, w), "all_reduce");
    must(mds_comm_all_reduce(c, a, 77, MDSK_BF16, w), "typed");
    must(mds_comm_reduce_shards_start(c, a, 999, w, &req), "shards");
    must(mds_comm_wait(&req), "wait");
    must(mds_comm_gather_shards_start(c, a, 999, 2, &req), "shards");
    must(mds_comm_wait(&req), "wait");
    reduce_scatter(c, a, b, 10, MDSK_F32, w);
    must(mds_comm_all_gather(c, a, b, 12), "all_gather");
    must(mds_comm_all_to_all(c, a, b, 20), "all_to_all");
    must(mds_comm_exchange(c, 1, a, to, b, from), "exchange");
    must(mds_comm_broadcast(c, a, 333, 0), "broadcast");
    must(mds_comm_all_reduce_f64(c, d, 3, MDS_COMM_MAX), "f64");
    must(mds_comm_barrier(c), "barrier");
    if (world.ranks == 1)
        return;
    must(mds_comm_send_start(c, a, 100, next, 1, &out), "send");
    must(mds_comm_recv_start(c, b, 100, prev, 1, &in), "recv");
    must(mds_comm_p2p_wait(&out), "wait");
    must(mds_comm_p2p_wait(&in), "wait");
}

/* Payload and wire bytes of use_everything on n ranks, by formula. */
static int differs_from_formula(const struct mds_comm_stats *s, int64_t n)
{
    const struct mds_comm_count want[MDS_COMM_KINDS] = {
        [MDS_COMM_ALL_REDUCE] = {2, 4004 + 154,
                                 2 * (n - 1) * 4004 / n + 2 * (n - 1) * 154 / n},
        [MDS_COMM_REDUCE_SCATTER] = {2, 3996 + 40 * n,
                                     (n - 1) * 3996 / n + (n - 1) * 40},
        [MDS_COMM_ALL_GATHER] = {2, 1998 + 12 * n, (n - 1) * 1998 / n + (n - 1) * 12},
        [MDS_COMM_ALL_TO_ALL] = {1, 20 * n, (n - 1) * 20},
        [MDS_COMM_EXCHANGE] = {1, 17, 17},
        [MDS_COMM_BROADCAST] = {1, 333, (n - 1) * 333 / n},
        [MDS_COMM_BARRIER] = {1, 0, (n - 1) * 8},
        [MDS_COMM_F64] = {1, 24, (n - 1) * 24},
        [MDS_COMM_SEND] = {1, 100, 100},
        [MDS_COMM_RECV] = {1, 100, 0},
    };
    int64_t calls = 0, wire = 0;

    for (int k = 0; k < MDS_COMM_KINDS; k++) {
        calls += want[k].calls;
        wire += want[k].wire_bytes;
    }
    return memcmp(want, s->of, sizeof want) != 0 || s->calls != calls ||
           s->wire_bytes != wire;
}

static void test_counts(void)
{
    static float a[MOST], b[MOST];
    int members[RANKS], bad = 0;
    struct mds_comm *mpi, *dry;

    for (int i = 0; i < world.ranks; i++)
        members[i] = i;
    must(mds_comm_create_mpi(members, world.ranks, "counted", &mpi), "create");
    must(mds_comm_create_dry(world.rank, world.ranks, "dry", &dry), "create dry");
    use_everything(mpi, a, b, work);
    /* addresses that fault when touched */
    use_everything(dry, (float *)16, (float *)32, (float *)16);
    bad += memcmp(mds_comm_stats(mpi)->of, mds_comm_stats(dry)->of,
                  sizeof mds_comm_stats(mpi)->of) != 0;
    if (world.ranks > 1)
        bad += differs_from_formula(mds_comm_stats(mpi), world.ranks);
    else
        bad += mds_comm_stats(mpi)->calls != 0;
    bad += strcmp(mds_comm_tag(mpi), "counted") != 0;
    bad += strcmp(mds_comm_kind_name(MDS_COMM_ALL_TO_ALL), "all_to_all") != 0;
    mds_comm_destroy(mpi);
    mds_comm_destroy(dry);
    check(bad, "mpi and dry count the same, by kind and as the formulas say");
}

static void test_wrong_arguments(void)
{
    struct mds_comm_p2p m = {0};
    struct mds_comm_req busy = {.comm = all}, req = {0};
    int peer = (world.rank + 1) % world.ranks, bad = 0;
    float x[256] = {0};

    bad += mds_comm_send_start(all, x, 4, world.rank, 0, &m) != MDS_EBUG;
    bad += mds_comm_send_start(all, x, 4, world.ranks, 0, &m) != MDS_EBUG;
    bad += mds_comm_send_start(all, x, 4, peer, MDS_COMM_P2P_TAGS, &m) != MDS_EBUG;
    bad += mds_comm_recv_start(all, NULL, 4, peer, 0, &m) != MDS_EBUG;
    bad += mds_comm_all_to_all(all, x, x, 4) != MDS_EBUG;
    bad += mds_comm_gather_shards_start(all, x, 4, 4, &busy) != MDS_EBUG;
    bad += mds_comm_reduce_shards_start(all, x, -1, x, &req) != MDS_EBUG;
    bad += mds_comm_all_reduce(all, x, 4, MDSK_I32, x) != MDS_EBUG;
    bad += strstr(mds_fail_text(), "requests.c:") == NULL;
    check(bad, "wrong arguments are refused");
}

static void run_checks(void)
{
    test_shards("reduce_shards and gather_shards");
    test_16_bits(MDSK_BF16, "bf16 sums");
    test_16_bits(MDSK_F16, "f16 sums");
    test_all_to_all("all_to_all");
    test_flights("20 requests of all kinds in flight");
    if (world.ranks > 1)
        test_messages("messages around the ring");
}

int main(void)
{
    ranks_init();
    test_slice_arithmetic();
    run_checks();
    mds_comm_set_segment(64);
    run_checks();
    mds_comm_set_check(1);
    run_checks();
    mds_comm_set_check(0);
    if (world.ranks > 1)
        test_the_highest_tag();
    test_counts();
    test_wrong_arguments();
    return ranks_fini();
}
