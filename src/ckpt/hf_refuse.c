/* SPDX-License-Identifier: BSD-3-Clause */
/* Architectures that mds does not read: what it would need. */
#include "base/units.h"
#include "ckpt/hf.h"
#include "config/tree.h"

#include <string.h>

/* The value of a key, in the part for text if the model has several; NULL if it is
 * missing or null. */
static const char *get_text(const struct mds_tree *t, const char *key)
{
    const struct mds_node *part = mds_node_get(t->root, "text_config");
    const struct mds_node *n = mds_node_get(part ? part : t->root, key);

    return n && n->text && strcmp(n->text, "null") != 0 ? n->text : NULL;
}

static int is_same_number(const char *a, const char *b)
{
    double x, y;

    return a && b && !mds_parse_real(a, &x) && !mds_parse_real(b, &y) && x == y;
}

/* Settings of Gemma 2 and 3 that are off if they are missing, null, or as large as the
 * other one. */
static void add_gemma_settings(const struct mds_tree *t, struct mds_str *out)
{
    static const struct {
        const char *key, *no_effect_at;
    } settings[] = {{"query_pre_attn_scalar", "head_dim"},
                    {"attn_logit_softcapping", NULL},
                    {"final_logit_softcapping", NULL},
                    {"rope_local_base_freq", "rope_theta"}};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *text = get_text(t, settings[i].key);
        const char *other =
            settings[i].no_effect_at ? get_text(t, settings[i].no_effect_at) : NULL;

        if (text && !is_same_number(text, other))
            mds_str_add(out, "%s %s, ", settings[i].key, text);
    }
}

static enum mds_rc refuse_gemma(const struct mds_tree *t, const char *type)
{
    struct mds_str lacks = {0};
    enum mds_rc rc;

    mds_str_add(&lacks, "gains of 1 + weight in norms, embeddings times the root of "
                        "hidden_size, ");
    if (strcmp(type, "gemma") != 0)
        mds_str_add(&lacks, "norms after attention and MLP, ");
    add_gemma_settings(t, &lacks);
    rc = lacks.failed
             ? mds_fail(MDS_EMEM, "no host memory")
             : mds_fail(MDS_EUSER, "%s: model_type is %s; mds lacks %sand GeGLU",
                        t->name, type, lacks.s);
    mds_str_fini(&lacks);
    return rc;
}

enum mds_rc mds_hf_refuse(const struct mds_tree *t, const char *type)
{
    static const char *const gemmas[] = {"gemma", "gemma2", "gemma3", "gemma3_text",
                                         NULL};

    if (type && mds_str_is_in(type, gemmas))
        return refuse_gemma(t, type);
    return mds_fail(MDS_EUSER,
                    "%s: model_type is %s; mds reads gpt2, gpt_neox, llama, mistral, "
                    "ministral, mixtral, qwen2, qwen3 and qwen3_moe",
                    t->name, type ? type : "missing");
}
