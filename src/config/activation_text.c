/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of activation memory as text, for command lines and for people. */
#include "base/units.h"
#include "config/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Read "attention=7" or "inputs=9"; 0: text begins otherwise. */
static int read_word(const char *text, struct mds_activations *a, unsigned *given)
{
    for (int i = 0; i < MDS_ACT_OPTIONS; i++) {
        const char *word = mds_act_options[i].word;
        size_t n = word ? strlen(word) : 0;
        char number[32];
        int64_t count;

        if (!word || strncasecmp(text, word, n) != 0 || text[n] != '=')
            continue;
        snprintf(number, sizeof number, "%.*s", (int)strcspn(text, ",") - (int)n - 1,
                 text + n + 1);
        if (mds_parse_count(number, &count) == 0)
            mds_act_set(a, &mds_act_options[i], count);
        *given |= 1u << i;
        return 1;
    }
    return 0;
}

/* The table of options has checked all words. */
int mds_act_read(const char *text, struct mds_activations *a, unsigned *given)
{
    int level = MDS_ACT_NO_LEVEL;

    for (; text; text = strchr(text, ','), text += text != NULL)
        if (!read_word(text, a, given))
            level = strncasecmp(text, "auto", 4) ? atoi(text) : MDS_ACT_OPEN_LEVEL;
    return level;
}

void mds_act_text(const struct mds_activations *a, unsigned but, struct mds_str *out)
{
    const struct mds_activations defaults = mds_act_defaults();
    struct mds_str words = {0};

    for (int i = 0; i < MDS_ACT_OPTIONS; i++) {
        const struct mds_act_option *o = &mds_act_options[i];
        int64_t value = mds_act_get(a, o);

        if (but & 1u << i || value == mds_act_get(&defaults, o))
            continue;
        if (o->word)
            mds_str_add(&words, "%s%s=%lld", words.len ? "," : "", o->word,
                        (long long)value);
        else
            mds_option_text(mds_option_of(&mds_pretrain_options, o->key), value, out);
    }
    if (words.len)
        mds_str_add(out, "%s--activation-memory %s", out->len ? " " : "", words.s);
    mds_str_fini(&words);
}

void mds_act_text_behind(const struct mds_activations *a, const char *asked,
                         unsigned fixed, struct mds_str *out)
{
    const unsigned words = mds_act_words();
    struct mds_activations user = mds_act_defaults();
    struct mds_str added = {0};
    unsigned given = 0;
    int is_open = asked && mds_act_read(asked, &user, &given) == MDS_ACT_OPEN_LEVEL;

    mds_act_text(a, fixed | ~words, &added);
    if (asked && (added.len || is_open))
        fixed &= ~(words | mds_act_level_policy() | mds_act_level_tiles());
    mds_act_text(a, fixed, out);
    if (is_open && !a->keep_attention && !a->device_inputs)
        mds_str_add(out, "%s--activation-memory attention=0", out->len ? " " : "");
    mds_str_fini(&added);
}

void mds_act_describe(const struct mds_activations *a, struct mds_str *out)
{
    static const char *const recomputes[] = {"", ", selective recompute",
                                             ", full recompute"};

    mds_str_add(out, "%s%s", recomputes[a->recompute],
                a->offload_activations ? ", inputs on the host" : "");
    if (a->recompute_modules)
        mds_str_add(out, " of %s", mds_recompute_modules_name(a->recompute_modules));
    if (a->recompute_layers > 1)
        mds_str_add(out, ", one for %lld blocks", (long long)a->recompute_layers);
    if (a->device_inputs)
        mds_str_add(out, ", those of %lld block%s on the device",
                    (long long)a->device_inputs, mds_plural(a->device_inputs));
    if (a->keep_attention)
        mds_str_add(out, ", attention kept of %lld block%s",
                    (long long)a->keep_attention, mds_plural(a->keep_attention));
    if (a->offload_layers)
        mds_str_add(out, ", activations of %lld block%s on the host",
                    (long long)a->offload_layers, mds_plural(a->offload_layers));
    if (a->head_groups > 1)
        mds_str_add(out, ", heads in %lld groups", (long long)a->head_groups);
    if (a->sequence_tile)
        mds_str_add(out, ", tiles of %lld", (long long)a->sequence_tile);
}
