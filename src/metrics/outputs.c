/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/outputs.h"

#include "base/str.h"
#include "io/folder.h"
#include "io/jsonl.h"
#include "io/output.h"

#include <string.h>

static int record_has(const char *record, const char *key, const char *text)
{
    struct mds_str field = {0};
    int has;

    mds_str_add(&field, "\"%s\":", key);
    if (text)
        mds_json_quote(text, &field);
    has = !field.failed && strstr(record, field.s) != NULL;
    mds_str_fini(&field);
    return has;
}

/* Whether the newest records there are this run's: of a run that saved where this one
 * saves or, if it resumes, loads from.  Older versions did not record that. */
static int is_own_file(const char *path, const char *save, const char *load,
                       int64_t done)
{
    struct mds_str last = {0};
    int is = 0;

    mds_jsonl_find_last(path, "{\"event\":\"run\",", &last);
    if (last.s)
        is = (save && record_has(last.s, "save", save)) ||
             (done > 0 && load && record_has(last.s, "save", load)) ||
             (done > 0 && !record_has(last.s, "save", NULL));
    mds_str_fini(&last);
    return is;
}

enum mds_rc mds_metrics_check_own(const char *path, const char *save, const char *load,
                                  int64_t done, int overwrite)
{
    return is_own_file(path, save, load, done) ? MDS_OK
                                               : mds_output_check_new(path, overwrite);
}

enum mds_rc mds_outputs_check_new(const struct mds_output_config *o)
{
    char traced[MDS_PATH_SIZE];

    if (o->export_weights)
        MDS_TRY(mds_output_check_new(o->export_weights, o->overwrite));
    if (!o->trace_dir)
        return MDS_OK;
    MDS_TRY(mds_path_join(o->trace_dir, "weights.safetensors", traced));
    return mds_output_check_new(traced, o->overwrite);
}
