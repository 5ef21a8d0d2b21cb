/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention on the GPU: by the kernels for Hopper; by cuDNN where those cannot compute
 * the problem and it can (without ALiBi); by kernels for any GPU otherwise; unfused if
 * the shape says so. */
#include "config.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/hopper/attention.h"
#include "kernels/cuda/hopper/backward.h"
#include "kernels/cuda/unfused.h"

#include <errno.h>

#ifdef HAVE_CUDNN
#include "kernels/cuda/cudnn_attention.h"

static int cudnn_fwd(void *stream, const struct mdsk_attention_fwd *a)
{
    return a->shape.start        ? mdsk_cudnn_documents_fwd(stream, a)
           : a->shape.window > 0 ? mdsk_cudnn_window_fwd(stream, a)
                                 : mdsk_cudnn_attention_fwd(stream, a);
}

static int cudnn_bwd(void *stream, const struct mdsk_attention_bwd *a)
{
    return a->shape.start        ? mdsk_cudnn_documents_bwd(stream, a)
           : a->shape.window > 0 ? mdsk_cudnn_window_bwd(stream, a)
                                 : mdsk_cudnn_attention_bwd(stream, a);
}
#else
static int cudnn_fwd(void *stream, const struct mdsk_attention_fwd *a)
{
    (void)stream;
    (void)a;
    return -ENOTSUP;
}

static int cudnn_bwd(void *stream, const struct mdsk_attention_bwd *a)
{
    (void)stream;
    (void)a;
    return -ENOTSUP;
}
#endif

static int fused_fwd(void *stream, const struct mdsk_attention_fwd *a)
{
    int err = mdsk_hopper_attention_fwd(stream, a);

    if (err == -ENOTSUP && a->shape.alibi_heads == 0)
        err = cudnn_fwd(stream, a);
    return err == -ENOTSUP ? mdsk_own_attention_fwd(stream, a) : err;
}

static int fused_bwd(void *stream, const struct mdsk_attention_bwd *a)
{
    int err = mdsk_hopper_attention_bwd(stream, a);

    if (err == -ENOTSUP && a->shape.alibi_heads == 0)
        err = cudnn_bwd(stream, a);
    return err == -ENOTSUP ? mdsk_own_attention_bwd(stream, a) : err;
}

int mdsk_attention_fwd_cuda(void *stream, const struct mdsk_attention_fwd *a)
{
    if (a->shape.unfused)
        return mdsk_unfused_attention_fwd(&mdsk_unfused_steps_cuda, stream, a);
    return fused_fwd(stream, a);
}

int mdsk_attention_bwd_cuda(void *stream, const struct mdsk_attention_bwd *a)
{
    if (a->shape.unfused)
        return mdsk_unfused_attention_bwd(&mdsk_unfused_steps_cuda, stream, a);
    return fused_bwd(stream, a);
}
