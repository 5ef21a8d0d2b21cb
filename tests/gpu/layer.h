/* SPDX-License-Identifier: BSD-3-Clause */
/* The layer of tests/gpu/long: computed on a device, forward and backward; the parts of
 * its tensors that are checked are copied to host memory. */
#ifndef TESTS_GPU_LAYER_H
#define TESTS_GPU_LAYER_H

#include "engine/engine.h"
#include "engine/internal.h"
#include "io/worker.h"
#include "model/modules.h"

enum { SAMPLES = 8, ENTRIES = 8, SUBTASKS = 64 };

/* The part of a tensor [S, H] that is checked: all rows of two heads, and some rows of
 * all heads. */
struct part {
    uint16_t *head[2]; /* [S, D] the first and the last */
    uint16_t *row;     /* [SAMPLES, H] */
};

struct layer {
    int64_t S, H, A, D, F;
    struct mds_config config;
    struct mds_dev *dev, *host;
    struct mds_groups groups;
    struct mds_engine *e;
    const struct block_ids *id;
    struct mds_worker *threads;
    struct part qkv[3], dqkv[3]; /* q and k rotated, their gradients rotated back */
    struct part o, d_o, y, dx;
    float *lse[2]; /* [S] of the two heads */
    int64_t sample[SAMPLES];
};

/* What one thread does of a loop. */
struct subtask {
    struct mds_task job;
    void (*run)(struct subtask *s);
    struct layer *l;
    const void *what;
    int index;
    double off[3], sum[ENTRIES], squares[ENTRIES];
};

/* Run n subtasks (SUBTASKS at most) on threads, and wait for them.  off, unless NULL:
 * the largest of their errors. */
void run_subtasks(struct layer *l, int n, void (*run)(struct subtask *s),
                  const void *what, struct subtask *subtask, double off[3]);

/* The first of n things that belong to subtask i of SUBTASKS. */
int64_t subtask_start(int64_t n, int i);

/* The larger of two errors; NaN if one is. */
double worst(double a, double b);

/* Print what failed and why, and exit. */
void die(const char *what);
void must(enum mds_rc rc, const char *what);
void *must_alloc(int64_t n, size_t size);

/* Numbers around 0 whose bits depend on where they are: the layer's input (seed 1), and
 * the gradient of its result (2). */
uint16_t noise(uint64_t seed, int64_t i);

/* A head's elements x [D] of a row, as positions rotate them; inverse: back. */
void rotate(const struct layer *l, int64_t row, int inverse, double *x);

/* S, H, A, D and F are set. */
void layer_open(struct layer *l, const char *device, int64_t tile);
void layer_run(struct layer *l);
void layer_close(struct layer *l);

#endif
