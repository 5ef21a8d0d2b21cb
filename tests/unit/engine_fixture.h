/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the engine share: small models, an engine on a device, and what a
 * step of it gives. */
#ifndef TESTS_UNIT_ENGINE_FIXTURE_H
#define TESTS_UNIT_ENGINE_FIXTURE_H

#include "engine/engine.h"

enum { S = 13, ROWS = 4, VOCAB = 11 };

struct mds_config gpt_shape(void);
struct mds_config llama_shape(void);
extern struct mds_config (*const shapes[2])(void);

void with_dropout(struct mds_config *c);

/* Whether engines that are opened get a cpu device whose copies beside the queue are as
 * late as they may be: one that is used before it was met, or whose source is gone by
 * then, gives other numbers. */
void be_late(int on);

/* Copies beside the queue, and those of them that nothing hides: no product and no
 * attention was queued between their start and when they were met. */
struct copies {
    int all, bare;
};

/* Engines that are opened get a cpu device that counts them; NULL: no longer. */
void watch_copies(struct copies *c);

struct fixture {
    struct mds_config config;
    struct mds_dev *dev, *host;
    struct mds_groups groups;
    struct mds_engine *engine;
    struct mds_engine_need need;
    int32_t rows[ROWS * (S + 1)], starts[ROWS * (S + 1)];
    unsigned char kinds[ROWS * (S + 1)];
};

/* On device cpu or dry, with the first weights. */
void open_on(struct fixture *f, const struct mds_config *c, const char *device);
void close_all(struct fixture *f);

/* A step without its update, of f->rows. */
struct mds_step_result backward(struct fixture *f);

/* Mean loss of f->rows. */
double eval_loss(struct fixture *f);

/* All gradients or weights, one parameter after the other. */
struct values {
    float *v; /* free() it */
    int64_t n;
};

struct values values_of(struct fixture *f, enum mds_zero_what what);

/* Loss of a step from the first weights, and all gradients of a configuration. */
double grads_of(const struct mds_config *c, struct values *grads);

#endif
