/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter registry: every weight of a model (or of a pipeline stage) with name,
 * shape, initial values, weight decay and shard, grouped in units.
 *
 * A unit is what is gathered and released together: a layer, an embedding, the head.
 * Its parameters are contiguous in one range of elements.  The owner of the storage
 * (optim/zero.h) decides where that range is in memory and hooks into the calls below.
 * The model registers units and parameters, and then, for each unit and pass, calls
 *
 *     acquire    ... reads weights ...        release
 *     grad_begin ... adds to gradients ...    grad_ready   (once each a backward pass)
 *
 * Everything that must treat all weights alike (start values, norm, optimizer, files,
 * memory accounts) walks the list. */
#ifndef MDS_TENSOR_PARAMS_H
#define MDS_TENSOR_PARAMS_H

#include "base/status.h"
#include "device/device.h"

enum mds_init { MDS_INIT_ZERO, MDS_INIT_ONE, MDS_INIT_NORMAL };

/* How ranks share a parameter: each has the part-th of `parts` equal runs of rows
 * (columns), or all of it. */
enum mds_shard { MDS_SHARD_NONE, MDS_SHARD_ROWS, MDS_SHARD_COLS };

struct mds_param_spec {
    char name[64];      /* as in files: "layer.3.attention.q.weight" */
    int64_t rows, cols; /* of the whole; cols 0: a vector of `rows` elements */
    enum mds_init init;
    double std; /* of MDS_INIT_NORMAL */
    int decay;  /* takes part in weight decay */
    int packed; /* starts right behind the one before, so that both can be one operand
                 */
    enum mds_shard shard;
    unsigned axes;    /* ranks along these (topo/axes.h) have other shards of it */
    unsigned partial; /* ranks along these make other parts of its gradient, from other
                         tokens or with other shards */
    int parts, part;  /* shards, and which is here; 0, 0: not shared */
    int duplicate;    /* another rank with this very share counts it in norms */
    int by_product;   /* the first operation on its gradient is a GEMM of all of it */
};

struct mds_param {
    struct mds_param_spec spec;
    int64_t rows, cols; /* of this rank's share; cols 0: a vector */
    int64_t count;      /* elements of it */
    int64_t offset;     /* of the first one, counted over all units */
    int unit;
    int uninit; /* its gradient is uninitialised: the first to produce it writes */
};

struct mds_param_unit {
    char name[32];
    int first_param, params;
    int64_t first, count; /* elements; both multiples of MDS_UNIT_ALIGN; gaps are 0 */
    void *weight;         /* dtype [count]; NULL while it is elsewhere */
    float *grad;          /* [count]; NULL while there is none */
    int encloses;         /* others come and go while it is in use: below */
};

/* Elements. */
enum { MDS_UNIT_ALIGN = 64 };

struct mds_params;

/* What the storage's owner hooks into; NULL members do nothing.  The owner sees to it
 * that between acquire and release (grad_begin and grad_ready) the unit's weight (grad)
 * is set.  grad_ready without one that is still blank is MDS_EBUG. */
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

/* While this unit's weights are in use, or its gradient is under way, others' may be,
 * too, one after the other; of all others only one at a time. */
void mds_params_set_encloses(struct mds_params *ps, int unit);

/* Append to the last unit; *id counts from 0.  The spec is copied. */
enum mds_rc mds_params_add(struct mds_params *ps, const struct mds_param_spec *spec,
                           int *id);

enum mdsk_dtype mds_params_dtype(const struct mds_params *ps);
int mds_params_n(const struct mds_params *ps);
const struct mds_param *mds_params_get(const struct mds_params *ps, int id);
int mds_params_units(const struct mds_params *ps);
const struct mds_param_unit *mds_params_unit(const struct mds_params *ps, int unit);

/* The axes along which parts of a gradient are to be added up: of ranks that have the
 * same shard. */
static inline unsigned mds_param_sum_axes(const struct mds_param_spec *s)
{
    return s->partial & ~s->axes;
}

/* Those that all parameters have in common, over which the storage's owner sums what is
 * ready; and the others of one, over which whoever makes its gradient does before. */
unsigned mds_params_sum_axes(const struct mds_params *ps);
unsigned mds_params_early_axes(const struct mds_params *ps, int id);

/* -1 if there is none of that name. */
int mds_params_find(const struct mds_params *ps, const char *name);

/* Elements of all units, gaps included. */
int64_t mds_params_span(const struct mds_params *ps);

/* Elements of all shares on this rank. */
int64_t mds_params_count(const struct mds_params *ps);

/* Where a unit's elements are now; borrowed.  Either may be NULL. */
void mds_params_set_storage(struct mds_params *ps, int unit, void *weight, float *grad);

void mds_params_hook(struct mds_params *ps, const struct mds_param_hooks *hooks);
enum mds_rc mds_params_acquire(struct mds_params *ps, int unit);
enum mds_rc mds_params_release(struct mds_params *ps, int unit);
enum mds_rc mds_params_grad_begin(struct mds_params *ps, int unit);
enum mds_rc mds_params_grad_ready(struct mds_params *ps, int unit);

/* The weights (gradient) of one, at its first element. */
const void *mds_param_weight(const struct mds_params *ps, int id);
float *mds_param_grad(const struct mds_params *ps, int id);

/* Called by the owner when a gradient begins: mark the gradients with by_product set as
 * uninitialised, so that their first GEMM writes (beta = 0) instead of adding.  All
 * others have to be zero.  This saves 8 bytes of traffic per element. */
void mds_params_set_uninit(struct mds_params *ps, int unit);

/* Called before writing the gradient of `count` elements from parameter id on (whole
 * parameters).  Returns 1 if it is uninitialised and has to be written, 0 if it has to
 * be added to; clears the mark. */
int mds_params_take_uninit(struct mds_params *ps, int id, int64_t count);

/* The index in the whole parameter, row-major, of element i of this rank's share. */
int64_t mds_param_whole_index(const struct mds_param *p, int64_t i);

/* The elements of a parameter that lie in a range of its unit. */
struct mds_param_overlap {
    int64_t first, n; /* counted in the parameter; n 0: none */
    int64_t at;       /* where in the range the first of them is */
};

/* The overlap of p with elements first .. first + n - 1 of its unit. */
struct mds_param_overlap mds_param_overlap(const struct mds_params *ps,
                                           const struct mds_param *p, int64_t first,
                                           int64_t n);

/* A name's share of what its start values are keyed by: FNV-1a, 64 bits. */
uint64_t mds_param_hash(const char *name);

/* Start values of elements first .. first + n - 1 of this rank's share, in f32: Philox
 * keyed by seed and name and counted by the index in the whole, so that they depend on
 * nothing else. */
void mds_param_init_values(const struct mds_param *p, uint64_t seed, int64_t first,
                           int64_t n, float *out);

/* Start values of elements first .. first + n - 1 of a unit, gaps 0. */
void mds_unit_init_values(const struct mds_params *ps, int unit, uint64_t seed,
                          int64_t first, int64_t n, float *out);

#endif
