/* SPDX-License-Identifier: BSD-3-Clause */
/* Find out the format of a token file. */
#include "data/source.h"

#include "base/alloc.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int exists_with_extension(const char *path, const char *extension)
{
    struct mds_str name = {0};
    int there;

    mds_str_add(&name, "%s%s", path, extension);
    there = !name.failed && access(name.s, F_OK) == 0;
    mds_str_fini(&name);
    return there;
}

int mds_source_is_there(const char *path)
{
    return access(path, F_OK) == 0 || exists_with_extension(path, ".idx");
}

int mds_source_is_megatron(const char *path)
{
    return mds_str_ends_with(path, ".bin") || mds_str_ends_with(path, ".idx") ||
           (access(path, F_OK) != 0 && exists_with_extension(path, ".idx"));
}

static enum mds_rc open_megatron(const char *path, struct mds_source **out)
{
    char *prefix = mds_strdup(path);
    enum mds_rc rc;

    if (!prefix)
        return MDS_EMEM;
    if (mds_str_ends_with(path, ".bin") || mds_str_ends_with(path, ".idx"))
        prefix[strlen(prefix) - 4] = '\0';
    rc = mds_source_open_megatron(prefix, out);
    free(prefix);
    return rc;
}

/* For FASTA, text and other files: say how to make a token file. */
static enum mds_rc check_hdf5_signature(const char *path)
{
    unsigned char head[2] = {0};
    FILE *f = fopen(path, "re");
    struct stat st;
    size_t n;

    if (!f)
        return mds_fail_open(MDS_EUSER, path);
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(f);
        return mds_fail(MDS_EUSER, "%s: a folder; name the token files in it", path);
    }
    n = fread(head, 1, sizeof head, f);
    fclose(f);
    if (n > 0 && (head[0] == '>' || (head[0] == 0x1f && head[1] == 0x8b)))
        return mds_fail(MDS_EUSER,
                        "%s: not a token file: make one with mds_data make --tokenizer "
                        "codon --output tokens.h5 %s",
                        path, path);
    return MDS_OK;
}

enum mds_rc mds_source_open_tokens(const char *path, struct mds_source **out)
{
    MDS_TRY(check_hdf5_signature(path));
    return mds_source_open_hdf5(path, out);
}

enum mds_rc mds_source_open(const char *path, struct mds_source **out)
{
    if (mds_source_is_megatron(path))
        return open_megatron(path, out);
    return mds_source_open_tokens(path, out);
}
