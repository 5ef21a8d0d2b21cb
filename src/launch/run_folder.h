/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of a run, with its checkpoints, metrics and log: runs/NAME. */
#ifndef MDS_LAUNCH_RUN_FOLDER_H
#define MDS_LAUNCH_RUN_FOLDER_H

#include "config/tree.h"
#include "launch/folder.h"
#include "launch/job.h"

struct mds_run_folder {
    char name[256], path[MDS_PATH_SIZE], checkpoints[MDS_PATH_SIZE + 16];
    int had_parent; /* --runs was there before */
};

/* Choose the name: --name, else "GPT25B-128000-8n"; and the tag.  asked: the
 * configuration as the user gave it. */
enum mds_rc mds_run_folder_name(const struct mds_launch *l,
                                const struct mds_config_run *asked,
                                struct mds_run_folder *out);

/* Likewise "score-8n", of a command of mds_infer. */
enum mds_rc mds_run_folder_name_infer(const struct mds_launch *l, const char *command,
                                      struct mds_run_folder *out);

/* Create it, under another name if that is taken. */
enum mds_rc mds_run_folder_create(const struct mds_launch *l, struct mds_run_folder *f);

/* Remove what mds_run_folder_create made, if nothing has been put there. */
void mds_run_folder_remove(const struct mds_launch *l, const struct mds_run_folder *f);

/* The file for the events of ranks without a run folder. */
struct mds_events_file {
    char path[MDS_PATH_SIZE]; /* "": none, with --print */
    int is_temporary;
};

/* The one that the user set; else create one in the current folder, which the ranks
 * share as a rule, and append --events.  close: remove it if it is temporary. */
enum mds_rc mds_events_file_open(struct mds_launch *l, struct mds_events_file *f);
void mds_events_file_close(const struct mds_events_file *f);

/* Append the options for outputs in the folder, unless the user set them. */
void mds_run_folder_outputs(const struct mds_run_folder *f,
                            const struct mds_config_run *asked, struct mds_argv *words);

/* How often to save, and how many checkpoints to keep: append the options unless the
 * user set them, and log what the checkpoints take.  An evaluation makes none. */
enum mds_rc mds_run_folder_saves(const struct mds_job *j,
                                 const struct mds_config_run *asked,
                                 const struct mds_estimate *e,
                                 struct mds_argv *arguments);

/* Write run.yaml: what was asked for and what was chosen, by which version, and what
 * the job asks the batch system for; mds_job_submit_chain adds the jobs.  asked: the
 * configuration as the user gave it; NULL: mds_infer.  docs/events.md has the keys. */
enum mds_rc mds_run_folder_describe(const struct mds_job *j,
                                    const struct mds_config_run *asked,
                                    const struct mds_estimate *e);

#endif
