/* SPDX-License-Identifier: BSD-3-Clause */
/* Autotuning: choose the fastest of the algorithms that cuBLASLt suggests for a GEMM,
 * timed with its real operands.
 *
 * There are two rounds.  At the first use of a plan the GPU is cool and its clock high,
 * so a few runs give only a hint.  Under load power is the limit: the clock is a fifth
 * lower, and lower still the more data an algorithm moves.  So the candidates that were
 * close in the first round are timed again once the GPU is hot, each for long enough to
 * reach its own steady clock: 25 ms are too short for that, 80 ms are enough. */
#include "kernels/cuda/gemm.h"

/* Timings are noisy: a later candidate beats an earlier one only if it takes less than
 * `clearly` times as long.  Candidates within `close` times the winner are timed
 * again. */
struct tuning_rules {
    float min_ms; /* of each candidate; 0: a few runs */
    float clearly, close;
};

static const struct tuning_rules first_tuning = {0, 0.95f, 1.12f};
static const struct tuning_rules hot_tuning = {120, 1, 0};

static double hot_after = 1;         /* seconds */
static const float least_ms = 0.05f; /* ms: less does not fill a GPU */

void mdsk_cuda_set_hot_after(double seconds)
{
    hot_after = seconds;
}

/* Milliseconds of one call of work, after warming up; negative on failure. */
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

struct gemm_call {
    const struct mdsk_cuda_gemm_plan *plan;
    const struct mdsk_cuda_gemm_operands *operands;
};

static int run_gemm(cudaStream_t stream, const void *what)
{
    const struct gemm_call *p = what;

    return mdsk_cuda_run_gemm_plan(stream, p->plan, p->operands);
}

/* How often a GEMM is repeated: no more than fits into CUDA's queue. */
static int repetitions(const struct tuning_rules *r,
                       const struct mdsk_cuda_gemm_plan *p)
{
    const float least = 4, most = 512;
    float runs = p->ms > 0 ? r->min_ms / p->ms : 0;

    return (int)(runs < least ? least : runs > most ? most : runs);
}

/* ms[i]: time of candidate i; negative if it fails. */
static void time_candidates(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o,
                            const struct tuning_rules *r, float ms[])
{
    const struct gemm_call call = {p, o};
    int times = repetitions(r, p);

    for (int i = 0; i < p->candidates; i++) {
        p->algo = p->candidate[i];
        ms[i] = mdsk_cuda_time(stream, run_gemm, &call, times);
    }
}

/* Make the winner the plan's algorithm.  Candidates for the next round: the first two
 * that were close to it, and the winner, or the next close one if it is among the
 * two. */
static void choose_algorithm(struct mdsk_cuda_gemm_plan *p,
                             const struct tuning_rules *r, const float ms[])
{
    int best = -1, n = 0;

    for (int i = 0; i < p->candidates; i++)
        if (ms[i] > 0 && (best < 0 || ms[i] < r->clearly * ms[best]))
            best = i;
    p->algo = p->candidate[best < 0 ? 0 : best];
    p->ms = best < 0 ? 0 : ms[best];
    for (int i = 0; i < p->candidates; i++)
        if (ms[i] > 0 && ms[i] <= r->close * p->ms && (n < 2 || (n == 2 && i >= best)))
            p->candidate[n++] = p->candidate[i];
    p->candidates = n;
}

static void time_and_choose(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o,
                            const struct tuning_rules *r)
{
    float ms[MDSK_CUDA_CANDIDATES];

    time_candidates(stream, p, o, r, ms);
    choose_algorithm(p, r, ms);
    p->tuned_at = mdsk_cuda_seconds();
}

/* A GEMM that adds to C must do so only once, so it is timed with another C.  If there
 * is no memory for that, the first candidate is used untimed. */
static void time_and_choose_safely(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                                   const struct mdsk_cuda_gemm_operands *o,
                                   const struct tuning_rules *r)
{
    struct mdsk_cuda_gemm_operands mine = *o;
    int64_t size = p->shape.batch * p->shape.m * p->shape.n *
                   (int64_t)mdsk_dtype_size((enum mdsk_dtype)p->shape.out);

    if (!p->shape.add || o->z) {
        time_and_choose(stream, p, o, r);
        return;
    }
    mine.c = mdsk_cuda_alloc(stream, size);
    if (!mine.c) {
        p->candidates = 0;
        return;
    }
    cudaMemsetAsync(mine.c, 0, (size_t)size, stream);
    time_and_choose(stream, p, &mine, r);
    mdsk_cuda_free(stream, mine.c);
}

int mdsk_cuda_can_autotune(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return !mdsk_cuda_is_repeatable() &&
           cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusNone;
}

void mdsk_cuda_autotune(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                        const struct mdsk_cuda_gemm_operands *o)
{
    if (mdsk_cuda_can_autotune(stream))
        time_and_choose_safely(stream, p, o, &first_tuning);
    if (p->ms < least_ms)
        p->candidates = 0;
}

/* The separate kernel that a fused epilogue would replace is then timed again too. */
void mdsk_cuda_autotune_hot(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o)
{
    if (p->candidates == 0 || mdsk_cuda_seconds() < p->tuned_at + hot_after ||
        !mdsk_cuda_can_autotune(stream))
        return;
    time_and_choose_safely(stream, p, o, &hot_tuning);
    p->separate_ms = 0;
}
