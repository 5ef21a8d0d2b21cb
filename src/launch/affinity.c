/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs by hwloc, the only home of hwloc.h; how launchers spell what is near them. */
#include "launch/capture.h"
#include "launch/affinity.h"

#include <config.h>

#include <stdlib.h>
#include <string.h>

#if HAVE_HWLOC
#include <hwloc.h>

static hwloc_topology_t load_topology(void)
{
    hwloc_topology_t t;

    if (hwloc_topology_init(&t))
        return NULL;
    if (hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) ||
        hwloc_topology_load(t)) {
        hwloc_topology_destroy(t);
        return NULL;
    }
    return t;
}

/* ---- which GPUs ---- */

/* In CUDA's order among equal GPUs, which is nvidia-smi's. */
static int list_gpus_of_nvidia_smi(hwloc_topology_t t, hwloc_obj_t *gpu)
{
    static const char *const command[] = {"nvidia-smi", "--query-gpu=pci.bus_id",
                                          "--format=csv,noheader", NULL};
    struct mds_str answer = {0};
    char *rest, *line;
    int n = 0;

    if (mds_capture_output(command, MDS_NVIDIA_SMI_S, &answer))
        return 0;
    line = answer.s ? strtok_r(answer.s, "\n", &rest) : NULL;
    for (; line && n < MDS_AFFINITY_GPUS; line = strtok_r(NULL, "\n", &rest)) {
        gpu[n] = hwloc_get_pcidev_by_busidstring(t, line);
        n += gpu[n] != NULL;
    }
    mds_str_fini(&answer);
    return n;
}

static int is_nvidia_gpu(hwloc_obj_t o)
{
    return o->attr->pcidev.vendor_id == 0x10de && o->attr->pcidev.class_id >> 8 == 0x03;
}

static int compare_bus_ids(const void *a, const void *b)
{
    const struct hwloc_pcidev_attr_s *x = &(*(const hwloc_obj_t *)a)->attr->pcidev;
    const struct hwloc_pcidev_attr_s *y = &(*(const hwloc_obj_t *)b)->attr->pcidev;

    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    if (x->bus != y->bus)
        return x->bus < y->bus ? -1 : 1;
    return x->dev < y->dev ? -1 : x->dev > y->dev;
}

static int list_gpus_of_topology(hwloc_topology_t t, hwloc_obj_t *gpu)
{
    hwloc_obj_t o = NULL;
    int n = list_gpus_of_nvidia_smi(t, gpu);

    if (n > 0)
        return n;
    while (n < MDS_AFFINITY_GPUS && (o = hwloc_get_next_pcidev(t, o)))
        if (is_nvidia_gpu(o))
            gpu[n++] = o;
    qsort(gpu, (size_t)n, sizeof *gpu, compare_bus_ids);
    return n;
}

/* ---- which cores ---- */

static hwloc_obj_t cpus_near_gpu(hwloc_topology_t t, hwloc_obj_t gpu)
{
    return hwloc_get_non_io_ancestor_obj(t, gpu);
}

/* The threads of cores [first, last) of a set. */
static int collect_core_threads(hwloc_topology_t t, hwloc_const_cpuset_t set, int first,
                                int last, struct mds_gpu_affinity *g)
{
    int threads = hwloc_bitmap_weight(set);

    g->thread = calloc((size_t)(threads > 0 ? threads : 1), sizeof *g->thread);
    if (!g->thread)
        return -1;
    for (int i = first; i < last; i++) {
        hwloc_obj_t core =
            hwloc_get_obj_inside_cpuset_by_type(t, set, HWLOC_OBJ_CORE, (unsigned)i);
        int id = -1;

        while (core && (id = hwloc_bitmap_next(core->cpuset, id)) >= 0 &&
               id < MDS_AFFINITY_THREADS && g->threads < threads)
            g->thread[g->threads++] = (short)id;
    }
    return 0;
}

static int compare_shorts(const void *a, const void *b)
{
    return *(const short *)a - *(const short *)b;
}

static int assign_threads(hwloc_topology_t t, const hwloc_obj_t *gpu, int count, int i,
                          struct mds_gpu_affinity *g)
{
    const struct hwloc_pcidev_attr_s *p = &gpu[i]->attr->pcidev;
    hwloc_const_cpuset_t set = cpus_near_gpu(t, gpu[i])->cpuset;
    int cores = hwloc_get_nbobjs_inside_cpuset_by_type(t, set, HWLOC_OBJ_CORE);
    int sharers = 0, before = 0;

