/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention windows in config.json: mistral has one sliding_window for all layers;
 * ministral, qwen2 and qwen3 also have a type for each layer.  Of models with experts
 * none that is read has a window. */
#include "ckpt/hf.h"

#include <inttypes.h>
#include <string.h>

/* ---- writing ---- */

/* qwen2 or qwen3, which describe windows in the same way. */
static int is_qwen(enum mds_hf_kind kind)
{
    return kind == MDS_HF_QWEN2 || kind == MDS_HF_QWEN3;
}

/* Whether the layer has the window, even if sequences are shorter than it. */
static int is_local(const struct mds_model_config *m, int64_t layer)
{
    struct mds_model_config any = *m;

    any.seq_length = INT64_MAX;
    return mds_model_window(&any, layer) > 0;
}

/* Older versions of transformers do not read layer_types, but this, if layers without a
 * window are the first ones. */
static void put_first_window(const struct mds_model_config *m, struct mds_str *out)
{
    int64_t first = 0, globals = 0;

    while (first < m->layers && !is_local(m, first))
        first++;
    for (int64_t i = 0; i < m->layers; i++)
        globals += !is_local(m, i);
    if (globals == first)
        mds_str_add(out, "  \"max_window_layers\": %" PRId64 ",\n", first);
}

void mds_hf_put_window(enum mds_hf_kind kind, const struct mds_model_config *m,
                       struct mds_str *out)
{
    if (m->window == 0)
        return;
    mds_str_add(out, "  \"sliding_window\": %" PRId64 ",\n", m->window);
    if (kind == MDS_HF_MISTRAL)
        return;
    if (is_qwen(kind)) {
        mds_str_add(out, "  \"use_sliding_window\": true,\n");
        put_first_window(m, out);
    }
    mds_str_add(out, "  \"layer_types\": [");
    for (int64_t i = 0; i < m->layers; i++)
        mds_str_add(out, "%s\"%s_attention\"", i ? ", " : "",
                    is_local(m, i) ? "sliding" : "full");
    mds_str_add(out, "],\n");
}

/* ---- reading ---- */

static int is_sliding(const struct mds_node *layer)
{
    return layer->text && strcmp(layer->text, "sliding_attention") == 0;
}

/* N if exactly every N-th layer is global; otherwise 0. */
static int global_frequency(const struct mds_node *layers)
{
    int first = 0, i = 0, same = 1;

    for (const struct mds_node *n = layers; n; n = n->next) {
        i++;
        if (!first && !is_sliding(n))
            first = i;
        same &= is_sliding(n) == (!first || i % first != 0);
    }
    return same && first > 1 ? first : 0;
}

/* Translate layer_types to window_skip: a number N, or a list of 0 and 1. */
static enum mds_rc get_types(const struct mds_tree *t, const struct mds_node *types,
                             struct mds_str *out)
{
    int every = global_frequency(types->first), globals = 0;
    struct mds_str list = {0};
    enum mds_rc rc = MDS_OK;

    for (const struct mds_node *n = types->first; n && !rc; n = n->next) {
        if (!is_sliding(n) && (!n->text || strcmp(n->text, "full_attention") != 0))
            rc = mds_fail(MDS_EUSER,
                          "%s:%d: a layer of type %s; mds supports full_attention and "
                          "sliding_attention only",
                          t->name, n->line, n->text ? n->text : "a list");
        mds_str_add(&list, "%s%d", n == types->first ? "" : ",", is_sliding(n));
        globals += !is_sliding(n);
    }
    if (every)
        mds_str_add(out, "  window_skip: %d\n", every);
    else if (globals)
        mds_str_add(out, "  window_skip: '[%s]'\n", list.s ? list.s : "");
    mds_str_fini(&list);
    return rc;
}

/* Without layer_types, the first max_window_layers layers of qwens are global. */
static enum mds_rc get_qwen_layers(const struct mds_tree *t, struct mds_str *out)
{
    int64_t layers, global;

    MDS_TRY(mds_hf_get_count(t, "num_hidden_layers", "", 1, &layers));
    MDS_TRY(mds_hf_get_count(t, "max_window_layers", "28", 0, &global));
    if (global >= layers)
        global = layers;
    if (global == 0)
        return MDS_OK;
    mds_str_add(out, "  window_skip: '[0]*%" PRId64, global);
    if (global < layers)
        mds_str_add(out, "+[1]*%" PRId64, layers - global);
    mds_str_add(out, "'\n");
    return MDS_OK;
}

enum mds_rc mds_hf_get_window(enum mds_hf_kind kind, const struct mds_tree *t,
                              struct mds_str *out)
{
    const struct mds_node *size = mds_node_get(t->root, "sliding_window");
    const struct mds_node *types = mds_node_get(t->root, "layer_types");
    int64_t window;
    int used = 1;

    if (is_qwen(kind))
        MDS_TRY(mds_hf_get_flag(t, t->root, "use_sliding_window", "false", &used));
    if (kind < MDS_HF_MISTRAL || kind >= MDS_HF_MIXTRAL || !used ||
        (size && size->text && strcmp(size->text, "null") == 0))
        return MDS_OK;
    MDS_TRY(mds_hf_get_count(t, "sliding_window", "4096", 1, &window));
    mds_str_add(out, "  window_size: %" PRId64 "\n", window);
    if (kind != MDS_HF_MISTRAL && types && types->kind == MDS_NODE_LIST && types->first)
        return get_types(t, types, out);
    return is_qwen(kind) ? get_qwen_layers(t, out) : MDS_OK;
}
