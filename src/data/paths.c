/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/paths.h"

#include "base/alloc.h"
#include "base/units.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\n";

static enum mds_rc append_path(struct mds_paths *p, const char *path, double weight)
{
    MDS_TRY(mds_grow(&p->path, (size_t)p->n, sizeof *p->path));
    MDS_TRY(mds_grow(&p->weight, (size_t)p->n, sizeof *p->weight));
    p->path[p->n] = mds_strdup(path);
    if (!p->path[p->n])
        return MDS_EMEM;
    p->weight[p->n++] = weight;
    return MDS_OK;
}

static int is_weight(const char *word, double *weight)
{
    return mds_parse_real(word, weight) == 0 && *weight > 0;
}

/* Whether a path ends at text: nothing follows, or a weight. */
static int ends_or_weight_follows(const char *text)
{
    char word[64];
    double weight;
    size_t n;

    text += strspn(text, blanks);
    n = strcspn(text, blanks);
    if (n == 0)
        return 1;
    if (n >= sizeof word)
        return 0;
    memcpy(word, text, n);
    word[n] = '\0';
    return is_weight(word, &weight);
}

/* Cut the next path off *rest.  A path may have blanks: the words up to a weight or the
 * end are one path if such a file exists; otherwise one word is.  NULL: none left. */
static char *next_path(char **rest)
{
    char *path = *rest + strspn(*rest, blanks), *one = path + strcspn(path, blanks);
    char *end = one;

    if (!*path)
        return NULL;
    for (;;) {
        char kept = *end;
        int there;

        *end = '\0';
        there = mds_source_is_there(path);
        *end = kept;
        if (there && ends_or_weight_follows(end)) {
            one = end;
            break;
        }
        if (!kept)
            break;
        end += strspn(end, blanks);
        end += strcspn(end, blanks);
    }
    *rest = one + (*one != '\0');
    *one = '\0';
    return path;
}

static enum mds_rc parse_weighted_paths(const char *option, struct mds_paths *p,
                                        char *text)
{
    char *rest, *word = strtok_r(text, blanks, &rest);

    while (word) {
        const char *path;
        double weight;

        if (!is_weight(word, &weight))
            return mds_fail(MDS_EUSER,
                            "%s: '%s' is not a weight: give one path, or weight path "
                            "weight path ...",
                            option, word);
        path = next_path(&rest);
        if (!path)
            return mds_fail(MDS_EUSER, "%s: no path after weight %s", option, word);
        MDS_TRY(append_path(p, path, weight));
        word = strtok_r(NULL, blanks, &rest);
    }
    return MDS_OK;
}

enum mds_rc mds_paths_parse(const char *option, const char *text, struct mds_paths *out)
{
    struct mds_paths p = {0};
    enum mds_rc rc = MDS_EMEM;
    char *copy;

    if (!text || text[strspn(text, blanks)] == '\0')
        return mds_fail(MDS_EUSER,
                        "no data: give %s a token file (made with mds_data make)",
                        option);
    copy = mds_strdup(text);
    if (copy)
        rc = !strpbrk(text, blanks) || mds_source_is_there(text)
                 ? append_path(&p, text, 1)
                 : parse_weighted_paths(option, &p, copy);
    free(copy);
    if (rc) {
        mds_paths_fini(&p);
        return rc;
    }
    *out = p;
    return MDS_OK;
}

void mds_paths_fini(struct mds_paths *p)
{
    for (int i = 0; i < p->n; i++)
        free(p->path[i]);
    free(p->path);
    free(p->weight);
    *p = (struct mds_paths){0};
}
