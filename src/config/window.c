/* SPDX-License-Identifier: BSD-3-Clause */
/* --window-size and --window-attn-skip-freq: which layers have an attention window. */
#include "config/config_impl.h"

#include "base/units.h"
#include "config/layer_list.h"

#include <string.h>

/* Parse "8192", or Megatron's "8191,0" and "(8191,0)": 8191 keys before the query's own
 * and 0 after it.  "-1,0" is no window: *keys = 0.  Returns -1 if text is none of
 * these. */
static int parse_window(const char *text, int64_t *keys)
{
    char left[32];
    const char *comma = strchr(text, ',');
    size_t n = comma ? (size_t)(comma - text) : 0;

    if (!comma)
        return mds_parse_count(text, keys) || *keys < 1 ? -1 : 0;
    text += *text == '(';
    n = (size_t)(comma - text);
    if (n >= sizeof left || (strcmp(comma, ",0") != 0 && strcmp(comma, ",0)") != 0))
        return -1;
    memcpy(left, text, n);
    left[n] = '\0';
    *keys = 0;
    if (strcmp(left, "-1") == 0)
        return 0;
    if (mds_parse_count(left, keys) || *keys < 0)
        return -1;
    *keys += 1;
    return 0;
}

static int is_windowed(const struct mds_model_config *m, int64_t layer)
{
    int is_local = 0;

    if (!m->window_skip)
        return 1;
    if (m->window_skip_freq > 0)
        return (layer + 1) % m->window_skip_freq != 0;
    mds_layer_list(m->window_skip, layer, &is_local);
    return is_local;
}

int64_t mds_model_window(const struct mds_model_config *m, int64_t layer)
{
    int all = m->window == 0 || m->window >= m->seq_length;

    return all || !is_windowed(m, layer) ? 0 : m->window;
}

static void resolve_skip(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;
    const char *origin = mds_config_origin(run, "model.window_skip");
    int64_t n;

    if (mds_parse_count(m->window_skip, &m->window_skip_freq) == 0) {
        if (m->window_skip_freq < 2)
            mds_diag_fault(diag, origin,
                           "--window-attn-skip-freq %s makes every layer global; give "
                           "at least 2, or leave --window-size out",
                           m->window_skip);
        return;
    }
    m->window_skip_freq = 0;
    n = mds_layer_list(m->window_skip, 0, NULL);
    if (n < 0)
        mds_diag_fault(diag, origin,
                       "--window-attn-skip-freq '%s' must be a number N (every N-th "
                       "layer is global) or a list of layers such as [1,1,0]*4, where "
                       "1 is a layer with the window",
                       m->window_skip);
    else if (n != m->layers)
        mds_diag_fault(diag, origin,
                       "--window-attn-skip-freq %s is for %lld layers, but "
                       "--num-layers is %lld",
                       m->window_skip, (long long)n, (long long)m->layers);
}

void mds_config_resolve_window(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_model_config *m = &run->config.model;

    m->window = m->window_skip_freq = 0;
    if (m->window_size && parse_window(m->window_size, &m->window))
        mds_diag_fault(diag, mds_config_origin(run, "model.window_size"),
                       "--window-size '%s' must be the number of keys that a query "
                       "sees, including its own, such as 8192; or Megatron's pair, "
                       "such as 8191,0, whose second number must be 0",
                       m->window_size);
    if (m->window_skip && !m->window_size)
        mds_diag_fault(diag, mds_config_origin(run, "model.window_skip"),
                       "--window-attn-skip-freq %s needs --window-size: without it all "
                       "layers are global",
                       m->window_skip);
    else if (m->window_skip)
        resolve_skip(run, diag);
}
