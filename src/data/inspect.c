/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/inspect.h"
#include "base/log.h"
#include "base/minmax.h"
#include "data/paths.h"
#include "data/source.h"

/* ---- the vocabulary ---- */

/* Words of all files; 0 if one is not here, or does not say. */
static int64_t largest_vocabulary(const struct mds_paths *p)
{
    int64_t most = 0;

    for (int i = 0; i < p->n; i++) {
        struct mds_source *s = NULL;
        int64_t words;

        if (mds_source_open(p->path[i], &s))
            return 0;
        words = s->vocab_seen ? 0 : s->vocab;
        mds_source_close(s);
        if (!words)
            return 0;
        most = mds_max(words, most);
    }
    return most;
}

static void read_vocabulary(struct mds_config_run *run, int log)
{
    const char *text = mds_config_data_paths(&run->config.data);
    struct mds_paths paths;
    int64_t words;

    if (run->config.model.vocab || !text ||
        mds_paths_parse("--data-path", text, &paths))
        return;
    words = largest_vocabulary(&paths);
    if (paths.n > 1)
        text = "the data";
    mds_paths_fini(&paths);
    if (!words)
        return;
    run->config.model.vocab = words;
    mds_settings_derived(&run->settings, "model.vocab", "words of the data");
    if (log)
        mds_info("vocabulary: the %lld words of %s", (long long)words, text);
}

/* ---- documents ---- */

static int has_documents_to_pack(const char *path)
{
    struct mds_source *s = NULL;
    int several;

    if (mds_source_open(path, &s))
        return 0; /* training will say why */
    several = s->tokenizer && s->documents > 1;
    mds_source_close(s);
    return several;
}

enum mds_pack mds_data_choose_packing(const struct mds_data_config *c)
{
    struct mds_paths paths;
    int any = 0;

    if (mds_paths_parse("--data-path", mds_config_data_paths(c), &paths))
        return MDS_PACK_OFF;
    for (int i = 0; i < paths.n && !any; i++)
        any = has_documents_to_pack(paths.path[i]);
    mds_paths_fini(&paths);
    return any ? MDS_PACK_ON : MDS_PACK_OFF;
}

void mds_data_inspect(struct mds_config_run *run, int log)
{
    read_vocabulary(run, log);
    if (mds_config_data_decide_packing(run))
        mds_config_set_packing(run, mds_data_choose_packing(&run->config.data));
}
