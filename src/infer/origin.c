/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/origin.h"
#include "io/map.h"
#include "io/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void mds_infer_origin_begin(struct mds_str *lines, const char *command,
                            const struct mds_infer_model *m)
{
    mds_str_add(lines, "command: mds_infer %s\nmodel: %s\n", command, m->path);
    mds_str_add(lines, "saved_as: %" PRId64 "\n", m->ix ? m->ix->save : 0);
    mds_str_add(lines, "tokenizer: %s\ndtype: %s\n",
                mds_tokenizer_names[m->vocabulary.tokenizer],
                mds_number_type_names[m->run->config.train.type]);
    if (m->marginal_bases)
        mds_str_add(lines, "marginal_bases: 1\n");
}

void mds_infer_origin_add_input(struct mds_str *lines, const char *path)
{
    struct stat st = {0};

    if (stat(path, &st))
        st.st_size = 0;
    mds_str_add(lines, "input: %s, %" PRId64 " bytes\n", path, (int64_t)st.st_size);
}

void mds_infer_origin_add_inputs(struct mds_str *lines,
                                 const struct mds_infer_inputs *inputs)
{
    if (inputs->fasta) {
        mds_infer_origin_add_input(lines, inputs->fasta);
        mds_str_add(lines, "feature: %s\n", inputs->feature);
    }
    for (size_t i = 0; i < inputs->n; i++)
        mds_infer_origin_add_input(lines, inputs->path[i]);
}

static char *name_of(const char *output)
{
    struct mds_str name = {0};

    mds_str_add(&name, "%s.run", output);
    return name.s;
}

enum mds_rc mds_infer_origin_write(const char *output, const struct mds_str *lines)
{
    struct mds_output o;
    struct stat st;
    char *name;
    enum mds_rc rc;

    if (!output || (stat(output, &st) == 0 && !S_ISREG(st.st_mode)))
        return MDS_OK;
    name = name_of(output);
    if (!name || lines->failed)
        rc = MDS_EMEM;
    else
        rc = mds_output_open(name, &o);
    free(name);
    if (rc)
        return rc;
    fputs(lines->s, o.file);
    return mds_output_commit(&o);
}

void mds_infer_origin_remove(const char *output)
{
    struct stat st;
    char *name = name_of(output);

    if (name && stat(output, &st))
        unlink(name);
    free(name);
}

static int line_length(const char *text, const char *end)
{
    const char *stop = memchr(text, '\n', (size_t)(end - text));

    return (int)((stop ? stop : end) - text);
}

/* Names the first line that differs. */
static enum mds_rc compare(const char *output, const char *was, size_t n,
                           const struct mds_str *lines)
{
    const char *is = lines->s, *was_end = was + n, *is_end = is + lines->len;

    while (was < was_end || is < is_end) {
        int a = line_length(was, was_end), b = line_length(is, is_end);

        if (a != b || memcmp(was, is, (size_t)a) != 0)
            return mds_fail(MDS_EUSER,
                            "%s: was begun with \"%.*s\", and this is \"%.*s\"; give "
                            "what it was begun with, another --output, or --overwrite "
                            "in place of --resume",
                            output, a, was, b, is);
        was += a + (was + a < was_end);
        is += b + (is + b < is_end);
    }
    return MDS_OK;
}

enum mds_rc mds_infer_origin_check(const char *output, const struct mds_str *lines,
                                   int *begun)
{
    struct mds_map of = {0};
    struct stat st;
    char *name;
    enum mds_rc rc;

    *begun = stat(output, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    if (!*begun)
        return MDS_OK;
    name = name_of(output);
    if (!name || lines->failed) {
        rc = MDS_EMEM;
    } else if (stat(name, &st)) {
        rc = mds_fail(MDS_EUSER,
                      "%s: cannot be resumed, since there is no %s, which says what it "
                      "is of; --overwrite replaces it",
                      output, name);
    } else {
        rc = mds_map_open(name, &of);
        if (!rc)
            rc = compare(output, (const char *)of.bytes, (size_t)of.size, lines);
    }
    mds_map_close(&of);
    free(name);
    return rc;
}
