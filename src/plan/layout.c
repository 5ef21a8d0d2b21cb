/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/layout.h"
#include "base/minmax.h"

#include <stddef.h>
#include <string.h>

/* A member, and the key of its setting. */
struct member {
    const char *key;
    size_t offset;
    int64_t usual; /* is not among the options of a layout */
};

#define AT(field) offsetof(struct mds_layout, field)

static const struct member grid[] = {
    {"parallel.tensor", AT(tensor), 0},
    {"parallel.pipeline", AT(pipeline), 0},
    {"parallel.ulysses", AT(ulysses), 0},
    {"parallel.ring", AT(ring), 0},
    {"parallel.expert", AT(expert), 1},
    {"parallel.zero_stage", AT(zero), 0},
    {"parallel.offload_optimizer", AT(offload_optimizer), 0},
    {"parallel.offload_params", AT(offload_params), 0},
    {"parallel.sequence_parallel", AT(sequence_parallel), 0},
    {"batch.micro", AT(micro), 0},
    {"batch.global", AT(global), 0},
};

/* Members of the grid come first, then those of activation memory. */
enum { GRID = sizeof grid / sizeof *grid, MEMBERS = GRID + MDS_ACT_OPTIONS };

_Static_assert(sizeof(struct mds_layout) ==
                   GRID * sizeof(int64_t) + sizeof(struct mds_activations),
               "layouts are compared as bytes");

static const char *member_key(int member)
{
    return member < GRID ? grid[member].key : mds_act_options[member - GRID].key;
}

static int64_t get_member(const struct mds_layout *l, int member)
{
    int64_t value;

    if (member >= GRID)
        return mds_act_get(&l->act, &mds_act_options[member - GRID]);
    memcpy(&value, (const char *)l + grid[member].offset, sizeof value);
    return value;
}

static void set_member(struct mds_layout *l, int member, int64_t value)
{
    if (member >= GRID)
        mds_act_set(&l->act, &mds_act_options[member - GRID], value);
    else
        memcpy((char *)l + grid[member].offset, &value, sizeof value);
}

static const struct mds_option *member_option(int member)
{
    return mds_option_of(&mds_pretrain_options, member_key(member));
}

static struct mds_layout layout_of_config(const struct mds_config *c)
{
    struct mds_layout l = {.act = c->train.act};

    for (int i = 0; i < GRID; i++) {
        const struct mds_option *o = member_option(i);
        const char *from = (const char *)c + o->offset;
        int64_t value;
        int n;

        memcpy(&n, from, sizeof n);
        if (mds_option_is_int(o))
            value = n;
        else
            memcpy(&value, from, sizeof value);
        set_member(&l, i, value);
    }
    return l;
}

static void store_layout(const struct mds_layout *l, struct mds_config *c)
{
    c->train.act = l->act;
    for (int i = 0; i < GRID; i++) {
        const struct mds_option *o = member_option(i);
        int64_t value = get_member(l, i);
        char *to = (char *)c + o->offset;
        int n = (int)value;

        if (mds_option_is_int(o))
            memcpy(to, &n, sizeof n);
        else
            memcpy(to, &value, sizeof value);
    }
}

int mds_layout_equal(const struct mds_layout *a, const struct mds_layout *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static unsigned member_bit(const char *key)
{
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(member_key(i), key) == 0)
            return 1u << i;
    return 0;
}

static unsigned members_set_by_user(const struct mds_config_run *run)
{
    unsigned fixed = 0;

    for (int i = 0; i < GRID; i++)
        if (mds_settings_of(&run->settings, member_key(i))->level > MDS_LEVEL_DERIVED)
            fixed |= 1u << i;
    if (run->config.batch.steps) /* it says all sizes */
        fixed |= member_bit("batch.global");
    return fixed;
}

/* SP_TYPE says all of a grid, as it does where nothing is planned (config_layout.c):
 * the ranks that no size asks for are tensor ranks, or Ulysses ranks with ZeRO 3. */
