/* SPDX-License-Identifier: BSD-3-Clause */
/* Clipping by global norm. */
#ifndef MDS_OPTIM_CLIP_H
#define MDS_OPTIM_CLIP_H

/* The factor that reduces gradients of this global norm to norm `clip`; 1 if the norm
 * is smaller, or if clip is 0.  Source: Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063;
 * the 1e-6 is that of PyTorch and Megatron. */
static inline double mds_clip_scale(double clip, double norm)
{
    double scale = clip / (norm + 1e-6);

    return clip > 0 && scale < 1 ? scale : 1;
}

#endif
