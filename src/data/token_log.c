/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/token_log.h"

#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>
#include <string.h>

/* The file is a list of entries: a header, ids[n], and kinds[n] if it has them. */
struct header {
    int32_t n;
    int16_t has_kinds, ends_document;
};

enum { ENTRY_MAX = MDS_MAKE_BLOCK, BUFFER = 1 << 19 };

enum mds_rc mds_token_log_init(const char *near, const struct mds_vocabulary *v,
                               struct mds_token_log *log)
{
    *log = (struct mds_token_log){.file.fd = -1, .id_bytes = v->size <= 65536 ? 2 : 4};
    log->buffer = mds_zalloc(BUFFER, 1);
    return log->buffer ? mds_record_file_init(near, &log->file) : MDS_EMEM;
}

void mds_token_log_fini(struct mds_token_log *log)
{
    mds_record_file_fini(&log->file);
    free(log->buffer);
    log->buffer = NULL;
}

static enum mds_rc flush(struct mds_token_log *log)
{
    MDS_TRY(mds_record_file_append(&log->file, log->buffer, log->buffered));
    log->buffered = 0;
    return MDS_OK;
}

static void put(struct mds_token_log *log, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(log->buffer + log->buffered, bytes, n);
    log->buffered += n;
}

static void put_ids(struct mds_token_log *log, const int32_t *ids, size_t n)
{
    if (log->id_bytes == 4) {
        put(log, ids, n * sizeof *ids);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char *at = log->buffer + log->buffered + 2 * i;

        at[0] = (unsigned char)ids[i];
        at[1] = (unsigned char)(ids[i] >> 8);
    }
    log->buffered += 2 * n;
}

static enum mds_rc add_entry(struct mds_token_log *log, const struct header *h,
                             const int32_t *ids, const unsigned char *kinds)
{
    size_t n = (size_t)h->n;

    if (log->buffered + sizeof *h + n * 5 > BUFFER)
        MDS_TRY(flush(log));
    put(log, h, sizeof *h);
    put_ids(log, ids, n);
    if (kinds)
        put(log, kinds, n);
    return MDS_OK;
}

enum mds_rc mds_token_log_add(void *to, const int32_t *ids, const unsigned char *kinds,
                              size_t n)
{
    for (size_t done = 0; done < n;) {
        size_t take = mds_min(n - done, (size_t)ENTRY_MAX);
        struct header h = {(int32_t)take, kinds != NULL, 0};

        MDS_TRY(add_entry(to, &h, ids + done, kinds ? kinds + done : NULL));
        done += take;
    }
    return MDS_OK;
}

enum mds_rc mds_token_log_end_document(void *to)
{
    return add_entry(to, &(struct header){.ends_document = 1}, NULL, NULL);
}

enum mds_rc mds_token_log_close(struct mds_token_log *log)
{
    MDS_TRY(flush(log));
    free(log->buffer);
    log->buffer = NULL;
    return MDS_OK;
}

/* Read the entry at *at into ids and kinds, and move *at past it. */
static enum mds_rc read_entry(const struct mds_token_log *log, int64_t *at,
                              struct header *h, int32_t *ids, unsigned char *kinds)
{
    unsigned char *bytes = (unsigned char *)ids;
    size_t n;

    MDS_TRY(mds_record_file_read(&log->file, *at, h, sizeof *h));
    *at += (int64_t)sizeof *h;
    n = (size_t)h->n;
    MDS_TRY(mds_record_file_read(&log->file, *at, bytes, n * (size_t)log->id_bytes));
    *at += (int64_t)n * log->id_bytes;
    for (size_t i = n; log->id_bytes == 2 && i-- > 0;) /* widened in place */
        ids[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
    if (!h->has_kinds)
        return MDS_OK;
    MDS_TRY(mds_record_file_read(&log->file, *at, kinds, n));
    *at += (int64_t)n;
    return MDS_OK;
}

static enum mds_rc replay(const struct mds_token_log *log,
                          const struct mds_token_sink *sink, int32_t *ids,
                          unsigned char *kinds)
{
    struct header h;

    for (int64_t at = 0; at < log->file.length;) {
        MDS_TRY(read_entry(log, &at, &h, ids, kinds));
        MDS_TRY(h.ends_document ? sink->end_document(sink->to)
                                : sink->add(sink->to, ids, h.has_kinds ? kinds : NULL,
                                            (size_t)h.n));
    }
    return MDS_OK;
}

enum mds_rc mds_token_log_replay(const struct mds_token_log *log,
                                 const struct mds_token_sink *sink)
{
    int32_t *ids = mds_zalloc(ENTRY_MAX, sizeof *ids);
    unsigned char *kinds = mds_zalloc(ENTRY_MAX, 1);
    enum mds_rc rc = ids && kinds ? replay(log, sink, ids, kinds) : MDS_EMEM;

    free(ids);
    free(kinds);
    return rc;
}
