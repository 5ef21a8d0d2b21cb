/* SPDX-License-Identifier: BSD-3-Clause */
/* Scaled rotary frequencies in config.json: "rope_scaling", which transformers 5 calls
 * "rope_parameters"; and how values are read. */
#include "base/log.h"
#include "base/units.h"
#include "ckpt/hf.h"
#include "config/rope.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- values of config.json ---- */

enum mds_rc mds_hf_get_flag(const struct mds_tree *t, const struct mds_node *map,
                            const char *key, const char *fallback, int *out)
{
    const struct mds_node *n = mds_node_get(map, key);
    const char *text = n ? n->text : fallback;

    if (text && strcmp(text, "null") == 0)
        text = fallback;
    *out = text && strcmp(text, "true") == 0;
    if (*out || (text && strcmp(text, "false") == 0))
        return MDS_OK;
    return mds_fail(MDS_EUSER, "%s: %s is %s, and not true or false", t->name, key,
                    text ? text : "a list");
}

enum mds_rc mds_hf_get_count(const struct mds_tree *t, const char *key,
                             const char *fallback, int64_t least, int64_t *out)
{
    const struct mds_node *n = mds_node_get(t->root, key);
    const char *text =
        n && n->text && strcmp(n->text, "null") != 0 ? n->text : fallback;

    if (mds_parse_count(text, out) != 0 || *out < least)
        return mds_fail(MDS_EUSER, "%s: %s is %s, not a whole number from %" PRId64,
                        t->name, key, *text ? text : "missing", least);
    return MDS_OK;
}

/* ---- writing ---- */

