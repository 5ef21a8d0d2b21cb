/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a plan. */
#include "base/units.h"
#include "plan/plan.h"

#include <string.h>

void mds_layout_describe(const struct mds_layout *l, int64_t world, struct mds_str *out)
{
    static const char *const places[] = {"", ", optimizer on the host",
                                         ", optimizer on nvme"};
    int64_t data = world / (l->tensor * l->pipeline * l->ulysses * l->ring);

    mds_str_add(out, "tensor %lld", (long long)l->tensor);
    if (l->sequence_parallel && l->tensor > 1)
        mds_str_add(out, " (sequence-parallel)");
    if (l->pipeline > 1)
        mds_str_add(out, ", pipeline %lld", (long long)l->pipeline);
    if (l->ulysses > 1)
        mds_str_add(out, ", Ulysses %lld", (long long)l->ulysses);
    if (l->ring > 1)
        mds_str_add(out, ", ring %lld", (long long)l->ring);
    if (l->expert > 1)
        mds_str_add(out, ", expert %lld", (long long)l->expert);
    mds_str_add(out, ", data %lld, ZeRO %lld%s%s", (long long)data, (long long)l->zero,
                places[l->offload_optimizer],
                l->offload_params ? ", weights on the host" : "");
    mds_act_describe(&l->act, out);
}

static void print_untracked(const struct mds_untracked *b, FILE *f)
{
    char libraries[32], messages[32], attention[32];

    if (b->messages + b->attention == 0)
        return;
    fprintf(f,
            "  outside the arenas, on each GPU: libraries %s, NCCL %s, attention %s\n",
            mds_format_bytes((double)b->libraries, libraries, sizeof libraries),
            mds_format_bytes((double)b->messages, messages, sizeof messages),
            mds_format_bytes((double)b->attention, attention, sizeof attention));
}

static void print_memory_table(const struct mds_estimate *e, FILE *f)
{
    struct mds_str table = {0};
    char text[32];

    mds_mem_table(&e->memory, &table);
    if (!table.failed)
        fputs(table.s, f);
    mds_str_fini(&table);
    print_untracked(&e->untracked, f);
    fprintf(f, "  total with CUDA context and libraries %s",
            mds_format_bytes((double)e->device_bytes, text, sizeof text));
    fprintf(f, " of %s", mds_format_bytes((double)e->device_limit, text, sizeof text));
    fprintf(f, "; on the host %s",
            mds_format_bytes((double)e->host_bytes, text, sizeof text));
    fprintf(f, " of %s a rank\n",
            mds_format_bytes((double)e->host_limit, text, sizeof text));
}

static void print_step_time(const struct mds_estimate *e, FILE *f)
{
    const struct {
        const char *what;
        double s;
    } parts[] = {
        {"computing", e->compute_s},
        {"tensor ranks", e->tensor_s},
        {"sequence ranks", e->sequence_s},
        {"gradients and weights", e->data_s},
        {"pipeline", e->pipeline_s},
        {"host", e->host_s},
        {"idle", e->idle_s},
    };
    const char *between = "";
    char step[32];

    fprintf(f, "  a step of %s: ", mds_format_step(e->step_s, step, sizeof step));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].s > 0.001 * e->step_s) {
            fprintf(f, "%s%s %.0f %%", between, parts[i].what,
                    100 * parts[i].s / e->step_s);
            between = ", ";
        }
    fputc('\n', f);
}

static void print_layout_row(const struct mds_plan_request *r,
                             const struct mds_plan_entry *e, size_t number, FILE *f)
{
    struct mds_str text = {0};
    char bytes[32];

    mds_layout_describe(&e->layout, r->world, &text);
    fprintf(f, "%4zu %10.4g %10.0f %8.1f %11s  %s\n", number, e->estimate.step_s,
            e->estimate.tokens_s, e->estimate.model_flops / 1e12,
            mds_format_bytes((double)e->estimate.device_bytes, bytes, sizeof bytes),
            text.s ? text.s : "");
    mds_str_fini(&text);
}

/* The three purposes that need most memory, largest first. */
static void print_largest(const struct mds_estimate *e, FILE *f)
{
    int done = 0;

    for (int i = 0; i < 3; i++) {
        int best = -1;
        char text[32];

        for (int t = 0; t < MDS_MEM_TAGS; t++)
            if (!(done & 1 << t) && e->memory.at_total_peak[t] > 0 &&
                (best < 0 ||
                 e->memory.at_total_peak[t] > e->memory.at_total_peak[best]))
                best = t;
        if (best < 0)
            return;
        done |= 1 << best;
        fprintf(
            f, "%s%s %s", i ? ", " : ": ", mds_mem_tag_name((enum mds_mem_tag)best),
            mds_format_bytes((double)e->memory.at_total_peak[best], text, sizeof text));
    }
}

