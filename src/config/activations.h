/* SPDX-License-Identifier: BSD-3-Clause */
/* Which activations a block saves between forward and backward, and where: the options,
 * the rules for combining them, and what they mean.  Config reads and checks them, the
 * planner searches over them, and the model asks here what a block saves.  Only this
 * module interprets these options. */
#ifndef MDS_CONFIG_ACTIVATIONS_H
#define MDS_CONFIG_ACTIVATIONS_H

#include <stddef.h>
#include <stdint.h>

enum mds_recompute { MDS_RECOMPUTE_NONE, MDS_RECOMPUTE_SELECTIVE, MDS_RECOMPUTE_FULL };
/* Modules that selective recompute can name; bits. */
enum mds_recompute_module {
    MDS_MODULE_LAYERNORM = 1,
    MDS_MODULE_MLP_ACT = 2,
    MDS_MODULE_MLP = 4 /* before its activation, too */
};

/* Rows of logits at a time, by default.  Each further tile reads and writes the f32
 * gradient of the head's weight once more, 8 V H bytes: on an H200, 0.3 % of the time
 * of 16384 tokens in a 124M-parameter GPT, and less in a larger one. */
enum { MDS_DEFAULT_LOSS_TILE = 16384 };

/* The values of the options.  No padding, so that two can be compared with memcmp. */
struct mds_activations {
    enum mds_recompute recompute;
    int recompute_modules;     /* selective: recompute only these; 0: none are named */
    int partition_activations; /* full: saved inputs are sharded over tensor ranks */
    int offload_activations;  /* full, or tiled: offload what is saved to host memory */
    int64_t recompute_layers; /* full: blocks per saved input */
    int64_t offload_layers;   /* no recompute: blocks to offload to host memory */
    int64_t sequence_tile;    /* rows of a block at a time, except attention; 0: all */
    int64_t keep_attention;   /* full: blocks that also save attention's result */
    int64_t device_inputs;    /* with offload: blocks whose inputs stay on the device */
    int64_t head_groups;      /* groups of heads that attention is computed in */
    int64_t loss_tile;        /* rows of logits at a time; 0: all */
};

_Static_assert(sizeof(struct mds_activations) == 4 * sizeof(int) + 7 * sizeof(int64_t),
               "activations are compared as bytes");

/* One member, and the key of its option (options.c). */
struct mds_act_option {
    const char *key;
    size_t offset;
    int of_layout;    /* 1: some layouts of ranks do not allow it */
    const char *word; /* "attention": the option says attention=N; NULL: all of it */
};

/* One row for each member; the last row's key is NULL. */
enum { MDS_ACT_OPTIONS = 11 };
extern const struct mds_act_option mds_act_options[MDS_ACT_OPTIONS + 1];

/* The row of the member at that offset. */
const struct mds_act_option *mds_act_option(size_t offset);

/* Get or set the value of one member. */
int64_t mds_act_get(const struct mds_activations *a, const struct mds_act_option *o);
void mds_act_set(struct mds_activations *a, const struct mds_act_option *o,
                 int64_t value);

/* The defaults. */
struct mds_activations mds_act_defaults(void);

/* Names by enum mds_recompute, as in the option; ends with NULL. */
extern const char *const mds_recompute_names[];

/* The recompute mode as far as whole blocks are concerned: NONE also if selective
 * recompute names modules. */
enum mds_recompute mds_recompute_of(const struct mds_activations *a);

/* "layernorm,mlp_act" */
const char *mds_recompute_modules_name(int modules);

/* How many of the two kinds of offload are on: of what recompute saves, and of whole
 * blocks. */
int mds_act_kinds_on_host(const struct mds_activations *a);

/* Halve the numbers of blocks, for half as many blocks.  Returns 0, and leaves *a
 * unchanged, if one of them is odd. */
int mds_act_halve(struct mds_activations *a);

/* The most of `blocks` blocks to offload unless the user asks for more: half of them,
 * because pinning hundreds of GiB takes minutes; two have to stay. */
int64_t mds_max_offload_layers(int64_t blocks);

/* ---- what they mean ---- */

/* The parts of a block; src/model/saved.h lists the tensors of each. */
enum mds_act_part {
    MDS_ACT_INPUT,
    MDS_ACT_ATTENTION, /* attention's result */
    MDS_ACT_LSE,       /* attention's log-sum-exp */
    MDS_ACT_NORMS,     /* both norms' results */
    MDS_ACT_MLP_IN,    /* before the MLP's activation */
    MDS_ACT_MLP_ACT,   /* after it */
    MDS_ACT_REST,      /* everything else that backward reads */
    MDS_ACT_PARTS
};

/* Where a part is saved from forward to backward; 0: not saved, but recomputed. */
enum mds_act_where {
    MDS_ACT_KEPT = 1,  /* saved: on the device, unless HOST is set too */
    MDS_ACT_SHARD = 2, /* each tensor rank saves its shard */
    MDS_ACT_HOST = 4,
};

