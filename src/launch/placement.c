/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of findings about nodes, ranks and GPUs, and printing it. */
#include "launch/placement.h"
#include "base/log.h"
#include "base/units.h"

#include <stddef.h>
#include <string.h>

struct mds_finding *mds_placement_add(struct mds_placement *p, const char *source)
{
    struct mds_finding *f;

    if (p->count == MDS_FINDINGS)
        return NULL;
    f = &p->found[p->count++];
    *f = (struct mds_finding){.source = source,
                              .nodes = -1,
                              .ranks = -1,
                              .local_ranks = -1,
                              .rank = -1,
                              .local_rank = -1,
                              .node = -1,
                              .gpus = -1};
    return f;
}

void mds_placement_fini(struct mds_placement *p)
{
    for (int i = 0; i < p->count; i++)
        mds_hosts_fini(&p->found[i].hosts);
    p->count = 0;
}

const struct mds_hosts *mds_placement_hosts(const struct mds_placement *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->found[i].hosts.count > 0)
            return &p->found[i].hosts;
    return NULL;
}

/* ---- printing ---- */

void mds_placement_warn(const struct mds_placement *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->found[i].note[0])
            mds_warn("%s: %s", p->found[i].source, p->found[i].note);
}

static void print_number(FILE *f, int n)
{
    if (n >= 0)
        fprintf(f, " %8d", n);
    else
        fprintf(f, " %8s", "-");
}

/* Which of the ranks this process is, where it is one. */
static void print_rank(FILE *f, const struct mds_finding *s)
{
    if (s->rank < 0)
        return;
    fprintf(f, "  rank %d", s->rank);
    if (s->local_rank >= 0)
        fprintf(f, ", %d of its node", s->local_rank);
    if (s->node >= 0)
        fprintf(f, ", node %d", s->node);
}

static void print_hosts(FILE *f, const struct mds_hosts *h)
{
    for (size_t i = 0; i < h->count && i < 4; i++)
        fprintf(f, "%s%s", i ? "," : "  ", h->name[i]);
    if (h->count > 4)
        fprintf(f, ",... %s", h->name[h->count - 1]);
}

/* The int at that offset of a finding. */
static int finding_number(const struct mds_finding *f, size_t at)
{
    int n;

    memcpy(&n, (const char *)f + at, sizeof n);
    return n;
}

/* A line for each source that says another number than the first that says one. */
static int print_disagreements(FILE *f, const char *what, const struct mds_placement *p,
                               size_t at)
{
    const struct mds_finding *first = NULL;
    int differ = 0;

    for (int i = 0; i < p->count; i++) {
        const struct mds_finding *next = &p->found[i];

        if (finding_number(next, at) < 0)
            continue;
        if (!first)
            first = next;
        if (finding_number(next, at) == finding_number(first, at))
            continue;
        fprintf(f, "disagreement: %s: %s says %d, %s says %d\n", what, first->source,
                finding_number(first, at), next->source, finding_number(next, at));
        differ++;
    }
    return differ;
}

int mds_placement_print(const struct mds_placement *p, FILE *f)
{
    fprintf(f, "host %s\n%-28s %8s %8s %8s %8s\n", p->host, "source", "nodes", "ranks",
            "a node", "GPUs");
    for (int i = 0; i < p->count; i++) {
        const struct mds_finding *s = &p->found[i];

        fprintf(f, "%-28s", s->source);
        print_number(f, s->nodes);
        print_number(f, s->ranks);
        print_number(f, s->local_ranks);
        print_number(f, s->gpus);
        print_rank(f, s);
        print_hosts(f, &s->hosts);
        fprintf(f, "%s%s", s->about[0] ? "  " : "", s->about);
        fprintf(f, "%s%s\n", s->note[0] ? "  " : "", s->note);
    }
    fprintf(f, "taken: %d node%s (%s), %d GPU%s a node (%s)\n", p->nodes,
            mds_plural(p->nodes), p->nodes_from, p->gpus, mds_plural(p->gpus),
            p->gpus_from);
    return print_disagreements(f, "nodes", p, offsetof(struct mds_finding, nodes)) +
           print_disagreements(f, "ranks", p, offsetof(struct mds_finding, ranks)) +
           print_disagreements(f, "ranks a node", p,
                               offsetof(struct mds_finding, local_ranks)) +
           print_disagreements(f, "GPUs a node", p, offsetof(struct mds_finding, gpus));
}
