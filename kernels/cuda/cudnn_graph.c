/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/cudnn_graph.h"

#include <stdbool.h>

static const struct mdsk_cudnn *const dnn = &mdsk_cudnn;

enum { ENGINES = 8, FIRST_INNER_ID = 1000 };

static int check_status(struct mdsk_cudnn_graph *g, cudnnStatus_t status)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        g->status = status;
    return g->status != CUDNN_STATUS_SUCCESS;
}

static cudnnBackendDescriptor_t create_descriptor(struct mdsk_cudnn_graph *g,
                                                  cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    if (check_status(g, g->made < MDSK_CUDNN_MADE ? CUDNN_STATUS_SUCCESS
                                                  : CUDNN_STATUS_INTERNAL_ERROR) ||
        check_status(g, dnn->cudnnBackendCreateDescriptor(type, &d)))
        return NULL;
    g->all[g->made++] = d;
    return d;
}

static void set_attribute(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t d,
                          cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n,
                          const void *values)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        check_status(g, dnn->cudnnBackendSetAttribute(d, name, type, n, values));
}

static void set_descriptor(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set_attribute(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize_descriptor(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t d)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        check_status(g, dnn->cudnnBackendFinalize(d));
}

/* ---- tensors ---- */

struct mdsk_cudnn_shape mdsk_cudnn_packed(int64_t d0, int64_t d1, int64_t d2,
                                          int64_t d3)
{
    return (struct mdsk_cudnn_shape){{d0, d1, d2, d3}, {d1 * d2 * d3, d2 * d3, d3, 1}};
}

struct mdsk_cudnn_shape mdsk_cudnn_flipped(struct mdsk_cudnn_shape s)
{
    int64_t dim = s.dim[2], stride = s.stride[2];

    s.dim[2] = s.dim[3];
    s.stride[2] = s.stride[3];
    s.dim[3] = dim;
    s.stride[3] = stride;
    return s;
}

static mdsk_cudnn_tensor describe_tensor(struct mdsk_cudnn_graph *g, int64_t id,
                                         cudnnDataType_t type,
                                         const struct mdsk_cudnn_shape *s)
{
    cudnnBackendDescriptor_t d = create_descriptor(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = 16;

    set_attribute(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set_attribute(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_attribute(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, s->dim);
    set_attribute(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, s->stride);
    set_attribute(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                  &alignment);
    return d;
}

mdsk_cudnn_tensor mdsk_cudnn_real(struct mdsk_cudnn_graph *g, int64_t id,
                                  cudnnDataType_t type, struct mdsk_cudnn_shape s)
{
    mdsk_cudnn_tensor d = describe_tensor(g, id, type, &s);

    finalize_descriptor(g, d);
    return d;
}

mdsk_cudnn_tensor mdsk_cudnn_number(struct mdsk_cudnn_graph *g, int64_t id,
                                    cudnnDataType_t type)
{
    struct mdsk_cudnn_shape s = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    mdsk_cudnn_tensor d = describe_tensor(g, id, type, &s);
    bool yes = true;

    set_attribute(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finalize_descriptor(g, d);
    return d;
}

mdsk_cudnn_tensor mdsk_cudnn_inner(struct mdsk_cudnn_graph *g, cudnnDataType_t type,
                                   struct mdsk_cudnn_shape s)
{
    mdsk_cudnn_tensor d = describe_tensor(g, FIRST_INNER_ID + g->last_id++, type, &s);
    bool yes = true;

    set_attribute(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finalize_descriptor(g, d);
    return d;
}

/* ---- operations ---- */

static void add_op(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t op)
{
    finalize_descriptor(g, op);
    if (g->status == CUDNN_STATUS_SUCCESS && g->n_ops < MDSK_CUDNN_OPS)
        g->ops[g->n_ops++] = op;
    else
        check_status(g, CUDNN_STATUS_INTERNAL_ERROR);
}

/* What a pointwise operation does, without its tensors. */
static cudnnBackendDescriptor_t create_pointwise(struct mdsk_cudnn_graph *g,
                                                 cudnnPointwiseMode_t f,
                                                 cudnnDataType_t compute, int64_t axis)
{
    cudnnBackendDescriptor_t d =
        create_descriptor(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    set_attribute(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f);
    set_attribute(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
                  &compute);
    if (f == CUDNN_POINTWISE_GEN_INDEX)
        set_attribute(g, d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finalize_descriptor(g, d);
    return d;
}

static void add_pointwise(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t what,
                          mdsk_cudnn_tensor x, mdsk_cudnn_tensor b,
                          mdsk_cudnn_tensor mask, mdsk_cudnn_tensor y)
{
    cudnnBackendDescriptor_t op =
        create_descriptor(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (mask)
        set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(g, op);
}

void mdsk_cudnn_point(struct mdsk_cudnn_graph *g, cudnnPointwiseMode_t f,
                      cudnnDataType_t compute, mdsk_cudnn_tensor x, mdsk_cudnn_tensor b,
                      mdsk_cudnn_tensor y)
{
    add_pointwise(g, create_pointwise(g, f, compute, 0), x, b, NULL, y);
}

void mdsk_cudnn_select(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor x,
                       mdsk_cudnn_tensor b, mdsk_cudnn_tensor mask, mdsk_cudnn_tensor y)
{
    cudnnPointwiseMode_t f = CUDNN_POINTWISE_BINARY_SELECT;

    add_pointwise(g, create_pointwise(g, f, CUDNN_DATA_FLOAT, 0), x, b, mask, y);
}

void mdsk_cudnn_index(struct mdsk_cudnn_graph *g, int64_t axis, mdsk_cudnn_tensor x,
                      mdsk_cudnn_tensor y)
{
    cudnnPointwiseMode_t f = CUDNN_POINTWISE_GEN_INDEX;

    add_pointwise(g, create_pointwise(g, f, CUDNN_DATA_INT32, axis), x, NULL, NULL, y);
}

void mdsk_cudnn_matmul(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor a,
                       mdsk_cudnn_tensor b, mdsk_cudnn_tensor c)
{
    cudnnBackendDescriptor_t what =
                                 create_descriptor(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
                             op;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;

    set_attribute(g, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                  &compute);
    finalize_descriptor(g, what);
    op = create_descriptor(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    add_op(g, op);
}

void mdsk_cudnn_reduce(struct mdsk_cudnn_graph *g, cudnnReduceTensorOp_t f,
                       mdsk_cudnn_tensor x, mdsk_cudnn_tensor y)
{
    cudnnBackendDescriptor_t what = create_descriptor(
                                 g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
                             op;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;

    set_attribute(g, what, CUDNN_ATTR_REDUCTION_OPERATOR,
                  CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &f);
    set_attribute(g, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                  &compute);
    finalize_descriptor(g, what);
    op = create_descriptor(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_op(g, op);
}

void mdsk_cudnn_reshape(struct mdsk_cudnn_graph *g, mdsk_cudnn_tensor x,
                        mdsk_cudnn_tensor y)
{
    cudnnBackendDescriptor_t op =
        create_descriptor(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_op(g, op);
}

/* ---- plans ---- */

/* A plan for one way to run the graph.  That it cannot be made is no failure: there may
 * be other ways. */
static int try_engine(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t engine)
{
    cudnnBackendDescriptor_t plan =
        create_descriptor(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t n = 0;

    set_attribute(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                  &g->handle);
    set_descriptor(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    if (g->status != CUDNN_STATUS_SUCCESS ||
        dnn->cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS)
        return 0;
    g->plan = plan;
    return !check_status(
        g, dnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &n, &g->workspace));
}

/* The ways to run the graph that cuDNN suggests, best first. */
static int64_t list_engines(struct mdsk_cudnn_graph *g, cudnnBackendDescriptor_t graph,
                            cudnnBackendDescriptor_t engine[ENGINES])
{
    cudnnBackendDescriptor_t d =
        create_descriptor(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;

    set_descriptor(g, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set_attribute(g, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize_descriptor(g, d);
    for (int i = 0; i < ENGINES; i++)
        engine[i] = create_descriptor(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status == CUDNN_STATUS_SUCCESS)
        check_status(g, dnn->cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                      CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                      ENGINES, &n, engine));
    return g->status != CUDNN_STATUS_SUCCESS ? 0 : n < ENGINES ? n : ENGINES;
}

void mdsk_cudnn_finish(struct mdsk_cudnn_graph *g)
{
    cudnnBackendDescriptor_t graph =
        create_descriptor(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnnBackendDescriptor_t engine[ENGINES];
    int64_t n;

    set_attribute(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                  &g->handle);
    set_attribute(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    finalize_descriptor(g, graph);
    n = list_engines(g, graph, engine);
    for (int64_t i = 0; i < n; i++)
        if (try_engine(g, engine[i]))
            return;
    check_status(g, CUDNN_STATUS_NOT_SUPPORTED);
}

cudnnStatus_t mdsk_cudnn_run(const struct mdsk_cudnn_graph *g, int n,
                             const int64_t *ids, void **addresses, void *workspace)
{
    struct mdsk_cudnn_graph call = {.handle = g->handle};
    cudnnBackendDescriptor_t pack =
        create_descriptor(&call, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

    set_attribute(&call, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
                  ids);
    set_attribute(&call, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                  CUDNN_TYPE_VOID_PTR, n, addresses);
    set_attribute(&call, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                  1, &workspace);
    finalize_descriptor(&call, pack);
    if (call.status == CUDNN_STATUS_SUCCESS)
        check_status(&call, dnn->cudnnBackendExecute(g->handle, g->plan, pack));
    mdsk_cudnn_fini(&call);
    return call.status;
}

void mdsk_cudnn_fini(struct mdsk_cudnn_graph *g)
{
    while (g->made > 0)
        dnn->cudnnBackendDestroyDescriptor(g->all[--g->made]);
}
