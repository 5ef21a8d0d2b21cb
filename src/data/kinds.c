/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/kinds.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_valid_name(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return 0;
    return n > 0 && n < MDS_KIND_NAME_SIZE;
}

static enum mds_rc check_kind(const char *path, const struct mds_kind *k, int i)
{
    if (!(k[i].weight >= 0) || !isfinite(k[i].weight))
        return mds_fail(MDS_EUSER,
                        "%s: kind '%s' has weight %g: must be 0 or more, and finite",
                        path, k[i].name, k[i].weight);
    for (int j = 0; j < i; j++)
        if (strcmp(k[i].name, k[j].name) == 0)
            return mds_fail(MDS_EUSER, "%s: two kinds are named '%s'", path, k[i].name);
    return MDS_OK;
}

/* names[n] to k[n] */
static enum mds_rc set_names(const char *path, char **names, int64_t n,
                             struct mds_kind *k)
{
    if (n < 1 || n > MDS_KINDS_MAX)
        return mds_fail(MDS_EUSER, "%s: %lld kinds of tokens: must be 1 to %d", path,
                        (long long)n, MDS_KINDS_MAX);
    for (int64_t i = 0; i < n; i++) {
        if (!is_valid_name(names[i]))
            return mds_fail(MDS_EUSER,
                            "%s: kind %lld is named '%.64s': must be 1 to %d printable "
                            "ASCII characters without blanks, quotes or backslashes",
                            path, (long long)i, names[i], MDS_KIND_NAME_SIZE - 1);
        memcpy(k[i].name, names[i], strlen(names[i]) + 1);
    }
    return MDS_OK;
}

enum mds_rc mds_kinds_write(struct mds_h5 *h5, const char *path,
                            const struct mds_kind *kinds, int n)
{
    struct mds_kind checked[MDS_KINDS_MAX];
    const char *name[MDS_KINDS_MAX];
    double weight[MDS_KINDS_MAX];

    for (int i = 0; i < n && i < MDS_KINDS_MAX; i++) {
        name[i] = kinds[i].name;
        weight[i] = kinds[i].weight;
    }
    MDS_TRY(set_names(path, (char **)name, n, checked));
    for (int i = 0; i < n; i++)
        MDS_TRY(check_kind(path, kinds, i));
    MDS_TRY(mds_h5_put_strings(h5, "/kinds/name", name, n));
    return mds_h5_put_reals(h5, "/kinds/weight", weight, n);
}

static enum mds_rc read_table(struct mds_kinds *k, const char *path)
{
    double weight[MDS_KINDS_MAX];
    char **names;
    int64_t n;
    enum mds_rc rc;

    MDS_TRY(mds_h5_get_strings(k->h5, "/kinds/name", &names, &n));
    rc = set_names(path, names, n, k->kind);
    mds_h5_free_strings(names, n);
    if (!rc)
        rc = mds_h5_get_reals(k->h5, "/kinds/weight", weight, n);
    for (int i = 0; !rc && i < n; i++) {
        k->kind[i].weight = weight[i];
        rc = check_kind(path, k->kind, i);
    }
    k->n = (int)n;
    return rc;
}

static enum mds_rc open_of_token(struct mds_kinds *k, const char *path, int64_t tokens)
{
    MDS_TRY(mds_h5_dataset_open(k->h5, "/kinds/of_token", &k->of_token));
    if (mds_h5_dataset_length(k->of_token) != tokens)
        return mds_fail(MDS_EUSER,
                        "%s: /kinds/of_token has %lld values for %lld tokens: make the "
                        "file again",
                        path, (long long)mds_h5_dataset_length(k->of_token),
                        (long long)tokens);
    return MDS_OK;
}

enum mds_rc mds_kinds_open(struct mds_h5 *h5, const char *path, int64_t tokens,
                           struct mds_kinds **out)
{
    struct mds_kinds *k = mds_zalloc(1, sizeof *k);
    enum mds_rc rc;

    if (!k)
        return MDS_EMEM;
    k->h5 = h5;
    rc = read_table(k, path);
    if (!rc)
        rc = open_of_token(k, path, tokens);
    if (rc)
        mds_kinds_close(k);
    else
        *out = k;
    return rc;
}

void mds_kinds_close(struct mds_kinds *k)
{
    if (!k)
        return;
    (void)mds_h5_dataset_close(k->of_token);
    free(k);
}

enum mds_rc mds_kinds_read(struct mds_kinds *k, const char *path, int64_t first,
                           int64_t count, unsigned char *kinds)
{
    MDS_TRY(mds_h5_dataset_read_u8(k->of_token, first, count, kinds));
    for (int64_t i = 0; i < count; i++)
        if (kinds[i] >= k->n)
            return mds_fail(MDS_EUSER,
                            "%s: token %lld is of kind %d, but kinds end with %d: the "
                            "file is damaged",
                            path, (long long)(first + i), kinds[i], k->n - 1);
    return mds_h5_check_size(k->h5);
}