static void print_reject(const struct mds_plan_request *r,
                         const struct mds_plan_reject *x, FILE *f)
{
    const struct mds_estimate *e = &x->entry.estimate;
    struct mds_str text = {0};
    char need[32], have[32];

    mds_layout_describe(&x->entry.layout, r->world, &text);
    fprintf(f, "  %s\n    ", text.s ? text.s : "");
    mds_str_fini(&text);
    if (!x->divides) {
        fprintf(f, "%.*s", (int)strcspn(x->why, "\n"), x->why);
    } else if (e->device_bytes > e->device_limit) {
        fprintf(f, "needs %s of %s",
                mds_format_bytes((double)e->device_bytes, need, sizeof need),
                mds_format_bytes((double)e->device_limit, have, sizeof have));
        print_largest(e, f);
    }
    if (x->divides && e->host_need > e->host_limit)
        fprintf(f, "%s %s of %s of host memory a rank",
                e->device_bytes > e->device_limit ? "; and" : "needs",
                mds_format_bytes((double)e->host_need, need, sizeof need),
                mds_format_bytes((double)e->host_limit, have, sizeof have));
    fputc('\n', f);
}

/* Whether no earlier reject has a reason that begins with the same words. */
static int is_first_of_kind(const struct mds_plan *p, size_t from, size_t i)
{
    enum { SAME = 12 };

    for (size_t k = from; k < i; k++)
        if (strncmp(p->rejects[k].why, p->rejects[i].why, SAME) == 0)
            return 0;
    return 1;
}

static void print_rejects(const struct mds_plan_request *r, const struct mds_plan *p,
                          int64_t rows, FILE *f)
{
    size_t memory = 0;

    while (memory < p->reject_count && p->rejects[memory].divides)
        memory++;
    if (memory > 0)
        fprintf(f, "\nrejected, too large even with the least memory: %zu grid%s\n",
                memory, mds_plural((int64_t)memory));
    for (size_t i = 0; i < memory && (int64_t)i < rows; i++)
        print_reject(r, &p->rejects[i], f);
    if (memory < p->reject_count)
        fprintf(f, "\nrejected, whatever memory there is: %zu grid%s, such as\n",
                p->reject_count - memory,
                mds_plural((int64_t)(p->reject_count - memory)));
    for (size_t i = memory; i < p->reject_count; i++)
        if (is_first_of_kind(p, memory, i))
            print_reject(r, &p->rejects[i], f);
    if (p->row_fault[0])
        fprintf(f, "\nnot chosen: the row of the model table (%s): %.*s\n", p->origin,
                (int)strcspn(p->row_fault, "\n"), p->row_fault);
    if (p->slow > 0)
        fprintf(f,
                "\nskipped, less than half as fast as the best at any memory: %lld "
                "grid%s\n",
                (long long)p->slow, mds_plural(p->slow));
    if (p->untried > 0)
        fprintf(f, "\nnot tried, time ran out: %lld grid%s (--plan-seconds)\n",
                (long long)p->untried, mds_plural(p->untried));
}

void mds_plan_print(const struct mds_plan_request *r, const struct mds_plan *p,
                    int64_t rows, FILE *f)
{
    if (p->fit_count > 0) {
        fprintf(f, "%4s %10s %10s %8s %11s  layout\n", "", "step s", "tokens/s",
                "TFLOP/s", "memory");
        for (size_t i = 0; i < p->fit_count && (int64_t)i < rows; i++)
            print_layout_row(r, &p->fits[i], i + 1, f);
        if (p->origin[0] && !p->row_fault[0])
            fprintf(f, "     1 is a row of the model table (%s)\n", p->origin);
        fprintf(f,
                "     tokens/s and TFLOP/s are per rank; TFLOP/s count the pairs of "
                "tokens that causal\n     attention needs, not all of them as "
                "Megatron's formula does; %zu %s;\n     each kind of offload to the "
                "host counts as 2 %% slower\n\n1 in detail\n",
                p->fit_count, p->fit_count == 1 ? "layout fits" : "layouts fit");
        print_memory_table(&p->fits[0].estimate, f);
        print_step_time(&p->fits[0].estimate, f);
    }
    print_rejects(r, p, rows, f);
    fprintf(f, "\n%lld dry run%s in %.1f s", (long long)p->dry_runs,
            mds_plural(p->dry_runs), p->took_s);
    if (p->fit_count > 0)
        fprintf(f, ", a first layout that fits after %.1f s", p->first_s);
    fprintf(f, "; speeds are those in %s\n", r->machine->path);
}
