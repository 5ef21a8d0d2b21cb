/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx, which knows the job as the launcher made it.  The only home of pmix.h. */
#include "launch/placement.h"

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if HAVE_PMIX
#include <pmix.h>

/* A value as a number, whatever its width; -1 if it is none or not there.  Keys of the
 * job stand under the wildcard rank. */
static int pmix_get_int(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *v = NULL;
    int n = -1;

    if (PMIx_Get(proc, key, NULL, 0, &v) != PMIX_SUCCESS || !v)
        return -1;
    if (v->type == PMIX_UINT32)
        n = (int)v->data.uint32;
    else if (v->type == PMIX_UINT16)
        n = v->data.uint16;
    else if (v->type == PMIX_INT || v->type == PMIX_INT32)
        n = v->data.integer;
    else if (v->type == PMIX_SIZE)
        n = (int)v->data.size;
    PMIX_VALUE_RELEASE(v);
    return n;
}

/* The place of this process's node in the list; -1 if it is not there. */
static int find_node_of_rank(const pmix_proc_t *self, const struct mds_hosts *h)
{
    pmix_value_t *v = NULL;
    int node = -1;

    if (PMIx_Get(self, PMIX_HOSTNAME, NULL, 0, &v) != PMIX_SUCCESS || !v)
        return -1;
    for (size_t i = 0; v->type == PMIX_STRING && i < h->count && node < 0; i++)
        if (strcmp(h->name[i], v->data.string) == 0)
            node = (int)i;
    PMIX_VALUE_RELEASE(v);
    return node;
}

static void get_node_list(const pmix_proc_t *job, struct mds_finding *f)
{
    pmix_value_t *v = NULL;

    if (PMIx_Get(job, PMIX_NODE_LIST, NULL, 0, &v) != PMIX_SUCCESS || !v)
        return;
    if (v->type == PMIX_STRING && mds_hosts_expand(v->data.string, &f->hosts))
        snprintf(f->note, sizeof f->note, "%.200s", mds_fail_text());
    PMIX_VALUE_RELEASE(v);
}

static void fill_finding(const pmix_proc_t *self, struct mds_finding *f)
{
    pmix_proc_t job;

    PMIX_PROC_LOAD(&job, self->nspace, PMIX_RANK_WILDCARD);
    f->rank = (int)self->rank;
    f->ranks = pmix_get_int(&job, PMIX_JOB_SIZE);
    f->nodes = pmix_get_int(&job, PMIX_NUM_NODES);
    f->local_ranks = pmix_get_int(&job, PMIX_LOCAL_SIZE);
    f->local_rank = pmix_get_int(self, PMIX_LOCAL_RANK);
    get_node_list(&job, f);
    f->node = find_node_of_rank(self, &f->hosts); /* PMIX_NODEID need not begin at 0 */
}

void mds_find_pmix(struct mds_placement *p)
{
    struct mds_finding *f;
    pmix_proc_t self;
    pmix_status_t status;

    if (!getenv("PMIX_NAMESPACE"))
        return;
    f = mds_placement_add(p, "PMIx");
    if (!f)
        return;
    status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        snprintf(f->note, sizeof f->note,
                 "PMIX_NAMESPACE is set, but its server cannot be reached: %s",
                 PMIx_Error_string(status));
        return;
    }
    fill_finding(&self, f);
    PMIx_Finalize(NULL, 0);
}
#else
void mds_find_pmix(struct mds_placement *p)
{
    struct mds_finding *f;

    if (!getenv("PMIX_NAMESPACE"))
        return;
    f = mds_placement_add(p, "PMIx");
    if (f)
        snprintf(f->note, sizeof f->note,
                 "PMIX_NAMESPACE is set, but this build has no libpmix to ask it with");
}
#endif
