/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs of operations for cuDNN's backend API: those that attention needs.
 *
 * A graph is built by the calls below, one per tensor and one per operation.  The first
 * failure is kept in `status` and all later calls do nothing, so callers check only at
 * the end.  Tensors have four dimensions; arithmetic is in f32. */
#ifndef MDSK_CUDA_CUDNN_GRAPH_H
#define MDSK_CUDA_CUDNN_GRAPH_H

#include <stdint.h>

#include "kernels/cuda/cudnn_calls.h"

enum { MDSK_CUDNN_MADE = 192, MDSK_CUDNN_OPS = 40 };

/* A tensor of a graph. */
typedef cudnnBackendDescriptor_t mdsk_cudnn_tensor;

struct mdsk_cudnn_graph {
    cudnnHandle_t handle;
    cudnnStatus_t status;
    int made, n_ops;
    int64_t last_id;
    cudnnBackendDescriptor_t all[MDSK_CUDNN_MADE]; /* in order of creation */
    cudnnBackendDescriptor_t ops[MDSK_CUDNN_OPS];
    cudnnBackendDescriptor_t plan;
    int64_t workspace; /* bytes */
};

/* Dimensions and strides, in elements. */
struct mdsk_cudnn_shape {
    int64_t dim[4], stride[4];
};

/* A packed tensor, the last dimension contiguous. */
struct mdsk_cudnn_shape mdsk_cudnn_packed(int64_t d0, int64_t d1, int64_t d2,
                                          int64_t d3);

/* The last two dimensions swapped. */
struct mdsk_cudnn_shape mdsk_cudnn_flipped(struct mdsk_cudnn_shape s);

/* real: a tensor in device memory, identified by id > 0, its address a multiple of 16.
 * number: a scalar in host memory.  inner: an intermediate tensor of the graph. */
mdsk_cudnn_tensor mdsk_cudnn_real(struct mdsk_cudnn_graph *g, int64_t id,
                                  cudnnDataType_t type, struct mdsk_cudnn_shape s);
mdsk_cudnn_tensor mdsk_cudnn_number(struct mdsk_cudnn_graph *g, int64_t id,
                                    cudnnDataType_t type);
mdsk_cudnn_tensor mdsk_cudnn_inner(struct mdsk_cudnn_graph *g, cudnnDataType_t type,
                                   struct mdsk_cudnn_shape s);

/* y = f(x, b), element by element; b NULL where f takes one argument.  compute: the
 * type f is computed in. */
void mdsk_cudnn_point(struct mdsk_cudnn_graph *g, cudnnPointwiseMode_t f,
                      cudnnDataType_t compute, mdsk_cudnn_tensor x, mdsk_cudnn_tensor b,
                      mdsk_cudnn_tensor y);

/* y = mask ? x : b */
void mdsk_cudnn_select(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor x,
                       mdsk_cudnn_tensor b, mdsk_cudnn_tensor mask,
                       mdsk_cudnn_tensor y);

/* y = each element's index along an axis of x */
void mdsk_cudnn_index(struct mdsk_cudnn_graph *g, int64_t axis, mdsk_cudnn_tensor x,
                      mdsk_cudnn_tensor y);

/* c = a b, matrix by matrix */
void mdsk_cudnn_matmul(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor a,
                       mdsk_cudnn_tensor b, mdsk_cudnn_tensor c);

/* y = the sum or maximum of x along the dimensions in which y has size 1 */
void mdsk_cudnn_reduce(struct mdsk_cudnn_graph *g, cudnnReduceTensorOp_t f,
                       mdsk_cudnn_tensor x, mdsk_cudnn_tensor y);

/* y = the elements of x under other dimensions and strides */
void mdsk_cudnn_reshape(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor x,
                        mdsk_cudnn_tensor y);

/* Find an engine for the graph; sets plan and workspace, or status. */
void mdsk_cudnn_finish(struct mdsk_cudnn_graph *g);

/* Execute the graph with `n` tensors and g->workspace bytes of workspace. */
cudnnStatus_t mdsk_cudnn_run(const struct mdsk_cudnn_graph *g, int n,
                             const int64_t *ids, void **addresses, void *workspace);

/* Destroy everything.  A zeroed graph is fine. */
void mdsk_cudnn_fini(struct mdsk_cudnn_graph *g);

#endif