static unsigned fix_by_sp_type(const struct mds_config_run *run, int64_t world,
                               unsigned fixed, struct mds_layout *user)
{
    unsigned tensor = member_bit("parallel.tensor"),
             ulysses = member_bit("parallel.ulysses");
    unsigned others = member_bit("parallel.pipeline") | member_bit("parallel.ring");
    int64_t taken = user->pipeline * user->ring;

    if (run->config.parallel.sp_type == MDS_SP_MEGATRON) {
        if (!(fixed & tensor) && world % (taken * user->ulysses) == 0)
            user->tensor = world / (taken * user->ulysses);
        if (!(fixed & member_bit("parallel.sequence_parallel")))
            user->sequence_parallel = user->tensor > 1;
        return fixed | tensor | ulysses | others |
               member_bit("parallel.sequence_parallel");
    }
    if (run->config.parallel.sp_type == MDS_SP_DS) {
        if (!(fixed & ulysses) && world % (taken * user->tensor) == 0)
            user->ulysses = world / (taken * user->tensor);
        if (!(fixed & member_bit("parallel.zero_stage")))
            user->zero = 3;
        return fixed | tensor | ulysses | others | member_bit("parallel.zero_stage");
    }
    return fixed;
}

unsigned mds_layout_fixed(const struct mds_config_run *run, int64_t world,
                          struct mds_layout *user)
{
    unsigned fixed = members_set_by_user(run);

    *user = layout_of_config(&run->config);
    fixed |= mds_config_fixed_activations(run, &user->act) << GRID;
    return fix_by_sp_type(run, world, fixed, user);
}

const char *mds_layout_flag(int member)
{
    return member < MEMBERS ? member_option(member)->flag : NULL;
}

static void apply_fixed(struct mds_layout *l, const struct mds_layout *user,
                        unsigned fixed)
{
    for (int i = 0; i < MEMBERS; i++)
        if (fixed & 1u << i)
            set_member(l, i, get_member(user, i));
}

struct mds_layout mds_layout_keep(struct mds_layout l, const struct mds_layout *user,
                                  unsigned fixed)
{
    struct mds_layout asked = {0};

    apply_fixed(&asked, user, fixed);
    apply_fixed(&l, user, fixed);
    if (asked.offload_params != MDS_PLACE_DEVICE) {
        l.zero = 3;
        l.offload_optimizer = mds_max(l.offload_optimizer, MDS_PLACE_CPU);
    }
    if (l.zero < 3 || l.offload_optimizer == MDS_PLACE_DEVICE)
        l.offload_params = MDS_PLACE_DEVICE;
    apply_fixed(&l, user, fixed);
    mds_act_apply_user(&l.act, &user->act, fixed >> GRID);
    return l;
}

enum mds_rc mds_layout_apply(const struct mds_config_run *run,
                             const struct mds_layout *l, int64_t world,
                             struct mds_config *out)
{
    struct mds_config_run copy = *run;
    struct mds_config *c = &copy.config;
    struct mds_diag diag = {0};
    enum mds_rc rc;

    store_layout(l, c);
    c->train.activation_memory = NULL; /* the layout says it */
    c->parallel.sp_type = MDS_SP_NONE;
    c->parallel.sequence_parallel &= l->tensor > 1;
    c->train.dry_run = 1; /* no data needed; GPT-2's vocabulary unless one is given */
    c->train.dry_world = world;
    c->train.dry_rank = 0;
    rc = mds_config_resolve(&copy, world, &diag);
    mds_diag_fini(&diag);
    if (!rc)
        *out = copy.config;
    return rc;
}

void mds_layout_options(const struct mds_layout *l, const char *asked, unsigned fixed,
                        struct mds_str *out)
{
    for (int i = 0; i < GRID; i++)
        if (!(fixed & 1u << i) && get_member(l, i) != grid[i].usual)
            mds_option_text(member_option(i), get_member(l, i), out);
    mds_act_text_behind(&l->act, asked, fixed >> GRID, out);
}
