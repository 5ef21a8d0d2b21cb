/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of the algorithms that cuBLASLt suggests runs a product: the one that takes the
 * least time, with the operands of the day.
 *
 * There are two races.  At a plan's first use the GPU is cool and its clock high, and
 * what a few runs take is no more than a hint.  Under load it is its power that is
 * limited: the clock is a fifth lower, and the lower the more data an algorithm moves.
 * So those that were close in the first race, its winner and what cuBLASLt thinks most
 * of, run again once the GPU is hot, each for long enough to have the clock that it
 * leaves itself: 25 ms are too short for that, 80 will do. */
#include "kernels/cuda/product.h"

/* A later entrant beats an earlier one if it takes `clearly` times as long; there is
 * noise.  Those that take up to `close` times as long as the winner may run again. */
struct rules {
    float lap_ms; /* of each entrant; 0: a few runs */
    float clearly, close;
};

static const struct rules cold = {0, 0.95f, 1.12f};
static const struct rules hot = {120, 1, 0};

static const double hot_after = 1;   /* seconds */
static const float worth_it = 0.05f; /* ms: less does not fill a GPU */

/* Milliseconds of one piece of work, once warm. */
float mdsk_cuda_time(cudaStream_t stream, mdsk_cuda_work_fn *work, const void *what,
                     int times)
{
    cudaEvent_t begin, end;
    float ms = -1;
    int err = 0;

    if (cudaEventCreate(&begin) != cudaSuccess)
        return -1;
    if (cudaEventCreate(&end) != cudaSuccess)
        goto destroy_begin;
    for (int i = 0; !err && i < (times + 3) / 4; i++)
        err = work(stream, what);
    cudaEventRecord(begin, stream);
    for (int i = 0; !err && i < times; i++)
        err = work(stream, what);
    cudaEventRecord(end, stream);
    if (cudaEventSynchronize(end) != cudaSuccess || err ||
        cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
        ms = -1;
    cudaEventDestroy(end);
destroy_begin:
    cudaEventDestroy(begin);
    return ms / (float)times;
}

struct product {
    const struct mdsk_cuda_plan *plan;
    const struct mdsk_cuda_operands *operands;
};

static int work_product(cudaStream_t stream, const void *what)
{
    const struct product *p = what;

    return mdsk_cuda_multiply(stream, p->plan, p->operands);
}

/* How often a product runs in a lap: no more than CUDA takes into its queue. */
static int runs_of(const struct rules *r, const struct mdsk_cuda_plan *p)
{
    const float least = 4, most = 512;
    float runs = p->ms > 0 ? r->lap_ms / p->ms : 0;

    return (int)(runs < least ? least : runs > most ? most : runs);
}

/* ms[i]: of a run of entrant i; negative if it fails. */
static void run_laps(cudaStream_t stream, struct mdsk_cuda_plan *p,
                     const struct mdsk_cuda_operands *o, const struct rules *r,
                     float ms[])
{
    const struct product product = {p, o};
    int runs = runs_of(r, p);

    for (int i = 0; i < p->entrants; i++) {
        p->algo = p->entrant[i];
        ms[i] = mdsk_cuda_time(stream, work_product, &product, runs);
    }
}

/* The winner becomes the plan's.  Of those that were close to it the first two stay
 * entrants, and the winner, or the next if it is one of them. */
static void judge(struct mdsk_cuda_plan *p, const struct rules *r, const float ms[])
{
    int best = -1, n = 0;

    for (int i = 0; i < p->entrants; i++)
        if (ms[i] > 0 && (best < 0 || ms[i] < r->clearly * ms[best]))
            best = i;
    p->algo = p->entrant[best < 0 ? 0 : best];
    p->ms = best < 0 ? 0 : ms[best];
    for (int i = 0; i < p->entrants; i++)
        if (ms[i] > 0 && ms[i] <= r->close * p->ms && (n < 2 || (n == 2 && i >= best)))
            p->entrant[n++] = p->entrant[i];
    p->entrants = n;
}

static void race(cudaStream_t stream, struct mdsk_cuda_plan *p,
                 const struct mdsk_cuda_operands *o, const struct rules *r)
{
    float ms[MDSK_CUDA_ENTRANTS];

    run_laps(stream, p, o, r, ms);
    judge(p, r, ms);
    p->raced_at = mdsk_cuda_seconds();
}

/* A product that adds must not do so more than once: it races into memory of its own.
 * Where that cannot be had, there is no race. */
static void race_safely(cudaStream_t stream, struct mdsk_cuda_plan *p,
                        const struct mdsk_cuda_operands *o, const struct rules *r)
{
    struct mdsk_cuda_operands mine = *o;
    int64_t size = p->shape.m * p->shape.n *
                   (int64_t)mdsk_dtype_size((enum mdsk_dtype)p->shape.out);

    if (!p->shape.add) {
        race(stream, p, o, r);
        return;
    }
    mine.c = mdsk_cuda_take(stream, size);
    if (!mine.c) {
        p->entrants = 0;
        return;
    }
    cudaMemsetAsync(mine.c, 0, (size_t)size, stream);
    race(stream, p, &mine, r);
    mdsk_cuda_give_back(stream, mine.c);
}

int mdsk_cuda_can_race(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return !mdsk_cuda_is_repeatable() &&
           cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusNone;
}

void mdsk_cuda_race(cudaStream_t stream, struct mdsk_cuda_plan *p,
                    const struct mdsk_cuda_operands *o)
{
    if (mdsk_cuda_can_race(stream))
        race_safely(stream, p, o, &cold);
    if (p->ms < worth_it)
        p->entrants = 0;
}

/* What a product could save its neighbours is to be timed again, too. */
void mdsk_cuda_race_hot(cudaStream_t stream, struct mdsk_cuda_plan *p,
                        const struct mdsk_cuda_operands *o)
{
    if (p->entrants == 0 || mdsk_cuda_seconds() < p->raced_at + hot_after ||
        !mdsk_cuda_can_race(stream))
        return;
    race_safely(stream, p, o, &hot);
    p->beside_ms = 0;
}
