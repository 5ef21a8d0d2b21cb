/* SPDX-License-Identifier: BSD-3-Clause */
#include "block/show.h"

#include "base/minmax.h"
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

/* What a message brings. */
static const char *message_name(const struct mds_step_list *p, const struct mds_step *s)
{
    if (s->op == MDS_STEP_PUT)
        return mds_step_info(MDS_STEP_PUT)->name;
    return p->tensor[s->out[mds_step_is_linear(s->op) ? MDS_OUT_SUM : 0]].name;
}

static void show_waits(const struct mds_step_list *p, const struct mds_step *step,
                       FILE *f)
{
    if (step->waits >> MDS_MESSAGE_O & 1)
        fputs("  waits for o", f);
    for (int i = 0; i < p->steps; i++) {
        const struct mds_step *s = &p->step[i];

        if (s->message >= 0 && step->waits >> s->message & 1)
            fprintf(f, "  waits for %s", message_name(p, s));
        if (s->message >= 0 && s->message == step->awaits)
            fprintf(f, "  waits for chunks of %s", message_name(p, s));
    }
    if (step->in_chunks)
        fputs("  sends chunks", f);
}

static void show_loop(const struct mds_step_list *p, FILE *f)
{
    int64_t tile = p->tile[MDS_ROWS_SLICE];

    fprintf(f, "     for %lld tiles of %lld rows:\n",
            (long long)mds_ceil_div(p->rows[MDS_ROWS_SLICE], tile), (long long)tile);
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
        show_waits(p, s, f);
        fputc('\n', f);
    }
}
