/* Attention on the GPU: cuDNN's where it can, the project's own otherwise. */
#include "config.h"

#include "kernels/cuda/attention.h"

#include <errno.h>

#ifdef HAVE_CUDNN
#include "kernels/cuda/cudnn_attention.h"

int mdsk_attention_fwd_cuda(void *stream, const struct mdsk_attention_fwd *a)
{
    int err = mdsk_cudnn_attention_fwd(stream, a);

    return err == -ENOTSUP ? mdsk_own_attention_fwd(stream, a) : err;
}

int mdsk_attention_bwd_cuda(void *stream, const struct mdsk_attention_bwd *a)
{
    int err = mdsk_cudnn_attention_bwd(stream, a);

    return err == -ENOTSUP ? mdsk_own_attention_bwd(stream, a) : err;
}
#else
int mdsk_attention_fwd_cuda(void *stream, const struct mdsk_attention_fwd *a)
{
    return mdsk_own_attention_fwd(stream, a);
}

int mdsk_attention_bwd_cuda(void *stream, const struct mdsk_attention_bwd *a)
{
    return mdsk_own_attention_bwd(stream, a);
}
#endif
