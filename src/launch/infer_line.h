/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line of mds_infer, read as the program reads it. */
#ifndef MDS_LAUNCH_INFER_LINE_H
#define MDS_LAUNCH_INFER_LINE_H

#include "infer/command.h"
#include "launch/argv.h"

struct mds_infer_line {
    struct mds_argv argv;
    struct mds_infer_options values;
    struct mds_option_set set;
    struct mds_option *rows;
    struct mds_settings settings;
    struct mds_infer_command command; /* borrows all of them: the line may not move */
};

/* Read the words of these vectors, one after the other (NULL ends the list). */
enum mds_rc mds_infer_line_read(struct mds_infer_line *out,
                                const struct mds_argv *const *words);
void mds_infer_line_close(struct mds_infer_line *l);

/* Its subcommand and mds_infer's options, its files, and mds_pretrain's options:
 * appended. */
void mds_infer_line_split(const struct mds_infer_line *l, struct mds_argv *own,
                          struct mds_argv *files, struct mds_argv *passed);

#endif
