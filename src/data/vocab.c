/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/vocab.h"
#include "base/log.h"
#include "base/minmax.h"
#include "data/paths.h"
#include "data/source.h"

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

void mds_data_read_vocab(struct mds_config_run *run, int log)
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
