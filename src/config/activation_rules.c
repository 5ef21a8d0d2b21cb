/* SPDX-License-Identifier: BSD-3-Clause */
/* Which options of activation memory go together.  Each rule says what an option needs;
 * config reports rules that are broken, and the planner changes its own choices, never
 * the user's, to keep them. */
#include "config/activations.h"
#include "base/units.h"

#include <stdio.h>

#define AT(field) offsetof(struct mds_activations, field)

/* ---- conditions ---- */

enum condition {
    RECOMPUTES = 1 << 0, /* recompute is full or selective */
    FULL = 1 << 1,
    SELECTIVE = 1 << 2,
    SAVES_ACTIVATIONS = 1 << 3, /* no recompute, or that of --recompute-modules */
    TILED = 1 << 4,             /* --sequence-tile */
    UNTILED = 1 << 5,
    FULL_OR_TILED = 1 << 6,     /* full recompute, or tiles */
    EVERY_INPUT_SAVED = 1 << 7, /* each block's input is kept */
    INPUTS_OFFLOADED = 1 << 8,  /* --cpu-checkpointing */
    /* of the ranks and the model */
    TENSOR_RANKS = 1 << 9,
    NO_SEQUENCE_PARALLEL = 1 << 10, /* no --sequence-parallel */
    HIDDEN_DIVIDES = 1 << 11,
    TWO_BLOCKS_RESIDENT = 1 << 12,
    HEADS_TO_GROUP = 1 << 13, /* more than one key/value head on each rank, normed on
                                 its own */
    RANK_CONDITIONS = TENSOR_RANKS | NO_SEQUENCE_PARALLEL | HIDDEN_DIVIDES |
                      TWO_BLOCKS_RESIDENT | HEADS_TO_GROUP
};

static unsigned bit_if(int is_so, enum condition c)
{
    return is_so ? (unsigned)c : 0;
}

static unsigned rank_conditions_met(const struct mds_activations *a,
                                    const struct mds_act_ranks *r)
{
    int64_t most = r->blocks > 2 ? r->blocks - 2 : 0;

    return bit_if(r->tensor > 1, TENSOR_RANKS) |
           bit_if(!r->sequence_parallel || r->tensor == 1, NO_SEQUENCE_PARALLEL) |
           bit_if(r->hidden % r->tensor == 0, HIDDEN_DIVIDES) |
           bit_if(r->kv_heads != 1, HEADS_TO_GROUP) |
           bit_if(r->blocks == 0 || a->offload_layers <= most, TWO_BLOCKS_RESIDENT);
}

/* All conditions that are met.  Without ranks (r NULL) those about ranks count as
 * met. */
static unsigned conditions_met(const struct mds_activations *a,
                               const struct mds_act_ranks *r)
{
    int full = a->recompute == MDS_RECOMPUTE_FULL, tiled = a->sequence_tile > 0;

    return bit_if(a->recompute != MDS_RECOMPUTE_NONE, RECOMPUTES) | bit_if(full, FULL) |
           bit_if(a->recompute == MDS_RECOMPUTE_SELECTIVE, SELECTIVE) |
           bit_if(mds_recompute_of(a) == MDS_RECOMPUTE_NONE, SAVES_ACTIVATIONS) |
           bit_if(tiled, TILED) | bit_if(!tiled, UNTILED) |
           bit_if(full || tiled, FULL_OR_TILED) |
           bit_if(a->recompute_layers <= 1, EVERY_INPUT_SAVED) |
           bit_if(a->offload_activations, INPUTS_OFFLOADED) |
           (r ? rank_conditions_met(a, r) : (unsigned)RANK_CONDITIONS);
}

static void adjust_to_condition(struct mds_activations *a, enum condition c)
{
    if (c == SELECTIVE)
        a->recompute = MDS_RECOMPUTE_SELECTIVE;
    if (c == SAVES_ACTIVATIONS)
        a->recompute = MDS_RECOMPUTE_NONE;
    if (c == UNTILED)
        a->sequence_tile = 0;
    if (c == EVERY_INPUT_SAVED)
        a->recompute_layers = 1;
}

/* ---- rules ---- */

struct rule {
    size_t member;  /* that needs the conditions when its option is on */
    unsigned needs; /* all of these */
    /* Condition that the planner meets by changing its own choices if the user gave the
 * option; 0: none */
    enum condition adjusts;
    enum mds_act_effect effect;
    const char *text; /* for the user; with `explain`, the option's name for it */
    void (*explain)(const struct mds_activations *a, const struct mds_act_ranks *r,
                    const char *what, struct mds_act_finding *f);
};

