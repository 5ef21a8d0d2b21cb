/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/per_token.h"
#include "base/alloc.h"
#include "io/h5.h"
#include "io/output.h"

#include <math.h>
#include <stdlib.h>

struct mds_infer_per_token {
    struct mds_output out;
    struct mds_h5 *h5;
    struct mds_h5_dataset *loglik, *start, *name;
    int64_t tokens;
};

static enum mds_rc create_sets(struct mds_infer_per_token *p)
{
    const int64_t zero = 0;

    MDS_TRY(mds_h5_create(p->out.partial, p->out.path, &p->h5));
    MDS_TRY(mds_h5_dataset_create(p->h5, "/loglik", MDS_H5_F64, &p->loglik));
    MDS_TRY(mds_h5_dataset_create(p->h5, "/start", MDS_H5_I64, &p->start));
    MDS_TRY(mds_h5_dataset_create(p->h5, "/name", MDS_H5_TEXT, &p->name));
    return mds_h5_dataset_append(p->start, &zero, 1);
}

enum mds_rc mds_infer_per_token_create(const char *path, int overwrite,
                                       struct mds_infer_per_token **out)
{
    struct mds_infer_per_token *p;
    enum mds_rc rc;

    MDS_TRY(mds_output_check_new(path, overwrite));
    p = mds_zalloc(1, sizeof *p);
    if (!p)
        return MDS_EMEM;
    rc = mds_output_open(path, &p->out);
    if (!rc)
        rc = create_sets(p);
    if (rc)
        mds_infer_per_token_abandon(p);
    else
        *out = p;
    return rc;
}

enum mds_rc mds_infer_per_token_add(struct mds_infer_per_token *p, const char *name,
                                    const double *loglik, int64_t n)
{
    const double none = NAN;

    MDS_TRY(mds_h5_dataset_append(p->name, &name, 1));
    p->tokens += n;
    if (n > 0)
        MDS_TRY(mds_h5_dataset_append(p->loglik, &none, 1));
    if (n > 1)
        MDS_TRY(mds_h5_dataset_append(p->loglik, loglik + 1, n - 1));
    return mds_h5_dataset_append(p->start, &p->tokens, 1);
}

/* Everything is closed whatever fails; the first failure counts. */
static enum mds_rc close_file(struct mds_infer_per_token *p)
{
    enum mds_rc rc = mds_h5_dataset_close(p->loglik), next;

    next = mds_h5_dataset_close(p->start);
    rc = rc ? rc : next;
    next = mds_h5_dataset_close(p->name);
    rc = rc ? rc : next;
    next = p->h5 ? mds_h5_close(p->h5) : MDS_OK;
    return rc ? rc : next;
}

enum mds_rc mds_infer_per_token_finish(struct mds_infer_per_token *p)
{
    enum mds_rc rc = close_file(p);

    if (rc)
        mds_output_abandon(&p->out);
    else
        rc = mds_output_commit(&p->out);
    free(p);
    return rc;
}

void mds_infer_per_token_abandon(struct mds_infer_per_token *p)
{
    if (!p)
        return;
    (void)close_file(p);
    mds_output_abandon(&p->out);
    free(p);
}
