/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for the toy machine. */
#ifndef MDS_TESTS_UNIT_TOY_PLAN_H
#define MDS_TESTS_UNIT_TOY_PLAN_H

#include "tests/unit/toy_machine.h"

#include "plan/plan.h"

/* A configuration of those options (one blank between them), read. */
static inline struct mds_config_run *read_options(const char *options)
{
    static char text[1024];
    char *argv[64] = {text};
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    int argc = 0;

    snprintf(text, sizeof text, "mds_pretrain %s", options);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    if (mds_config_read(argc, argv, &diag, &run))
        fail_msg("%s", mds_fail_text());
    mds_diag_fini(&diag);
    return run;
}

/* A small GPT's. */
static inline struct mds_config_run *read_run(const char *options)
{
    char text[512];

    snprintf(text, sizeof text,
             "--num-layers 4 --hidden-size 256 --num-attention-heads 8 "
             "--seq-length 2048 %s",
             options);
    return read_options(text);
}

/* The toy machine, a run for it, and the last plan that was searched. */
struct toy {
    struct mds_machine *m;
    struct mds_config_run *run;
    struct mds_plan p;
};

static inline struct toy open_toy(const char *options)
{
    struct toy t = {.run = read_run(options)};

    assert_int_equal(load_toy("", &t.m), MDS_OK);
    return t;
}

static inline void close_toy(struct toy *t)
{
    mds_plan_fini(&t->p);
    mds_machine_destroy(t->m);
    mds_config_run_destroy(t->run);
}

static inline struct mds_plan_request request(const struct toy *t, int64_t world)
{
    return (struct mds_plan_request){
        .machine = t->m, .run = t->run, .world = world, .per_node = 2, .budget_s = 60};
}

static inline const struct mds_plan *search(struct toy *t, int64_t world)
{
    const struct mds_plan_request r = request(t, world);
    struct mds_diag diag = {0};

    mds_plan_fini(&t->p);
    assert_int_equal(mds_plan_search(&r, &diag, &t->p), MDS_OK);
    mds_diag_fini(&diag);
    return &t->p;
}

#endif
