/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs of operations for cuDNN's backend API, as far as attention needs them.
 *
 * A graph is built by the calls below, one per tensor and one per operation.  The first
 * failure is kept in `status`, and all later calls do nothing: builders need no checks
 * of their own.  Tensors have four dimensions and are computed with in f32. */
#ifndef MDSK_CUDA_CUDNN_GRAPH_H
#define MDSK_CUDA_CUDNN_GRAPH_H

#include <stdint.h>

#include "kernels/cuda/cudnn_calls.h"

enum { MDSK_CUDNN_MADE = 160, MDSK_CUDNN_OPS = 32 };

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

/* Rows one after the other. */
struct mdsk_cudnn_shape mdsk_cudnn_packed(int64_t d0, int64_t d1, int64_t d2,
                                          int64_t d3);

/* The last two dimensions change places. */
struct mdsk_cudnn_shape mdsk_cudnn_flipped(struct mdsk_cudnn_shape s);

/* A tensor in device memory, known by id > 0, and its address a multiple of 16; one
 * number in host memory; one that lives inside the graph. */
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

/* y = x summed (or its maximum) along the dimensions that y lacks */
void mdsk_cudnn_reduce(struct mdsk_cudnn_graph *g, cudnnReduceTensorOp_t f,
                       mdsk_cudnn_tensor x, mdsk_cudnn_tensor y);

/* y = the elements of x under other dimensions and strides */
void mdsk_cudnn_reshape(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor x,
                        mdsk_cudnn_tensor y);

/* Find something that can run the graph; sets plan and workspace, or status. */
void mdsk_cudnn_finish(struct mdsk_cudnn_graph *g);

/* Run it: `n` ids and their addresses, workspace as finish said. */
cudnnStatus_t mdsk_cudnn_run(const struct mdsk_cudnn_graph *g, int n,
                             const int64_t *ids, void **addresses, void *workspace);

/* Undo everything.  A zeroed graph is fine. */
void mdsk_cudnn_fini(struct mdsk_cudnn_graph *g);

#endif