static void explain_full_recompute(const struct mds_activations *a,
                                   const struct mds_act_ranks *r, const char *what,
                                   struct mds_act_finding *f)
{
    (void)r;
    snprintf(
        f->text, sizeof f->text,
        "%s is for the inputs that full recompute saves, and recompute is %s; give "
        "--recompute-granularity full, or leave it out",
        what, mds_recompute_names[a->recompute]);
}

static void explain_hidden_split(const struct mds_activations *a,
                                 const struct mds_act_ranks *r, const char *what,
                                 struct mds_act_finding *f)
{
    (void)a;
    snprintf(f->text, sizeof f->text,
             "%s: --hidden-size %lld does not divide into parts for %lld tensor ranks; "
             "leave it out",
             what, (long long)r->hidden, (long long)r->tensor);
}

static void explain_saved_activations(const struct mds_activations *a,
                                      const struct mds_act_ranks *r, const char *what,
                                      struct mds_act_finding *f)
{
    (void)r;
    snprintf(f->text, sizeof f->text,
             "%s needs blocks that save all activations, and this is %s recompute; "
             "leave it out, or give --recompute-granularity none (in "
             "scripts USE_ACTIVATION_CHECKPOINTING=0)",
             what, mds_recompute_names[a->recompute]);
}

/* One block's buffers are in use while another's are copied. */
static void explain_resident_blocks(const struct mds_activations *a,
                                    const struct mds_act_ranks *r, const char *what,
                                    struct mds_act_finding *f)
{
    char give[48] = "leave it out";

    if (r->blocks > 2)
        snprintf(give, sizeof give, "give %lld at most", (long long)r->blocks - 2);
    snprintf(f->text, sizeof f->text,
             "%s %lld: of the %lld block%s of a %s two must stay on the device, one "
             "being computed and one being copied; %s",
             what, (long long)a->offload_layers, (long long)r->blocks,
             mds_plural(r->blocks), r->whose, give);
}

/* Ordered so that an option that is turned off comes before those that need it. */
static const struct rule rules[] = {
    {AT(sequence_tile), RECOMPUTES, 0, MDS_ACT_FAULT,
     "--sequence-tile needs recompute; give "
     "--recompute-granularity full or selective",
     NULL},
    {AT(recompute_modules), SELECTIVE, SELECTIVE, MDS_ACT_FAULT,
     "--recompute-modules is for selective recompute; give --recompute-granularity "
     "selective as well",
     NULL},
    {AT(recompute_modules), UNTILED, UNTILED, MDS_ACT_FAULT,
     "--recompute-modules: with --sequence-tile the norms' and the MLP's activations "
     "are never saved; leave out one of them",
     NULL},
    {AT(recompute_layers), FULL, 0, MDS_ACT_FAULT, "--checkpoint-num-layers above 1",
     explain_full_recompute},
    {AT(offload_activations), FULL_OR_TILED, 0, MDS_ACT_FAULT, "--cpu-checkpointing",
     explain_full_recompute},
    {AT(offload_layers), SAVES_ACTIVATIONS, SAVES_ACTIVATIONS, MDS_ACT_FAULT,
     "--cpu-offloading-num-layers", explain_saved_activations},
    {AT(offload_layers), TWO_BLOCKS_RESIDENT, 0, MDS_ACT_FAULT,
     "--cpu-offloading-num-layers", explain_resident_blocks},
    {AT(partition_activations), FULL, 0, MDS_ACT_FAULT, "--partition-activations",
     explain_full_recompute},
    {AT(partition_activations), TENSOR_RANKS, 0, MDS_ACT_OFF,
     "--partition-activations is off: there is one tensor rank, "
     "--tensor-model-parallel-size 1",
     NULL},
    {AT(partition_activations), NO_SEQUENCE_PARALLEL, 0, MDS_ACT_OFF,
     "--partition-activations is off: --sequence-parallel has sharded the inputs "
     "already",
     NULL},
    {AT(partition_activations), HIDDEN_DIVIDES, 0, MDS_ACT_FAULT,
     "--partition-activations", explain_hidden_split},
    {AT(head_groups), TILED, 0, MDS_ACT_FAULT,
     "--attention-head-groups: the rest of a block must be tiled as well; give "
     "--sequence-tile",
     NULL},
    {AT(head_groups), HEADS_TO_GROUP, 0, MDS_ACT_OFF,
     "--attention-head-groups is off: each rank has one key/value head, or some in "
     "common with others, or --qk-norm-across-heads needs all at once",
     NULL},
    {AT(keep_attention), FULL | TILED | EVERY_INPUT_SAVED, EVERY_INPUT_SAVED,
     MDS_ACT_FAULT,
     "--activation-memory attention=N adds to what full recompute saves of each block; "
     "give a level from 5 to 7 with it, or --recompute-granularity full with "
     "--sequence-tile, and no --checkpoint-num-layers",
     NULL},
    {AT(device_inputs), TILED | INPUTS_OFFLOADED, 0, MDS_ACT_FAULT,
     "--activation-memory inputs=N excepts blocks from --cpu-checkpointing with "
     "--sequence-tile; give both, or with it the level 4, or one from 6",
     NULL},
};

