/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration written out as mds_pretrain's options. */
#include "launch/launch.h"

#include <string.h>

/* Derived settings that are written out all the same, as are the sizes of all axes: a
 * reader of the command line should see the layout. */
static const char *const always_passed[] = {"parallel.sequence_parallel",
                                            "parallel.zero_stage", NULL};

/* Never passed on: the sizes that SP_TYPE stands for are, and dry runs are done
 * here. */
static const char *const never_passed[] = {"parallel.sp_type", "train.dry_run",
                                           "train.dry_world",  "train.dry_rank",
                                           "train.show_step",  NULL};

static int is_passed_on(const struct mds_settings *s, size_t row)
{
    const struct mds_option *o = &s->set->options[row];
    enum mds_level level = s->of[row].level;

    if (!o->key || !o->flag || o->type == MDS_OPT_ACTION || o->always ||
        mds_str_is_in(o->key, never_passed))
        return 0;
    if (level == MDS_LEVEL_CHECKPOINT) /* mds_pretrain reads them there itself */
        return 0;
    if (level != MDS_LEVEL_DERIVED)
        return level >= MDS_LEVEL_MACHINE;
    for (const struct mds_axis *a = mds_axes; a->name; a++)
        if (a->key && strcmp(o->key, a->key) == 0)
            return 1;
    return mds_str_is_in(o->key, always_passed);
}

static void append_option(const struct mds_settings *s, size_t row,
                          struct mds_argv *out)
{
    const struct mds_option *o = &s->set->options[row];
    struct mds_str value = {0};

    if (o->offset == MDS_OPT_UNSTORED)
        return;
    mds_settings_flag_value(s, row, &value);
    if (value.failed) {
        out->failed = 1;
    } else if (o->type == MDS_OPT_FLAG) {
        int on = (strcmp(value.s, "true") == 0) ^ (o->inverted != 0);

        mds_argv_add(out, "%s%s", o->flag, on ? "" : "=0");
    } else if (value.s) {
        mds_argv_add(out, "%s", o->flag);
        if (o->type == MDS_OPT_WORDS || o->type == MDS_OPT_SET)
            mds_argv_add_split(out, value.s);
        else
            mds_argv_add(out, "%s", value.s);
    }
    mds_str_fini(&value);
}

enum mds_rc mds_launch_arguments(const struct mds_launch *l,
                                 const struct mds_config_run *run, struct mds_argv *out)
{
    const struct mds_settings *s = &run->settings;
    int device_given = mds_settings_of(s, "train.device")->level > MDS_LEVEL_DEFAULT;

    if (l->machine->node.gpus > 0 && !device_given)
        mds_argv_add_split(out, "--device cuda");
    for (size_t row = 0; row < s->rows; row++)
        if (is_passed_on(s, row))
            append_option(s, row, out);
    return out->failed ? mds_fail(MDS_EMEM, "no host memory for a command") : MDS_OK;
}