    for (int k = 0; k < count; k++) {
        int same = hwloc_bitmap_isequal(cpus_near_gpu(t, gpu[k])->cpuset, set);

        sharers += same;
        before += same && k < i;
    }
    snprintf(g->bus, sizeof g->bus, "%04x:%02x:%02x.%01x", p->domain, p->bus, p->dev,
             p->func);
    g->numa = hwloc_bitmap_weight(cpus_near_gpu(t, gpu[i])->nodeset) == 1
                  ? hwloc_bitmap_first(cpus_near_gpu(t, gpu[i])->nodeset)
                  : -1;
    if (collect_core_threads(t, set, cores * before / sharers,
                             cores * (before + 1) / sharers, g))
        return -1;
    qsort(g->thread, (size_t)g->threads, sizeof *g->thread, compare_shorts);
    return 0;
}

void mds_affinity_find(struct mds_affinity *out)
{
    hwloc_obj_t gpu[MDS_AFFINITY_GPUS];
    hwloc_topology_t t = load_topology();
    int n;

    *out = (struct mds_affinity){.count = 0};
    if (!t) {
        snprintf(out->note, sizeof out->note, "hwloc cannot read this host");
        return;
    }
    n = list_gpus_of_topology(t, gpu);
    while (out->count < n &&
           assign_threads(t, gpu, n, out->count, &out->gpu[out->count]) == 0)
        out->count++;
    if (n == 0)
        snprintf(out->note, sizeof out->note, "no NVIDIA GPU on the buses hwloc sees");
    hwloc_topology_destroy(t);
}
#else
void mds_affinity_find(struct mds_affinity *out)
{
    *out = (struct mds_affinity){.note = "not known: this build has no hwloc"};
}
#endif

void mds_affinity_fini(struct mds_affinity *n)
{
    for (int i = 0; i < MDS_AFFINITY_GPUS; i++)
        free(n->gpu[i].thread);
    *n = (struct mds_affinity){.count = 0};
}

/* ---- spelling ---- */

/* "0-7,32-39" */
static void add_ranges(const struct mds_gpu_affinity *g, struct mds_str *out)
{
    for (int i = 0, last; i < g->threads; i = last + 1) {
        for (last = i;
             last + 1 < g->threads && g->thread[last + 1] == g->thread[last] + 1;)
            last++;
        mds_str_add(out, "%s%d", i ? "," : "", g->thread[i]);
        if (last > i)
            mds_str_add(out, "-%d", g->thread[last]);
    }
}

static void add_mask(const struct mds_gpu_affinity *g, struct mds_str *out)
{
    unsigned char digit[MDS_AFFINITY_THREADS / 4] = {0};
    int top = 0;

    for (int i = 0; i < g->threads; i++) {
        int at = g->thread[i] / 4;

        digit[at] |= (unsigned char)(1 << g->thread[i] % 4);
        top = at > top ? at : top;
    }
    mds_str_add(out, "0x");
    for (; top >= 0; top--)
        mds_str_add(out, "%x", digit[top]);
}

static void add_plus_list(const struct mds_gpu_affinity *g, struct mds_str *out)
{
    for (int i = 0; i < g->threads; i++)
        mds_str_add(out, "%s%d", i ? "+" : "", g->thread[i]);
}

static const struct {
    const char *between;
    void (*spell)(const struct mds_gpu_affinity *g, struct mds_str *out);
} lists[] = {
    [MDS_LAUNCHER_PLAIN] = {NULL, NULL},
    [MDS_LAUNCHER_PALS] = {":", add_ranges},
    [MDS_LAUNCHER_HYDRA] = {",", add_plus_list},
    [MDS_LAUNCHER_OPENMPI] = {NULL, NULL},
    [MDS_LAUNCHER_SRUN] = {",", add_mask},
};

int mds_affinity_list(const struct mds_affinity *n, enum mds_launcher launcher,
                      const int *order, int ranks, struct mds_str *out)
{
    if (!lists[launcher].spell)
        return -1;
    for (int i = 0; i < ranks; i++)
        if (order[i] < 0 || order[i] >= n->count || n->gpu[order[i]].threads == 0)
            return -1;
    for (int i = 0; i < ranks; i++) {
        mds_str_add(out, "%s", i ? lists[launcher].between : "");
        lists[launcher].spell(&n->gpu[order[i]], out);
    }
    return 0;
}

void mds_affinity_print(const struct mds_affinity *n, FILE *f)
{
    if (n->count == 0)
        fprintf(f, "cores near GPUs: %s\n", n->note);
    for (int i = 0; i < n->count; i++) {
        struct mds_str text = {0};

        add_ranges(&n->gpu[i], &text);
        fprintf(f, "GPU %d at %s: near threads %s", i, n->gpu[i].bus,
                text.s ? text.s : "-");
        if (n->gpu[i].numa >= 0)
            fprintf(f, " (NUMA node %d)", n->gpu[i].numa);
        fputc('\n', f);
        mds_str_fini(&text);
    }
}