enum { RULES = sizeof rules / sizeof *rules };

/* The value that an option has where it does nothing. */
static int64_t value_when_off(const struct mds_act_option *o)
{
    const struct mds_activations none = {.recompute_layers = 1, .head_groups = 1};

    return mds_act_get(&none, o);
}

static int is_option_on(const struct mds_activations *a, const struct rule *rule)
{
    const struct mds_act_option *o = mds_act_option(rule->member);

    return mds_act_get(a, o) > value_when_off(o);
}

static int is_rule_broken(const struct mds_activations *a,
                          const struct mds_act_ranks *r, const struct rule *rule)
{
    return is_option_on(a, rule) && (conditions_met(a, r) & rule->needs) != rule->needs;
}

static void turn_option_off(struct mds_activations *a, const struct rule *rule)
{
    const struct mds_act_option *o = mds_act_option(rule->member);

    mds_act_set(a, o, value_when_off(o));
}

int mds_act_check(struct mds_activations *a, const struct mds_act_ranks *r, int *at,
                  struct mds_act_finding *f)
{
    const struct rule *rule;

    while (*at < RULES && !is_rule_broken(a, r, &rules[*at]))
        ++*at;
    if (*at == RULES)
        return 0;
    rule = &rules[(*at)++];
    *f = (struct mds_act_finding){.option = mds_act_option(rule->member),
                                  .effect = rule->effect};
    if (rule->explain)
        rule->explain(a, r, rule->text, f);
    else
        snprintf(f->text, sizeof f->text, "%s", rule->text);
    if (rule->effect == MDS_ACT_OFF)
        turn_option_off(a, rule);
    return 1;
}

/* ---- changing the planner's choices ---- */

static void apply_user_options(struct mds_activations *a,
                               const struct mds_activations *user, unsigned given)
{
    for (int i = 0; i < MDS_ACT_OPTIONS; i++)
        if (given & 1u << i)
            mds_act_set(a, &mds_act_options[i], mds_act_get(user, &mds_act_options[i]));
}

static int is_user_option(const struct rule *rule, unsigned given)
{
    return (given & 1u << (mds_act_option(rule->member) - mds_act_options)) != 0;
}

/* Turn off options that break a rule, except those that the user gave. */
static void turn_off_broken_options(struct mds_activations *a,
                                    const struct mds_activations *user, unsigned given)
{
    for (const struct rule *rule = rules; rule < rules + RULES; rule++)
        if (rule->effect == MDS_ACT_FAULT && is_rule_broken(a, NULL, rule))
            turn_option_off(a, rule);
    apply_user_options(a, user, given);
}

void mds_act_apply_user(struct mds_activations *a, const struct mds_activations *user,
                        unsigned given)
{
    apply_user_options(a, user, given);
    for (const struct rule *rule = rules; rule < rules + RULES; rule++)
        if (rule->adjusts && is_user_option(rule, given) && is_option_on(a, rule) &&
            !(conditions_met(a, NULL) & rule->adjusts))
            adjust_to_condition(a, rule->adjusts);
    if (a->recompute_layers < 1)
        a->recompute_layers = 1;
    if (a->head_groups < 1)
        a->head_groups = 1;
    turn_off_broken_options(a, user, given);
}

int mds_act_at_level(int level, int64_t tile, const struct mds_activations *user,
                     unsigned given, const struct mds_act_ranks *r,
                     struct mds_activations *out)
{
    struct mds_act_finding f;

    *out = mds_act_defaults();
    mds_act_set_level(out, level, tile);
    apply_user_options(out, user, given);
    turn_off_broken_options(out, user, given);
    for (int at = 0; mds_act_check(out, r, &at, &f);)
        if (f.effect == MDS_ACT_FAULT)
            return 0;
    return 1;
}