void mds_hf_add_real(struct mds_str *out, double value)
{
    char text[32];

    mds_format_real(value, text, sizeof text);
    /* transformers tells 1 and 1.0 apart */
    mds_str_add(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void add_number(struct mds_str *out, const char *key, double value)
{
    mds_str_add(out, ", \"%s\": ", key);
    mds_hf_add_real(out, value);
}

/* Not for ntk: config.json has its scaled base as rope_theta. */
void mds_hf_put_rope_scaling(const struct mds_model_config *m, struct mds_str *out)
{
    int is_yarn = m->rope_scaling == MDS_ROPE_YARN;

    if (m->rope_scaling == MDS_ROPE_UNSCALED || m->rope_scaling == MDS_ROPE_NTK)
        return;
    mds_str_add(out, "  \"rope_scaling\": {\"rope_type\": \"%s\"",
                mds_rope_scaling_names[m->rope_scaling]);
    add_number(out, "factor", m->rope_factor);
    if (m->rope_scaling != MDS_ROPE_LINEAR) {
        mds_str_add(out, ", \"original_max_position_embeddings\": %" PRId64,
                    m->rope_original);
        add_number(out, is_yarn ? "beta_fast" : "high_freq_factor",
                   mds_rope_beta_fast(m));
        add_number(out, is_yarn ? "beta_slow" : "low_freq_factor", m->rope_beta_slow);
    }
    if (is_yarn && m->rope_attention_factor > 0)
        add_number(out, "attention_factor", m->rope_attention_factor);
    mds_str_add(out, "},\n");
}

/* ---- reading: maps by type of layer ---- */

/* NULL if it is missing or null. */
static const char *text_in(const struct mds_node *map, const char *key)
{
    const struct mds_node *n = mds_node_get(map, key);
    const char *text = n && n->text && strcmp(n->text, "null") != 0 ? n->text : NULL;

    return !text && strcmp(key, "rope_type") == 0 ? "default" : text;
}

static int is_equal(const char *a, const char *b)
{
    double x, y;

    if (!a || !b)
        return a == b;
    return strcmp(a, b) == 0 ||
           (!mds_parse_real(a, &x) && !mds_parse_real(b, &y) && x == y);
}

/* A key of map whose value in other is another; NULL if there is none. */
static const char *find_difference(const struct mds_node *map,
                                   const struct mds_node *other)
{
    for (const struct mds_node *n = map->first; n; n = n->next)
        if (!is_equal(text_in(map, n->key), text_in(other, n->key)))
            return n->key;
    return NULL;
}

static const char *format_value(const struct mds_node *map, const char *key)
{
    const char *text = text_in(map, key);

    return text ? text : "missing";
}

enum mds_rc mds_hf_find_rope(const struct mds_tree *t, const struct mds_node **out)
{
    const struct mds_node *map = mds_node_get(t->root, "rope_parameters");
    const struct mds_node *first = map ? map->first : NULL;

    while (first && first->kind != MDS_NODE_MAP)
        first = first->next;
    *out = first ? first : map;
    for (const struct mds_node *n = first ? map->first : NULL; n; n = n->next) {
        const char *key = find_difference(n, first);

        if (!key)
            key = find_difference(first, n);
        if (key)
            return mds_fail(MDS_EUSER,
                            "%s:%d: rope_parameters: %s is %s in %s and %s in %s; mds "
                            "rotates all layers alike",
                            t->name, n->line, key, format_value(n, key), n->key,
                            format_value(first, key), first->key);
    }
    return MDS_OK;
}

/* ---- reading: scaling ---- */

/* The map with the scaling, and its name for messages. */
struct scaling {
    const struct mds_tree *t;
    const struct mds_node *map;
    const char *name, *type;
};

static struct scaling find_scaling(const struct mds_tree *t,
                                   const struct mds_node *rope)
{
    static const char *const places[] = {"rope_scaling", "rope_parameters"};
    struct scaling s = {.t = t};

    for (int i = 0; i < 2 && !s.type; i++) {
        const struct mds_node *type;

        s.map = i == 0 ? mds_node_get(t->root, places[i]) : rope;
        s.name = places[i];
        type = mds_node_get(s.map, "rope_type");
        if (!type)
            type = mds_node_get(s.map, "type"); /* before transformers 4.43 */
        s.type = type ? type->text : NULL;
    }
    return s;
}

/* A number of a map; fallback where it is missing or null. */
static enum mds_rc get_real(const struct scaling *s, const struct mds_node *map,
                            const char *key, double fallback, double *out)
{
    const struct mds_node *n = mds_node_get(map, key);

    *out = fallback;
    if (!n || (n->text && strcmp(n->text, "null") == 0))
        return MDS_OK;
    if (n->text && mds_parse_real(n->text, out) == 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER, "%s: %s of type %s: %s is not a number", s->t->name,
                    s->name, s->type, key);
}

static void set(struct mds_str *out, const char *key, double value)
{
    char text[32];

    mds_str_add(out, "  %s: %s\n", key, mds_format_real(value, text, sizeof text));
}

/* If attention_factor is missing, transformers computes it from DeepSeek's mscale and
 * mscale_all_dim. */
static enum mds_rc get_attention_factor(const struct scaling *s, double factor,
                                        double *out)
{
    double mscale, all_dim;

    MDS_TRY(get_real(s, s->map, "mscale", 0, &mscale));
    MDS_TRY(get_real(s, s->map, "mscale_all_dim", 0, &all_dim));
    MDS_TRY(get_real(s, s->map, "attention_factor", 0, out));
    if (*out == 0 && mscale != 0 && all_dim != 0)
        *out = (0.1 * mscale * log(factor) + 1) / (0.1 * all_dim * log(factor) + 1);
    return MDS_OK;
}

static enum mds_rc get_by_turns(const struct scaling *s, int is_yarn,
                                struct mds_str *out)
{
    double longest, original, factor, fast, slow, attention = 0;
    int truncate;

    MDS_TRY(mds_hf_get_flag(s->t, s->map, "truncate", "true", &truncate));
    if (!truncate)
        return mds_fail(MDS_EUSER,
                        "%s: %s has \"truncate\": false, which mds does not support",
                        s->t->name, s->name);
    MDS_TRY(get_real(s, s->t->root, "max_position_embeddings", 0, &longest));
    MDS_TRY(
        get_real(s, s->map, "original_max_position_embeddings", longest, &original));
    MDS_TRY(
        get_real(s, s->map, "factor", original > 0 ? longest / original : 0, &factor));
    MDS_TRY(get_real(s, s->map, is_yarn ? "beta_fast" : "high_freq_factor", 0, &fast));
    MDS_TRY(get_real(s, s->map, is_yarn ? "beta_slow" : "low_freq_factor", 1, &slow));
    if (is_yarn)
        MDS_TRY(get_attention_factor(s, factor, &attention));
    set(out, "rope_scaling_factor", factor);
    set(out, "rope_original", original);
    set(out, "rope_beta_fast", fast == (is_yarn ? 32 : 4) ? 0 : fast); /* default */
    set(out, "rope_beta_slow", slow > 0 ? slow : 1);
    set(out, "rope_attention_factor", attention);
    return MDS_OK;
}

/* Type dynamic depends on the length of the prompt; up to max_position_embeddings it
 * does not scale. */
static enum mds_rc get_dynamic(const struct scaling *s)
{
    double longest, factor;

    MDS_TRY(get_real(s, s->t->root, "max_position_embeddings", 0, &longest));
    MDS_TRY(get_real(s, s->map, "factor", 1, &factor));
    mds_warn("%s: %s of type dynamic is imported without scaling, which is right for "
             "up to %.0f tokens; for n times as many give --override-model-config "
             "--rope-scaling-type ntk --rope-scaling-factor F, with F = %g n - %g",
             s->t->name, s->name, longest, factor, factor - 1);
    return MDS_OK;
}

enum mds_rc mds_hf_get_rope_scaling(const struct mds_tree *t,
                                    const struct mds_node *rope, struct mds_str *out)
{
    struct scaling s = find_scaling(t, rope);
    const char *type = s.type ? s.type : "default";
    int is_yarn = strcmp(type, "yarn") == 0;
    double factor;

    if (strcmp(type, "default") == 0)
        return MDS_OK;
    if (strcmp(type, "dynamic") == 0)
        return get_dynamic(&s);
    if (strcmp(type, "linear") == 0) {
        MDS_TRY(get_real(&s, s.map, "factor", 0, &factor));
        if (factor == 0)
            return mds_fail(MDS_EUSER, "%s: %s of type linear has no factor", t->name,
                            s.name);
        set(out, "rope_scaling_factor", factor);
    } else if (is_yarn || strcmp(type, "llama3") == 0) {
        MDS_TRY(get_by_turns(&s, is_yarn, out));
    } else {
        return mds_fail(MDS_EUSER,
                        "%s: %s of type %s%s; mds supports only default, linear, "
                        "dynamic, yarn and llama3",
                        t->name, s.name, type,
                        strcmp(type, "longrope") == 0
                            ? ", which has two factors of its own for each frequency"
                            : "");
    }
    mds_str_add(out, "  rope_scaling_type: %s\n", type);
    return MDS_OK;
}
