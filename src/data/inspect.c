/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/inspect.h"
#include "base/log.h"
#include "base/minmax.h"
#include "data/paths.h"
#include "data/source.h"

struct facts {
    int64_t words;     /* of the largest vocabulary */
    int no_words;      /* a file is not here, or states no vocabulary */
    int has_documents; /* a file of mds_data has several */
    const char *data;  /* for messages: the file, or "the data" */
};

/* Megatron's files state no vocabulary and are not packed, and opening them checks an
 * index that may be long. */
static void add_file(const char *path, int64_t scanned, struct facts *f)
{
    struct mds_source *s = NULL;

    if (mds_source_is_megatron(path)) {
        f->no_words |= scanned == 0;
        f->words = mds_max(scanned, f->words);
        return;
    }
    if (mds_source_open_tokens(path, &s)) {
        f->no_words = 1; /* training will say why it cannot be opened */
        return;
    }
    f->no_words |= s->vocab_seen || s->vocab == 0;
    f->words = mds_max(s->vocab, f->words);
    f->has_documents |= s->documents > 1;
    mds_source_close(s);
}

static struct facts read_facts(const struct mds_data_config *c, int64_t scanned)
{
    struct facts f = {.no_words = 1, .data = mds_config_data_paths(c)};
    struct mds_paths paths;

    if (!f.data || mds_paths_parse("--data-path", f.data, &paths))
        return f;
    f.no_words = 0;
    for (int i = 0; i < paths.n; i++)
        add_file(paths.path[i], scanned, &f);
    if (paths.n > 1)
        f.data = "the data";
    mds_paths_fini(&paths);
    return f;
}

static enum mds_pack packing_of(const struct facts *f)
{
    return f->has_documents ? MDS_PACK_ON : MDS_PACK_OFF;
}

enum mds_pack mds_data_choose_packing(const struct mds_data_config *c)
{
    struct facts f = read_facts(c, 0);

    return packing_of(&f);
}

static void set_vocabulary(struct mds_config_run *run, const struct facts *f, int log)
{
    run->config.model.vocab = f->words;
    mds_settings_derived(&run->settings, "model.vocab", "words of the data");
    if (log)
        mds_info("vocabulary: the %lld words of %s", (long long)f->words, f->data);
}

void mds_data_inspect(struct mds_config_run *run, int64_t scanned, int log)
{
    int wants_words =
        !run->config.model.vocab ||
        mds_settings_of(&run->settings, "model.vocab")->level == MDS_LEVEL_CHECKPOINT;
    int wants_packing = mds_config_data_decide_packing(run);
    struct facts f;

    if (!wants_words && !wants_packing)
        return;
    f = read_facts(&run->config.data, scanned);
    if (wants_words && !f.no_words && f.words > run->config.model.vocab)
        set_vocabulary(run, &f, log);
    if (wants_packing)
        mds_config_set_packing(run, packing_of(&f));
}
