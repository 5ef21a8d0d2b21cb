/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts known to be good, from the model table. */
#include "base/units.h"
#include "config/tree.h"
#include "plan/layout.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One row of the table, as written. */
struct table_row {
    const char *model, *gpu, *source;
    int64_t gpus, max_seq;
    struct mds_layout layout;
};

/* The number of a name; -1 if it is none of them. */
static int index_of_name(const char *text, const char *const *names, int64_t *out)
{
    for (*out = 0; names[*out]; ++*out)
        if (strcmp(text, names[*out]) == 0)
            return 0;
    return -1;
}

static int parse_recompute(const char *text, struct mds_activations *a)
{
    int64_t recompute;

    if (index_of_name(text, mds_recompute_names, &recompute))
        return -1;
    a->recompute = (enum mds_recompute)recompute;
    return 0;
}

/* The number that key stands for, or NULL. */
static int64_t *find_number_field(struct table_row *r, const char *key)
{
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {
        {"gpus", &r->gpus},
        {"max_seq", &r->max_seq},
        {"tensor", &r->layout.tensor},
        {"pipeline", &r->layout.pipeline},
        {"ulysses", &r->layout.ulysses},
        {"ring", &r->layout.ring},
        {"expert", &r->layout.expert},
        {"zero", &r->layout.zero},
        {"micro", &r->layout.micro},
        {"global", &r->layout.global},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return numbers[i].to;
    return NULL;
}

/* 0, or -1 if the value is none. */
static int read_row_field(struct table_row *r, const struct mds_node *n)
{
    int64_t *to = find_number_field(r, n->key);

    if (!n->text)
        return -1;
    if (to)
        return mds_parse_count(n->text, to) || *to < 0 ? -1 : 0;
    if (strcmp(n->key, "model") == 0)
        r->model = n->text;
    else if (strcmp(n->key, "gpu") == 0)
        r->gpu = n->text;
    else if (strcmp(n->key, "source") == 0)
        r->source = n->text;
    else if (strcmp(n->key, "offload") == 0)
        return index_of_name(n->text, mds_place_names, &r->layout.offload_optimizer);
    else if (strcmp(n->key, "recompute") == 0)
        return parse_recompute(n->text, &r->layout.act);
    else
        return -1;
    return 0;
}

static int read_layout_row(const struct mds_tree *t, const struct mds_node *map,
                           struct table_row *r, struct mds_diag *diag)
{
    char origin[512];

    *r = (struct table_row){.layout = {.tensor = 1,
                                       .pipeline = 1,
                                       .ulysses = 1,
                                       .ring = 1,
                                       .expert = 1,
                                       .act = mds_act_defaults()}};
    for (const struct mds_node *n = map->first; n; n = n->next)
        if (!n->key || read_row_field(r, n)) {
            snprintf(origin, sizeof origin, "%s:%d", t->name, n->line);
            mds_diag_fault(diag, origin, "unknown key %s of a layout, or a bad value",
                           n->key ? n->key : "item");
            return -1;
        }
    if (!r->model || !r->gpu || !r->gpus) {
        snprintf(origin, sizeof origin, "%s:%d", t->name, map->line);
        mds_diag_fault(diag, origin, "a layout must give model, gpu and gpus");
        return -1;
    }
    r->layout.sequence_parallel = r->layout.tensor > 1;
    return 0;
}

/* "A100" in a row stands for A100-40GB and A100-80GB. */
static int is_gpu_kind(const char *table_row, const char *gpu)
{
    size_t n = strlen(table_row);

    return strncmp(table_row, gpu, n) == 0 && (gpu[n] == '\0' || gpu[n] == '-');
}

static void fill_layout_row(const struct mds_tree *t, const struct mds_node *n,
                            const struct table_row *r, struct mds_layout_row *out)
{
    const char *slash = strrchr(t->name, '/');

    out->layout = r->layout;
    snprintf(out->origin, sizeof out->origin, "%.100s:%d%s%.100s",
             slash ? slash + 1 : t->name, n->line, r->source ? ", " : "",
             r->source ? r->source : "");
}

int mds_layout_find(const struct mds_config_run *run, const char *gpu, int64_t ranks,
                    struct mds_diag *diag, struct mds_layout_row *out)
{
    const struct mds_config *c = &run->config;
    const struct mds_node *list;
    struct mds_tree *t = NULL;
    int found = 0;

    if (!c->model.size_key || !c->output.model_table || !gpu ||
        mds_tree_load(c->output.model_table, &t))
        return 0;
    list = mds_node_get(t->root, "layouts");
    for (const struct mds_node *n = list ? list->first : NULL; n && !found;
         n = n->next) {
        struct table_row r;

        if (read_layout_row(t, n, &r, diag))
            continue;
        if (strcasecmp(r.model, c->model.size_key) == 0 && is_gpu_kind(r.gpu, gpu) &&
            r.gpus == ranks && (!r.max_seq || c->model.seq_length <= r.max_seq)) {
            fill_layout_row(t, n, &r, out);
            found = 1;
        }
    }
    mds_tree_destroy(t);
    return found;
}
