/* SPDX-License-Identifier: BSD-3-Clause */
/* The only home of htslib/faidx.h. */
#include "infer/genome.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "data/fasta.h"

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned char mds_genome_base(char letter)
{
    switch (letter) {
    case 'A':
    case 'a':
        return MDS_BASE_A;
    case 'C':
    case 'c':
        return MDS_BASE_C;
    case 'G':
    case 'g':
        return MDS_BASE_G;
    case 'T':
    case 't':
    case 'U':
    case 'u':
        return MDS_BASE_T;
    default:
        return MDS_BASE_N;
    }
}

#if HAVE_HTSLIB
#include <htslib/faidx.h>

struct mds_genome {
    faidx_t *index;
    char *path;
};

/* An index of what the file was before is made again. */
static void remove_old_index(const char *path)
{
    struct mds_str index = {0};
    struct stat genome, of;

    mds_str_add(&index, "%s.fai", path);
    if (!index.failed && !stat(path, &genome) && !stat(index.s, &of) &&
        of.st_mtime < genome.st_mtime && unlink(index.s))
        mds_warn("%s: is older than its FASTA, and cannot be replaced: %s", index.s,
                 strerror(errno));
    mds_str_fini(&index);
}

static enum mds_rc open_genome(const char *path, int flags, struct mds_genome **out)
{
    struct mds_genome *g;

    hts_set_log_level(HTS_LOG_OFF);
    if (access(path, R_OK))
        return mds_fail_open(MDS_EUSER, path);
    g = mds_zalloc(1, sizeof *g);
    if (!g)
        return MDS_EMEM;
    if (flags & FAI_CREATE)
        remove_old_index(path);
    g->path = mds_strdup(path);
    if (g->path)
        g->index = fai_load3(path, NULL, NULL, flags);
    if (g->index) {
        *out = g;
        return MDS_OK;
    }
    mds_genome_close(g);
    return mds_fail(
        MDS_EUSER,
        "%s: cannot be read by parts: it has no index %s.fai and none can be "
        "made; is it FASTA, plain or compressed by bgzip (not gzip), in a "
        "folder that can be written?",
        path, path);
}

enum mds_rc mds_genome_open(const char *path, struct mds_genome **out)
{
    return open_genome(path, 0, out);
}

enum mds_rc mds_genome_index(const char *path)
{
    struct mds_genome *g;

    MDS_TRY(open_genome(path, FAI_CREATE, &g));
    mds_genome_close(g);
    return MDS_OK;
}

void mds_genome_close(struct mds_genome *g)
{
    if (!g)
        return;
    if (g->index)
        fai_destroy(g->index);
    free(g->path);
    free(g);
}

int64_t mds_genome_length(const struct mds_genome *g, const char *name)
{
    return faidx_has_seq(g->index, name) ? faidx_seq_len(g->index, name) : -1;
}

enum mds_rc mds_genome_read(struct mds_genome *g, const char *name, int64_t first,
                            int64_t n, unsigned char *bases)
{
    hts_pos_t got = 0;
    char *text = faidx_fetch_seq64(g->index, name, first, first + n - 1, &got);
    enum mds_rc rc = MDS_OK;

    if (!text || got != n)
        rc = mds_fail(MDS_EUSER,
                      "%s: bases %" PRId64 " to %" PRId64
                      " of %s cannot be read: is %s.fai that of this file?",
                      g->path, first + 1, first + n, name, g->path);
    for (int64_t i = 0; !rc && i < n; i++)
        bases[i] = mds_genome_base(text[i]);
    free(text);
    return rc;
}

#else

enum mds_rc mds_genome_open(const char *path, struct mds_genome **out)
{
    (void)out;
    return mds_genome_index(path);
}

enum mds_rc mds_genome_index(const char *path)
{
    return mds_fail(MDS_ENOSUP,
                    "%s: this build has no htslib, which reads variants and parts of "
                    "FASTA; install it (Debian: libhts-dev) and configure again",
                    path);
}

void mds_genome_close(struct mds_genome *g)
{
    (void)g;
}

int64_t mds_genome_length(const struct mds_genome *g, const char *name)
{
    (void)g, (void)name;
    return -1;
}

enum mds_rc mds_genome_read(struct mds_genome *g, const char *name, int64_t first,
                            int64_t n, unsigned char *bases)
{
    (void)g, (void)first, (void)n, (void)bases;
    return mds_fail(MDS_EBUG, "%s: a genome without htslib", name);
}

#endif
