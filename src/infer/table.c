/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/table.h"
#include "infer/origin.h"
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *shown(const struct mds_infer_table *t)
{
    return t->path ? t->path : "standard output";
}

enum mds_rc mds_infer_table_open(struct mds_infer_table *t, const char *path,
                                 int overwrite, const char *header)
{
    *t = (struct mds_infer_table){.path = path, .fd = STDOUT_FILENO};
    if (path)
        MDS_TRY(mds_output_check_new(path, overwrite));
    if (path)
        t->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t->fd < 0)
        return mds_fail(MDS_EIO, "%s: cannot be written: %s", path, strerror(errno));
    if (header)
        mds_str_add(&t->text, "%s\n", header);
    t->header = (int64_t)t->text.len;
    return mds_infer_table_flush(t);
}

/* ---- what is there ---- */

/* The next whole line, without its end; NULL behind the last. */
static const char *next_line(struct mds_infer_table *t)
{
    ssize_t n = getline(&t->line, &t->room, t->old);

    if (n <= 0 || t->line[n - 1] != '\n')
        return NULL;
    t->line[n - 1] = '\0';
    return t->line;
}

enum mds_rc mds_infer_table_resume(struct mds_infer_table *t, const char *path,
                                   const char *header, int64_t *lines)
{
    const char *line;

    *lines = 0;
    *t = (struct mds_infer_table){.path = path, .fd = STDOUT_FILENO, .header = -1};
    t->old = fopen(path, "re");
    t->fd = t->old ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (t->fd < 0)
        return mds_fail(MDS_EIO, "%s: cannot be resumed: %s", path, strerror(errno));
    line = next_line(t);
    if (!line) { /* stopped before it was whole */
        rewind(t->old);
        mds_str_add(&t->text, "%s\n", header);
        return MDS_OK;
    }
    if (strcmp(line, header) != 0)
        return mds_fail(MDS_EUSER,
                        "%s: cannot be resumed: its columns are not those of this "
                        "command; --overwrite replaces it",
                        path);
    while (next_line(t))
        (*lines)++;
    rewind(t->old);
    (void)next_line(t);
    return MDS_OK;
}

enum mds_rc mds_infer_table_check(struct mds_infer_table *t, const char *columns)
{
    const char *line = next_line(t);
    size_t n = strlen(columns);

    t->written++;
    if (line && strncmp(line, columns, n) == 0 && line[n] == '\t')
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: cannot be resumed: its line %" PRId64
                    " is not of \"%s\", as the input has it; --overwrite replaces it",
                    t->path, t->written + 1, columns);
}

/* Lines go behind the last one that was read. */
static enum mds_rc stop_reading(struct mds_infer_table *t)
{
    off_t end = ftello(t->old);

    fclose(t->old);
    t->old = NULL;
    if (end < 0 || ftruncate(t->fd, end) || lseek(t->fd, end, SEEK_SET) < 0)
        return mds_fail(MDS_EIO, "%s: cannot be written: %s", t->path, strerror(errno));
    return MDS_OK;
}

/* ---- lines ---- */

/* Returns the bytes written. */
static size_t write_all(int fd, const char *text, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t k = write(fd, text + done, n - done);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            break;
        done += (size_t)k;
    }
    return done;
}

/* Whole lines in the first n bytes, whose length goes to *bytes. */
static int64_t whole_lines(const char *text, size_t n, size_t *bytes)
{
    int64_t lines = 0;

    *bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n') {
            lines++;
            *bytes = i + 1;
        }
    return lines;
}

enum mds_rc mds_infer_table_flush(struct mds_infer_table *t)
{
    size_t done, whole;
    int why;

    if (t->text.failed)
        return MDS_EMEM;
    if (t->old)
        MDS_TRY(stop_reading(t));
    done = write_all(t->fd, t->text.s ? t->text.s : "", t->text.len);
    why = errno;
    if (done == t->text.len) {
        t->written += t->lines;
        t->lines = 0;
        t->text.len = 0;
        return MDS_OK;
    }
    t->written += whole_lines(t->text.s, done, &whole);
    if (t->path && whole < done) {
        off_t end = lseek(t->fd, 0, SEEK_CUR) - (off_t)(done - whole);

        if (end < 0 || ftruncate(t->fd, end))
            why = errno;
    }
    return mds_fail(MDS_EIO,
                    "%s: cannot be written: %s; the first %" PRId64
                    " lines of results are complete",
                    shown(t), strerror(why), t->written);
}

enum mds_rc mds_infer_table_close(struct mds_infer_table *t)
{
    const char *path = t->path;
    int why = path && close(t->fd) ? errno : 0;

    mds_str_fini(&t->text);
    if (t->old)
        fclose(t->old);
    free(t->line);
    *t = (struct mds_infer_table){.path = NULL};
    return why ? mds_fail(MDS_EIO, "%s: cannot be written: %s", path, strerror(why))
               : MDS_OK;
}

void mds_infer_table_abandon(struct mds_infer_table *t)
{
    struct stat st;

    if (t->path && fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size <= t->header) {
        unlink(t->path);
        mds_infer_origin_remove(t->path);
    }
    (void)mds_infer_table_close(t);
}

void mds_infer_add_real(struct mds_str *out, double x)
{
    char text[32];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (isnan(x) || strtod(text, NULL) == x)
            break;
    }
    mds_str_add(out, "%s", isnan(x) ? "nan" : text);
}