struct mds_act_policy {
    int of[MDS_ACT_PARTS]; /* bits of enum mds_act_where */
};

/* The policy of block l of a stage with `blocks` blocks. */
struct mds_act_policy mds_act_policy(const struct mds_activations *a, int64_t blocks,
                                     int64_t l);

/* The policy of a block that saves its insides.  If mds_recompute_of is NONE, that is
 * every block; else the blocks that run forward again, until their backward. */
struct mds_act_policy mds_act_policy_inside(const struct mds_activations *a);

/* The number of blocks that share one saved input. */
int64_t mds_act_group(const struct mds_activations *a);

/* Of so many key/value heads, those that one of `ranks` ranks of attention has to
 * itself; 1 if it has some in common with others. */
static inline int64_t mds_act_kv_heads(int64_t heads, int64_t ranks)
{
    return heads % ranks ? 1 : heads / ranks;
}

/* In how many groups a rank with `heads` key/value heads computes attention: at most
 * head_groups, of equal size. */
int64_t mds_act_head_groups(const struct mds_activations *a, int64_t heads);

/* How many of `blocks` blocks have buffers on the device at a time; they take turns. */
int64_t mds_act_slots(const struct mds_activations *a, int64_t blocks);

/* Whether any activations are in host memory. */
int mds_act_uses_host(const struct mds_activations *a);

/* ---- levels ---- */

enum {
    MDS_ACT_LEVELS = 11,
    MDS_ACT_OPEN_LEVEL = MDS_ACT_LEVELS, /* auto */
    MDS_ACT_NO_LEVEL = -1,
    MDS_ACT_FALLING = 4, /* up to this one, each level needs less device memory */
    MDS_ACT_TILE = 4096, /* tokens of a tile: enough rows to fill a GPU */
    MDS_ACT_GROUPS = 8   /* of heads: more would save little */
};

/* Tokens of a tile if a rank has `tokens` of each sequence; 0: too few for tiles. */
int64_t mds_act_tile(int64_t tokens);

/* Set recompute, tiles and offload to one of the levels.  Each level needs less memory
 * than the one before, on the device or on the host, and takes more time.  tile: from
 * mds_act_tile. */
void mds_act_set_level(struct mds_activations *a, int level, int64_t tile);

/* Whether it has tiles where there are enough tokens. */
int mds_act_level_is_tiled(int level);

/* The options that a level sets, as bits (`given` of mds_act_apply_user): those that
 * define the level, and the sizes of tiles. */
unsigned mds_act_level_policy(void);
unsigned mds_act_level_tiles(void);
unsigned mds_act_words(void); /* those that are words of --activation-memory */

/* Read --activation-memory's value: "auto", "5", "6,attention=7", "inputs=9".  Sets the
 * members that it names, and their bits in *given.  Returns the level. */
int mds_act_read(const char *text, struct mds_activations *a, unsigned *given);

/* ---- rules for combining options (activation_rules.c) ---- */

/* What the rules need to know about the ranks and the model. */
struct mds_act_ranks {
    int64_t tensor;        /* tensor-parallel ranks */
    int sequence_parallel; /* Megatron's */
    int64_t hidden;
    int64_t kv_heads;  /* mds_act_kv_heads; 1 if norms need all; 0: unknown */
    int64_t blocks;    /* of a stage, or of each of its model chunks; 0: unknown */
    const char *whose; /* what has those blocks, for messages: "model", "stage" */
};

enum mds_act_effect {
    MDS_ACT_FAULT,
    MDS_ACT_WARNING, /* the option changes nothing */
    MDS_ACT_OFF,     /* the same, and it is turned off */
};

struct mds_act_finding {
    const struct mds_act_option *option;
    enum mds_act_effect effect;
    char text[320]; /* for the user */
};

/* Find the next rule that *a breaks, starting from rule *at, and set *at to the rule
 * after it.  With effect MDS_ACT_OFF the option is turned off in *a.  Returns 0 if no
 * further rule is broken. */
int mds_act_check(struct mds_activations *a, const struct mds_act_ranks *r, int *at,
                  struct mds_act_finding *f);

/* Apply the user's options to *a, which the program has chosen.  Bit i of `given` says
 * that the user gave mds_act_options[i]; its value comes from *user.  The program's
 * choices are changed to suit the user's, and turned off if they still break a rule
 * (rules about ranks aside).  Conflicts among the user's own options are left for
 * mds_act_check to report. */
void mds_act_apply_user(struct mds_activations *a, const struct mds_activations *user,
                        unsigned given);

/* Set *out to a level, with the user's options applied.  Options of the level that then
 * break a rule are turned off, as in mds_act_apply_user, but no others are changed.
 * Returns 1 if the result has no MDS_ACT_FAULT, else 0. */
int mds_act_at_level(int level, int64_t tile, const struct mds_activations *user,
                     unsigned given, const struct mds_act_ranks *r,
                     struct mds_activations *out);

#endif
