/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter registry: every weight of a model (or of a pipeline stage) with name,
 * shape, initial values, weight decay and shard, grouped in units.
 *
 * A unit is a set of parameters that are gathered and released together: a layer, an
 * embedding, the head.  They are one contiguous range of elements.  The owner of the
 * storage (optim/zero.h) decides where in memory that range is, and hooks into the
 * calls below.
 * The model registers units and parameters, and then, for each unit and pass, calls
 *
 *     acquire    ... reads weights ...        release
 *     grad_begin ... adds to gradients ...    grad_ready   (once each a backward pass)
 *
 * Code that handles all weights in the same way (initial values, gradient norm,
 * optimizer, checkpoints, memory accounts) loops over this list. */
#ifndef MDS_TENSOR_PARAMS_H
#define MDS_TENSOR_PARAMS_H

#include "base/status.h"
#include "device/device.h"

enum mds_init { MDS_INIT_ZERO, MDS_INIT_ONE, MDS_INIT_NORMAL };

/* How a parameter is sharded: each rank has the part-th of `parts` equal blocks of rows
 * (columns), or all of it. */
enum mds_shard { MDS_SHARD_NONE, MDS_SHARD_ROWS, MDS_SHARD_COLS };

struct mds_param_spec {
    char name[64];      /* as in files: "layer.3.attention.q.weight" */
    int64_t rows, cols; /* unsharded; cols 0: a vector of `rows` elements */
    enum mds_init init;
    double std;   /* of MDS_INIT_NORMAL */
    int decay;    /* takes part in weight decay */
    double width; /* of its input, in those of muP's base model, the same for all that
                     have one; 0: another parameter than a hidden matrix, or no muP */
    int packed;   /* starts directly after the previous one: both can be one operand */
    enum mds_shard shard;
    unsigned axes;    /* ranks along these (topo/axes.h) have different shards of it */
    unsigned partial; /* ranks along these compute partial sums of its gradient, from
                         different tokens or with different shards */
    int parts, part;  /* number of shards, and this rank's; 0, 0: not sharded */
    int duplicate;    /* another rank has the same shard, and counts it in norms */
    int in_block;     /* a matrix of a block's linear layer */
    int by_gemm;      /* the first operation on its gradient is a GEMM of all of it */
    int64_t
        head_rows; /* of each head, if heads can be scaled one by one; 0: it has none */
    int64_t first_head; /* number of the first one of the unsharded parameter */
};

struct mds_param {
    struct mds_param_spec spec;
    int64_t rows, cols; /* of this rank's shard; cols 0: a vector */
    int64_t count;      /* elements of the shard */
    int64_t offset;     /* of its first element, counted over all units */
    int unit;
    int uninit; /* its gradient is uninitialised: the first kernel writes, not adds */
};

struct mds_param_unit {
    char name[32];
    int first_param, params;
    int64_t first, count; /* elements, multiples of MDS_UNIT_ALIGN; gaps are 0 */
    void *weight;         /* dtype [count]; NULL while not gathered */
    float *grad;          /* [count]; NULL while there is none */
    int encloses;         /* mds_params_set_encloses */
    int inner;            /* mds_params_set_inner */
    unsigned apart;       /* axes along which ranks have other shards of all of it */
};

/* Elements. */
enum { MDS_UNIT_ALIGN = 64 };

struct mds_params;

/* The hooks of the storage's owner; NULL members do nothing.  The owner makes sure that
 * the unit's weight (grad) is set between acquire and release (grad_begin and
 * grad_ready).  grad_ready fails with MDS_EBUG if a gradient is still uninitialised. */
struct mds_param_hooks {
    void *ctx;
    enum mds_rc (*acquire)(void *ctx, int unit);
    enum mds_rc (*release)(void *ctx, int unit);
    enum mds_rc (*grad_begin)(void *ctx, int unit);
    enum mds_rc (*grad_ready)(void *ctx, int unit);
};

/* dtype: of the weights; gradients are f32. */
enum mds_rc mds_params_create(enum mdsk_dtype dtype, struct mds_params **out);
void mds_params_destroy(struct mds_params *ps); /* NULL is fine */

/* Parameters added from now on belong to a new unit; *unit counts from 0. */
enum mds_rc mds_params_add_unit(struct mds_params *ps, const char *name, int *unit);

/* Allow other units to be acquired and released, one at a time, while this unit is in
 * use (weights or gradient).  Otherwise only one unit is in use at a time. */
void mds_params_set_encloses(struct mds_params *ps, int unit);

