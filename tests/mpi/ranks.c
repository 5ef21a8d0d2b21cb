/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/mpi/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct mds_world world;
struct mds_comm *all;

static uint64_t hash = 0xcbf29ce484222325u;
static int checks, failures;

void quit(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", world.rank, what, mds_fail_text());
    mds_world_abort(1);
}

void must(enum mds_rc rc, const char *what)
{
    if (rc)
        quit(what);
}

void check(int bad, const char *name)
{
    double n = bad;

    must(mds_comm_all_reduce_f64(all, &n, 1, MDS_COMM_SUM), name);
    checks++;
    failures += n > 0;
    if (world.rank == 0)
        printf("%sok %d - %s\n", n > 0 ? "not " : "", checks, name);
}

void reduce_scatter(struct mds_comm *c, const void *in, void *out, int64_t per_rank,
                    enum mdsk_dtype t, void *work)
{
    struct mds_comm_req req = {0};

    must(mds_comm_reduce_scatter_start(c, in, out, per_rank, t, work, &req), "start");
    must(mds_comm_wait(&req), "reduce_scatter");
}

void nap(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

float number(int r, int64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u + (unsigned)r * 40503u + 12345u);

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)((double)x / 4294967296.0 - 0.3) * (float)(1 << (x % 9));
}

void fill(float *buf, int r, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        buf[i] = number(r, i);
}

float expected(int64_t i)
{
    float acc = number(0, i);

    for (int r = 1; r < world.ranks; r++)
        acc += number(r, i);
    return acc;
}

void hash_bytes(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
}

int wrong(const float *buf, int64_t i0, int64_t n)
{
    int bad = 0;

    for (int64_t i = 0; i < n; i++) {
        float want = expected(i0 + i);
        double sum = 0, size = 0;

        for (int r = 0; r < world.ranks; r++) {
            sum += (double)number(r, i0 + i);
            size += fabs((double)number(r, i0 + i));
        }
        bad += memcmp(&want, &buf[i], sizeof want) != 0;
        bad += fabs((double)buf[i] - sum) > 1e-6 * size;
    }
    hash_bytes(buf, (size_t)n * sizeof *buf);
    return bad;
}

void ranks_init(void)
{
    int ranks[64];

    must(mds_world_init(&world), "init");
    mds_comm_set_timeout_s(30);
    for (int i = 0; i < world.ranks && i < 64; i++)
        ranks[i] = i;
    must(mds_comm_create_mpi(ranks, world.ranks, "all", &all), "create");
}

int ranks_fini(void)
{
    if (world.rank == 0 && checks > 0)
        printf("1..%d\nhash %016llx\n", checks, (unsigned long long)hash);
    mds_comm_destroy(all);
    mds_world_fini(&world);
    return failures > 0;
}
