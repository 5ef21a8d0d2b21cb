/* Which checkpoint is meant. */
#include "programs/mds_ckpt.h"

#include <stdio.h>
#include <sys/stat.h>

enum mds_rc mds_opened_find(const char *given, char path[MDS_CKPT_PATH])
{
    struct stat st;
    int64_t latest;

    MDS_TRY(mds_ckpt_file(given, -1, path));
    if (stat(path, &st) == 0) {
        snprintf(path, MDS_CKPT_PATH, "%s", given);
        return MDS_OK;
    }
    MDS_TRY(mds_ckpt_latest(given, &latest));
    if (latest < 0)
        return mds_fail(MDS_EUSER, "%s: there is no checkpoint", given);
    return mds_ckpt_path(given, latest, 0, path);
}

enum mds_rc mds_opened_open(const char *given, struct mds_opened *out)
{
    char path[MDS_CKPT_PATH];
    struct mds_opened o = {0};
    enum mds_rc rc;

    MDS_TRY(mds_opened_find(given, path));
    MDS_TRY(mds_ckpt_index_read(path, &o.ix));
    rc = mds_ckpt_index_check_files(o.ix);
    if (!rc)
        rc = mds_ckpt_reader_create(o.ix, &o.reader);
    if (rc)
        mds_opened_close(&o);
    else
        *out = o;
    return rc;
}

void mds_opened_close(struct mds_opened *o)
{
    mds_ckpt_reader_destroy(o->reader);
    mds_ckpt_index_destroy(o->ix);
}
