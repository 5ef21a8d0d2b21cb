/* The parameter registry: every weight of a model by name, shape, start value and
 * decay, laid out in two flat buffers, weights and f32 gradients.
 *
 * The model registers, then reads weights through acquire/release and says when a
 * gradient is complete; whoever owns the storage (data parallelism, ZeRO) hooks into
 * those calls. Everything that must treat all weights alike (start values, norm,
 * optimizer, files, memory accounts) walks the list. */
#ifndef MDS_TENSOR_PARAMS_H
#define MDS_TENSOR_PARAMS_H

#include "base/status.h"
#include "device/device.h"

enum mds_init { MDS_INIT_ZERO, MDS_INIT_ONE, MDS_INIT_NORMAL };

struct mds_param_spec {
    char name[64];      /* as in files: "layer.3.attention.q.weight" */
    int64_t rows, cols; /* cols 0: a vector of `rows` elements */
    enum mds_init init;
    double std; /* of MDS_INIT_NORMAL */
    int decay;  /* takes part in weight decay */
    int packed; /* starts right behind the one before, so that both can be one operand
                 */
};

struct mds_param {
    struct mds_param_spec spec;
    int64_t count;  /* elements */
    int64_t offset; /* of the first one in the flat buffers */
};

struct mds_params;

/* What storage owners may hook into; NULL members do nothing.  id is the parameter's
 * place in the registry. */
struct mds_param_hooks {
    void *ctx;
    enum mds_rc (*acquire)(void *ctx, int id);    /* before its weights are read */
    enum mds_rc (*release)(void *ctx, int id);    /* after */
    enum mds_rc (*grad_ready)(void *ctx, int id); /* once a backward pass, at the end */
};

enum mds_rc mds_params_create(struct mds_params **out);
void mds_params_destroy(struct mds_params *ps);

/* Append; *id counts from 0.  The spec is copied. */
enum mds_rc mds_params_add(struct mds_params *ps, const struct mds_param_spec *spec,
                           int *id);

int mds_params_n(const struct mds_params *ps);
const struct mds_param *mds_params_get(const struct mds_params *ps, int id);

/* -1 if there is none of that name. */
int mds_params_find(const struct mds_params *ps, const char *name);

/* Elements of the flat buffers, gaps included: gaps hold zeros and stay so. */
int64_t mds_params_span(const struct mds_params *ps);

/* Elements of all parameters. */
int64_t mds_params_count(const struct mds_params *ps);

/* Where the flat buffers are, `span` elements each; borrowed.  grad may be NULL. */
void mds_params_bind(struct mds_params *ps, float *weight, float *grad);
float *mds_params_weights(const struct mds_params *ps);
float *mds_params_grads(const struct mds_params *ps);

void mds_params_hook(struct mds_params *ps, const struct mds_param_hooks *hooks);

/* n parameters from first on. */
enum mds_rc mds_params_acquire(struct mds_params *ps, int first, int n);
enum mds_rc mds_params_release(struct mds_params *ps, int first, int n);
enum mds_rc mds_params_grad_ready(struct mds_params *ps, int first, int n);

/* The weights (gradient) of one, at its first element. */
const float *mds_param_weight(const struct mds_params *ps, int id);
float *mds_param_grad(const struct mds_params *ps, int id);

/* Start values: Philox keyed by seed and name, counted by the element's index, so that
 * they depend on nothing else. */
enum mds_rc mds_params_init(struct mds_params *ps, struct mds_dev *dev, uint64_t seed);

/* n consecutive start values of one parameter from element `first` on. */
void mds_param_init_values(const struct mds_param_spec *spec, uint64_t seed,
                           int64_t first, int64_t n, float *out);

#endif
