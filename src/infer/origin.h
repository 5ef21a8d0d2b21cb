/* SPDX-License-Identifier: BSD-3-Clause */
/* What a file of results is of: the model, the inputs and what of the options changes
 * the results, as lines of YAML in FILE.run beside it.  A later job goes on with a file
 * only if it would write the same. */
#ifndef MDS_INFER_ORIGIN_H
#define MDS_INFER_ORIGIN_H

#include "infer/model.h"

/* Begin such lines: command, model and numbers. */
void mds_infer_origin_begin(struct mds_str *lines, const char *command,
                            const struct mds_infer_model *m);
/* Add an input, or all: names and sizes. */
void mds_infer_origin_add_input(struct mds_str *lines, const char *path);
void mds_infer_origin_add_inputs(struct mds_str *lines,
                                 const struct mds_infer_inputs *inputs);

/* Write output.run, unless output is NULL or no regular file. */
enum mds_rc mds_infer_origin_write(const char *output, const struct mds_str *lines);

/* Remove output.run, if there is no output any more. */
void mds_infer_origin_remove(const char *output);

/* *begun: whether there is something in `output` to go on with.  MDS_EUSER if it has no
 * output.run, or names the first line in which that is not `lines`. */
enum mds_rc mds_infer_origin_check(const char *output, const struct mds_str *lines,
                                   int *begun);

#endif
