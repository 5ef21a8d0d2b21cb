/* A model's weights (or gradients) as one safetensors file, by the registry's names. */
#ifndef MDS_CKPT_WEIGHTS_H
#define MDS_CKPT_WEIGHTS_H

#include "base/status.h"
#include "device/device.h"
#include "tensor/params.h"

/* flat: the registry's flat buffer to write, weights or gradients, on the device. */
enum mds_rc mds_weights_save(const char *path, const struct mds_params *ps,
                             struct mds_dev *dev, const float *flat);

/* Replace all weights.  MDS_EUSER names the first tensor that is missing, has another
 * shape or type, or that the model does not have; then no weight was changed. */
enum mds_rc mds_weights_load(const char *path, struct mds_params *ps,
                             struct mds_dev *dev);

#endif
