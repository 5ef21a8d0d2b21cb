/* SPDX-License-Identifier: BSD-3-Clause */
/* What blocks keep of activations between forward and backward, and where: the options
 * about it, which of them go together, and what they mean.  Config reads and checks
 * them, the planner searches them, the model asks what a block keeps: nobody else
 * interprets an option of this kind. */
#ifndef MDS_CONFIG_ACTIVATIONS_H
#define MDS_CONFIG_ACTIVATIONS_H

#include <stddef.h>
#include <stdint.h>

enum mds_recompute { MDS_RECOMPUTE_NONE, MDS_RECOMPUTE_SELECTIVE, MDS_RECOMPUTE_FULL };
/* What selective recompute can name, as bits. */
enum mds_recompute_module { MDS_MODULE_LAYERNORM = 1, MDS_MODULE_MLP_ACT = 2 };

/* Rows of logits at a time unless told.  Each further tile reads and writes the f32
 * gradient of the head's weight once more, 8 V H bytes: on an H200 0.3 % of 16384
 * tokens' time in a GPT of 124 M parameters, less in a larger one. */
enum { MDS_DEFAULT_LOSS_TILE = 16384 };

/* The options' values; without padding, so that two can be compared as bytes. */
struct mds_activations {
    enum mds_recompute recompute;
    int recompute_modules; /* selective: these and nothing else; 0: none are named */
    int partition_activations; /* full: kept inputs are cut over the tensor ranks */
    int offload_activations;   /* full, or tiled: what is kept waits in host memory */
    int64_t recompute_layers;  /* full: blocks per kept input */
    int64_t offload_layers;    /* none: blocks whose buffers wait in host memory */
    int64_t sequence_tile;   /* rows of a block at a time, but for attention; 0: all */
    int64_t keep_attention;  /* full: blocks that keep attention's result, too */
    int64_t device_inputs;   /* offloaded inputs: blocks whose stay on the device */
    int64_t attention_chunk; /* tokens of q, k, v on the device at a time; 0: all */
    int64_t mlp_tile;        /* rows of the MLP's inside at a time; 0: all */
    int64_t loss_tile;       /* rows of logits at a time; 0: all */
};

_Static_assert(sizeof(struct mds_activations) == 4 * sizeof(int) + 8 * sizeof(int64_t),
               "activations are compared as bytes");

/* One member, and the key of its option (options.c). */
struct mds_act_option {
    const char *key;
    size_t offset;
    int of_layout; /* not every layout of ranks allows it */
};

/* All members; ends with a key of NULL. */
enum { MDS_ACT_OPTIONS = 12 };
extern const struct mds_act_option mds_act_options[MDS_ACT_OPTIONS + 1];

/* The one of that key, which must exist. */
const struct mds_act_option *mds_act_option(const char *key);

/* The value of one member. */
int64_t mds_act_get(const struct mds_activations *a, const struct mds_act_option *o);
void mds_act_set(struct mds_activations *a, const struct mds_act_option *o,
                 int64_t value);

/* The values of options that nobody has given. */
struct mds_activations mds_act_defaults(void);

/* By enum mds_recompute, as options have them; NULL at the end. */
extern const char *const mds_recompute_names[];

/* Which large parts of blocks are computed again: NONE, too, where modules are named.
 */
enum mds_recompute mds_recompute_of(const struct mds_activations *a);

/* "layernorm,mlp_act" */
const char *mds_recompute_modules_name(int modules);

/* Put all that so many blocks keep on the host (--cpu-offloading-num-layers). */
void mds_act_let_leave(struct mds_activations *a, int64_t blocks);

/* How many kinds of things are on the host: what recompute keeps, whole blocks. */
int mds_act_kinds_on_host(const struct mds_activations *a);

/* The same for half the blocks; 0 if one of its numbers of blocks is odd. */
int mds_act_halve(struct mds_activations *a);

/* Of so many blocks the most that --cpu-offloading-num-layers takes where nobody says
 * more: two have to stay, and hundreds of GiB of pinned memory take minutes to get. */
int64_t mds_max_offload_layers(int64_t blocks);

/* ---- what they mean ---- */

