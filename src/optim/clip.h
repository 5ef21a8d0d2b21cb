/* SPDX-License-Identifier: BSD-3-Clause */
/* Clipping by global norm. */
#ifndef MDS_OPTIM_CLIP_H
#define MDS_OPTIM_CLIP_H

/* What to multiply gradients of this global norm with, so that it is at most `clip`: 1
 * where it is, or where clip is 0.  Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063; the
 * 1e-6 is PyTorch's and Megatron's. */
static inline double mds_clip_scale(double clip, double norm)
{
    double scale = clip / (norm + 1e-6);

    return clip > 0 && scale < 1 ? scale : 1;
}

#endif
