/* AdamW over a parameter registry. */
#ifndef MDS_OPTIM_ADAMW_H
#define MDS_OPTIM_ADAMW_H

#include "config/config.h"
#include "device/arena.h"
#include "tensor/params.h"

struct mds_adamw;

/* Bytes that create takes from its arena. */
int64_t mds_adamw_bytes(const struct mds_params *ps);

/* Moments (zeros) for every parameter of ps, from the arena.  cfg is copied; ps, whose
 * buffers are bound, and dev are borrowed and outlive the optimizer. */
enum mds_rc mds_adamw_create(const struct mds_optim_config *cfg, struct mds_params *ps,
                             struct mds_dev *dev, struct mds_arena *arena,
                             struct mds_adamw **out);
void mds_adamw_destroy(struct mds_adamw *o);

/* Queue the sum of squares of all gradients into *sum (f64 on the device, written). */
enum mds_rc mds_adamw_grad_squares(struct mds_adamw *o, double *sum);

/* One update with the gradients as they are times grad_scale; counts the steps for the
 * bias corrections. */
enum mds_rc mds_adamw_step(struct mds_adamw *o, double lr, double grad_scale);

/* What to multiply gradients of this global norm with, so that it is at most `clip`: 1
 * where it is, or where clip is 0.  Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063; the
 * 1e-6 is PyTorch's and Megatron's. */
double mds_clip_scale(double clip, double norm);

#endif