/* This unit is used while another one is, which does not enclose it. */
void mds_params_set_inner(struct mds_params *ps, int unit);

/* The rows of a parameter are those of heads, numbered from first_head on. */
void mds_params_set_heads(struct mds_params *ps, int id, int64_t head_rows,
                          int64_t first_head);

/* Append a parameter to the last unit; *id counts from 0.  The spec is copied. */
enum mds_rc mds_params_add(struct mds_params *ps, const struct mds_param_spec *spec,
                           int *id);

enum mdsk_dtype mds_params_dtype(const struct mds_params *ps);
int mds_params_n(const struct mds_params *ps);
const struct mds_param *mds_params_get(const struct mds_params *ps, int id);
int mds_params_units(const struct mds_params *ps);
const struct mds_param_unit *mds_params_unit(const struct mds_params *ps, int unit);

/* The axes over which partial gradients are summed: those along which ranks have the
 * same shard. */
static inline unsigned mds_param_sum_axes(const struct mds_param_spec *s)
{
    return s->partial & ~s->axes;
}

/* sum_axes: the axes along which all gradients are partial, less those along which the
 * unit is sharded; the storage's owner sums the unit over these after grad_ready.
 * early_axes: the other sum axes of one parameter; the layer that computes its gradient
 * sums over these before grad_ready. */
unsigned mds_params_sum_axes(const struct mds_params *ps, int unit);
unsigned mds_params_early_axes(const struct mds_params *ps, int id);

/* The id of the parameter with that name, or -1. */
int mds_params_find(const struct mds_params *ps, const char *name);

/* Elements of all units, gaps included. */
int64_t mds_params_span(const struct mds_params *ps);

/* Elements of all shards on this rank. */
int64_t mds_params_count(const struct mds_params *ps);

/* Set where a unit's weights (gradients) are now; borrowed, may be NULL. */
void mds_params_set_weight(struct mds_params *ps, int unit, void *weight);
void mds_params_set_grad(struct mds_params *ps, int unit, float *grad);

void mds_params_hook(struct mds_params *ps, const struct mds_param_hooks *hooks);
enum mds_rc mds_params_acquire(struct mds_params *ps, int unit);
enum mds_rc mds_params_release(struct mds_params *ps, int unit);
enum mds_rc mds_params_grad_begin(struct mds_params *ps, int unit);
enum mds_rc mds_params_grad_ready(struct mds_params *ps, int unit);

/* The weights (gradient) of one parameter: its first element; borrowed. */
const void *mds_param_weight(const struct mds_params *ps, int id);
float *mds_param_grad(const struct mds_params *ps, int id);

/* Called by the owner when a gradient begins: mark the gradients with by_gemm set as
 * uninitialised, so that their first GEMM writes (beta = 0) instead of adding.  All
 * others have to be zero.  This saves 8 bytes of traffic per element. */
void mds_params_set_uninit(struct mds_params *ps, int unit);

/* Call before producing the gradient of `count` elements, starting at parameter id
 * (whole parameters).  Returns 1 if it is uninitialised and must be written, 0 if it
 * must be added to; clears the mark. */
int mds_params_test_and_clear_uninit(struct mds_params *ps, int id, int64_t count);

/* The row-major index in the unsharded parameter of element i of this rank's shard. */
int64_t mds_param_whole_index(const struct mds_param *p, int64_t i);

/* The elements of a parameter that lie in a range of its unit. */
struct mds_param_overlap {
    int64_t first, n; /* relative to the parameter; n 0: no overlap */
    int64_t at;       /* index of the first one, relative to the range */
};

/* The overlap of p with elements first .. first + n - 1 of its unit. */
struct mds_param_overlap mds_param_overlap(const struct mds_params *ps,
                                           const struct mds_param *p, int64_t first,
                                           int64_t n);

/* The hash of a parameter's name that keys its initial values: FNV-1a, 64 bits. */
uint64_t mds_param_hash(const char *name);

/* Initial values of elements first .. first + n - 1 of this rank's shard, in f32, from
 * Philox.  The key is seed and name, the counter the index in the unsharded parameter,
 * so the values do not depend on how the parameter is sharded. */
void mds_param_init_values(const struct mds_param *p, uint64_t seed, int64_t first,
                           int64_t n, float *out);

/* Initial values of elements first .. first + n - 1 of a unit, with gaps set to 0. */
void mds_unit_init_values(const struct mds_params *ps, int unit, uint64_t seed,
                          int64_t first, int64_t n, float *out);

#endif
