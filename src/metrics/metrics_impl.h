/* SPDX-License-Identifier: BSD-3-Clause */
/* For the files that make up metrics.h. */
#ifndef MDS_METRICS_METRICS_IMPL_H
#define MDS_METRICS_METRICS_IMPL_H

#include "base/str.h"
#include "metrics/metrics.h"

struct mds_metrics {
    struct mds_metrics_run run; /* strings are NULL once opened */
    struct mds_jsonl *json;     /* NULL: not requested, or failed */
    struct mds_tensorboard *tb; /* NULL: not requested, or failed */
    int on_terminal, mute;      /* mute: standard output failed */
    double valid_loss;          /* of the latest validation; NAN: none */
    int opened;
    enum mds_rc rc; /* the first failure, and why */
    char why[512];
    /* since the last console line */
    int64_t steps, samples, skipped, nan_steps;
    double elapsed_s, loss_sum;
    struct mds_pairs seen;
    struct mds_kind_losses by_kind;
    int64_t *idle; /* [layers, experts]: steps in a row without a token, or NULL */
};

/* Begin a JSON record: 0 if there is no file for it.  Then fields, then its end. */
int mds_metrics_begin_record(struct mds_metrics *m, const char *event);
void mds_metrics_end_record(struct mds_metrics *m);

/* If there is a TensorBoard file. */
void mds_metrics_scalar(struct mds_metrics *m, const char *tag, int64_t iteration,
                        double value);

/* Print text, over a progress line if there is one, and release it. */
void mds_metrics_print(struct mds_metrics *m, struct mds_str *text);

#endif