/* What of a block a policy is about; src/model/saved.h has the tensors of each. */
enum mds_act_part {
    MDS_ACT_INPUT,
    MDS_ACT_ATTENTION, /* its result */
    MDS_ACT_LSE,       /* its log-sum-exp */
    MDS_ACT_NORMS,     /* both norms' results */
    MDS_ACT_MLP_IN,    /* before the MLP's activation */
    MDS_ACT_MLP_ACT,   /* behind it */
    MDS_ACT_REST,      /* of what backward reads */
    MDS_ACT_PARTS
};

/* Where a part is from forward to backward; 0: nowhere, it is computed again. */
enum mds_act_where {
    MDS_ACT_KEPT = 1,  /* on the device, unless one of the others says more */
    MDS_ACT_SHARD = 2, /* of each tensor rank, that rank's part */
    MDS_ACT_HOST = 4,
};

struct mds_act_policy {
    int of[MDS_ACT_PARTS]; /* bits of enum mds_act_where */
};

/* Of block l of a stage of `blocks`. */
struct mds_act_policy mds_act_policy(const struct mds_activations *a, int64_t blocks,
                                     int64_t l);

/* Of a block of whose insides nothing large is computed again: each, where
 * mds_recompute_of is NONE; and those that run forward again for the sake of one kept
 * input. */
struct mds_act_policy mds_act_policy_inside(const struct mds_activations *a);

/* Blocks for which one input is kept. */
int64_t mds_act_group(const struct mds_activations *a);

/* Of so many blocks, those that have buffers on the device; they have them in turn. */
int64_t mds_act_slots(const struct mds_activations *a, int64_t blocks);

/* Whether anything is in host memory. */
int mds_act_uses_host(const struct mds_activations *a);

/* ---- levels ---- */

enum {
    MDS_ACT_LEVELS = 10,
    MDS_ACT_FALLING = 4, /* up to that level each needs less of the device */
    MDS_ACT_TILE = 4096  /* tokens: so many rows fill a GPU */
};

/* Tokens of a tile where a rank has `tokens` of each sequence; 0: too few to cut. */
int64_t mds_act_tile(int64_t tokens);

/* Set recompute, tiles, and what is on the host to one of the levels: each needs less
 * memory than the one before, on the device or on the host, and takes more time.  tile:
 * mds_act_tile. */
void mds_act_set_level(struct mds_activations *a, int level, int64_t tile);

/* Which options a level sets: bits as in mds_act_settle's `given`.  Those of the policy
 * are what makes a level; how large tiles are is beside it. */
unsigned mds_act_level_policy(void);
unsigned mds_act_level_tiles(void);

/* ---- which of them go together (activation_rules.c) ---- */

/* What the rules need to know of the ranks and the model. */
struct mds_act_ranks {
    int64_t tensor;        /* ranks */
    int64_t sequence;      /* ranks that share each sequence: ring x Ulysses */
    int sequence_parallel; /* Megatron's */
    int64_t hidden;
    int64_t blocks;    /* of a stage, or of each of its chunks; 0: not known */
    const char *whose; /* "model", "stage": those blocks */
};

enum mds_act_effect {
    MDS_ACT_FAULT,
    MDS_ACT_WARNING, /* the option changes nothing */
    MDS_ACT_OFF,     /* likewise; it is turned off */
};

struct mds_act_finding {
    const char *key; /* of the option */
    enum mds_act_effect effect;
    char text[320]; /* for the user */
};

/* The next rule from number *at on that *a breaks; *at becomes the one behind it.  What
 * is MDS_ACT_OFF is off in *a then.  0: there is no more. */
int mds_act_check(struct mds_activations *a, const struct mds_act_ranks *r, int *at,
                  struct mds_act_finding *f);

/* Of *a, which a program has chosen, what the user has given is taken from *user (bit i
 * of `given`: mds_act_options[i]).  The rest gives way to that, and what then breaks a
 * rule is turned off, whatever the ranks are.  What the user gave and does not go
 * together is left for mds_act_check to find. */
void mds_act_settle(struct mds_activations *a, const struct mds_activations *user,
                    unsigned given);

/* A level with what the user has given: what of the level breaks a rule then is turned
 * off, as in mds_act_settle, but nothing else gives way.  Returns whether no rule is
 * broken. */
int mds_act_at_level(int level, int64_t tile, const struct mds_activations *user,
                     unsigned given, const struct mds_act_ranks *r,
                     struct mds_activations *out);

#endif
