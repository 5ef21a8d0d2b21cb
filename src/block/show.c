/* SPDX-License-Identifier: BSD-3-Clause */
#include "block/show.h"

#include "base/units.h"

/* text += a tensor's name. */
static int append(const struct mds_step_list *p, mds_tid t, int brackets, char *text,
                  size_t size, int at)
{
    const struct mds_tensor *x = &p->tensor[t];
    int saved = brackets && (x->home == MDS_HOME_SAVED ||
                             (x->home == MDS_HOME_ARG && x->at == MDS_ARG_X));

    return at + snprintf(text + at, size - (size_t)at, "%s%s%s%s", at > 0 ? ", " : "",
                         saved ? "[" : "", x->name, saved ? "]" : "");
}

static void list_tensors(const struct mds_step_list *p, const mds_tid *t, int n,
                         int brackets, char *text, size_t size)
{
    int at = 0;

    text[0] = 0;
    for (int k = 0; k < n; k++)
        if (t[k] >= 0)
            at = append(p, t[k], brackets, text, size, at);
}

static void show_waits(const struct mds_step_list *p, unsigned waits, FILE *f)
{
    if (waits >> MDS_MESSAGE_O & 1)
        fputs("  waits for o", f);
    for (int i = 0; i < p->steps; i++)
        if (p->step[i].message >= 0 && waits >> p->step[i].message & 1)
            fprintf(f, "  waits for %s",
                    p->step[i].op == MDS_STEP_PUT ? mds_step_info(MDS_STEP_PUT)->name
                                                  : p->tensor[p->step[i].out[0]].name);
}

static void show_loop(const struct mds_step_list *p, FILE *f)
{
    int64_t tile = p->tile[MDS_ROWS_SLICE];

    fprintf(f, "     for %lld tiles of %lld rows:\n",
            (long long)((p->rows[MDS_ROWS_SLICE] + tile - 1) / tile), (long long)tile);
}

void mds_block_show(const struct mds_step_list *p, FILE *f)
{
    for (int i = 0; i < p->steps; i++) {
        const struct mds_step *s = &p->step[i];
        char what[64], in[80], out[80], bytes[32] = "";

        if (p->groups > 1 && s->of_heads && (i == 0 || !p->step[i - 1].of_heads))
            fprintf(f, "   for %d groups of heads:\n", p->groups);
        if (s->loop && (i == 0 || p->step[i - 1].loop != s->loop))
            show_loop(p, f);
        snprintf(what, sizeof what, "%s%s %s", s->loop ? "  " : "",
                 mds_step_info(s->op)->name, s->layer >= 0 ? p->layer[s->layer] : "");
        list_tensors(p, s->in, MDS_STEP_IN, 0, in, sizeof in);
        list_tensors(p, s->out, MDS_STEP_OUT, p->d < 0, out, sizeof out);
        if (s->top > 0)
            mds_format_bytes((double)s->top, bytes, sizeof bytes);
        fprintf(f, "%4d %-26s %-22s %s %-24s %10s", i, what, out, in[0] ? "<" : " ", in,
                bytes);
        show_waits(p, s->waits, f);
        fputc('\n', f);
    }
}
