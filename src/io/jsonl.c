/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jsonl.h"
#include "base/alloc.h"
#include "base/stream.h"
#include "base/units.h"
#include "io/durable.h"
#include "io/output.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

struct mds_jsonl {
    char *path;
    FILE *file;
    struct mds_stream pipe; /* if it is no regular file; fd -1: it is */
    struct mds_str line;
};

/* ---- an earlier run's records ---- */

/* A record of ours: no spaces, and no such key within a text. */
static int is_record_above(const char *line, const char *key, int64_t most)
{
    const char *at = strstr(line, key);

    return at && strtoll(at + strlen(key), NULL, 10) > most;
}

/* *dropped: how many lines were not copied; or -1, the disk is in trouble. */
static void copy_records_up_to(FILE *from, FILE *to, const char *key, int64_t most,
                               int64_t *dropped)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    *dropped = 0;
    while (*dropped >= 0 && (n = getline(&line, &size, from)) > 0) {
        if (line[n - 1] != '\n' || is_record_above(line, key, most))
            ++*dropped;
        else if (fwrite(line, 1, (size_t)n, to) != (size_t)n)
            *dropped = -1;
    }
    if (ferror(from))
        *dropped = -1;
    free(line);
}

static enum mds_rc rewrite_without_later(FILE *from, const char *path, const char *key,
                                         int64_t most)
{
    struct mds_output out = {0};
    int64_t dropped;

    MDS_TRY(mds_output_open(path, &out));
    copy_records_up_to(from, out.file, key, most, &dropped);
    if (dropped > 0)
        return mds_output_commit(&out);
    mds_output_abandon(&out);
    return dropped < 0
               ? mds_fail(MDS_EIO, "%s: cannot be truncated: %s", path, strerror(errno))
               : MDS_OK;
}

enum mds_rc mds_jsonl_truncate(const char *path, const char *key, int64_t most)
{
    struct mds_str quoted = {0};
    struct stat st;
    enum mds_rc rc;
    FILE *from;

    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return MDS_OK;
    from = fopen(path, "re");
    if (!from)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    mds_str_add(&quoted, "\"%s\":", key);
    rc = quoted.failed ? MDS_EMEM : rewrite_without_later(from, path, quoted.s, most);
    mds_str_fini(&quoted);
    fclose(from);
    return rc;
}

void mds_jsonl_find_last(const char *path, const char *text, struct mds_str *out)
{
    char *line = NULL;
    size_t size = 0;
    struct stat st;
    FILE *f = stat(path, &st) || !S_ISREG(st.st_mode) ? NULL : fopen(path, "re");

    while (f && getline(&line, &size, f) > 0)
        if (strstr(line, text)) {
            mds_str_fini(out);
            mds_str_add(out, "%s", line);
        }
    free(line);
    if (f)
        fclose(f);
}

/* ---- ours ---- */

enum mds_rc mds_jsonl_open(const char *path, int append, struct mds_jsonl **out)
{
    struct mds_jsonl *j = mds_zalloc(1, sizeof *j);
    struct stat st;
    enum mds_rc rc;

    if (!j)
        return MDS_EMEM;
    j->path = mds_strdup(path);
    if (!j->path) {
        rc = MDS_EMEM;
        goto free_j;
    }
    j->file = fopen(path, append ? "ae" : "we");
    if (!j->file) {
        rc = mds_fail_write(path);
        goto free_path;
    }
    j->pipe.fd =
        fstat(fileno(j->file), &st) == 0 && S_ISREG(st.st_mode) ? -1 : fileno(j->file);
    *out = j;
    return MDS_OK;

free_path:
    free(j->path);
free_j:
    free(j);
    return rc;
}

void mds_jsonl_begin(struct mds_jsonl *j)
{
    mds_str_fini(&j->line);
    mds_str_add(&j->line, "{");
}

static void add_json_key(struct mds_jsonl *j, const char *key)
{
    if (j->line.len > 1)
        mds_str_add(&j->line, ",");
    mds_json_quote(key, &j->line);
    mds_str_add(&j->line, ":");
}

void mds_jsonl_add_string(struct mds_jsonl *j, const char *key, const char *value)
{
    add_json_key(j, key);
    if (value)
        mds_json_quote(value, &j->line);
    else
        mds_str_add(&j->line, "null");
}

void mds_jsonl_add_int(struct mds_jsonl *j, const char *key, int64_t value)
{
    add_json_key(j, key);
    mds_str_add(&j->line, "%lld", (long long)value);
}

static void add_real(struct mds_jsonl *j, double value)
{
    char text[32];

    mds_str_add(&j->line, "%s",
                isfinite(value) ? mds_format_real(value, text, sizeof text) : "null");
}

void mds_jsonl_add_real(struct mds_jsonl *j, const char *key, double value)
{
    add_json_key(j, key);
    add_real(j, value);
}

void mds_jsonl_add_reals(struct mds_jsonl *j, const char *key, const double *value,
                         int64_t n)
{
    add_json_key(j, key);
    for (int64_t i = 0; i < n; i++) {
        mds_str_add(&j->line, i > 0 ? "," : "[");
        add_real(j, value[i]);
    }
    mds_str_add(&j->line, n > 0 ? "]" : "[]");
}

enum mds_rc mds_jsonl_end(struct mds_jsonl *j)
{
    mds_str_add(&j->line, "}\n");
    if (j->line.failed)
        return MDS_EMEM;
    if (j->pipe.fd >= 0 ? mds_stream_write(&j->pipe, j->line.s, j->line.len) != 0
                        : fwrite(j->line.s, 1, j->line.len, j->file) != j->line.len ||
                              fflush(j->file) != 0)
        return mds_fail_write(j->path);
    return MDS_OK;
}

enum mds_rc mds_jsonl_sync(struct mds_jsonl *j)
{
    return mds_durable_stream(j->file, j->path);
}

enum mds_rc mds_jsonl_close(struct mds_jsonl *j)
{
    enum mds_rc rc = MDS_OK;

    if (!j)
        return MDS_OK;
    if (j->pipe.fd >= 0)
        (void)mds_stream_drain(&j->pipe, 5);
    free(j->pipe.kept);
    if (fclose(j->file))
        rc = mds_fail_write(j->path);
    mds_str_fini(&j->line);
    free(j->path);
    free(j);
    return rc;
}
