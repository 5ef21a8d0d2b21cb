/* SPDX-License-Identifier: BSD-3-Clause */
/* All operations, in the order of tables and ledgers: X(NAME, name).
 *
 * Each operation has: struct mdsk_name, its arguments and contract, in the header of
 * its family; mdsk_name_cpu, the reference implementation; mdsk_name_cuda; and
 * mdsk_name_cost, the minimum of FLOPs and bytes.  Declarations, the tables of backends
 * (table.h), the rows of the ledger (src/device) and the calls of src/tensor are
 * generated from this list. */
#ifndef MDSK_OPERATIONS_H
#define MDSK_OPERATIONS_H

#define MDSK_OPERATIONS(X)                                                             \
    X(LINEAR_FWD, linear_fwd)                                                          \
    X(LINEAR_BWD_INPUT, linear_bwd_input)                                              \
    X(LINEAR_BWD_WEIGHT, linear_bwd_weight)                                            \
    X(FP8_CAST, fp8_cast)                                                              \
    X(FP8_GEMM, fp8_gemm)                                                              \
    X(NORM_FWD, norm_fwd)                                                              \
    X(NORM_BWD, norm_bwd)                                                              \
    X(ATTENTION_FWD, attention_fwd)                                                    \
    X(ATTENTION_BWD, attention_bwd)                                                    \
    X(ATTENTION_CACHED, attention_cached)                                              \
    X(ATTENTION_MERGE, attention_merge)                                                \
    X(ATTENTION_MOST, attention_most)                                                  \
    X(ROPE, rope)                                                                      \
    X(ACTIVATION_FWD, activation_fwd)                                                  \
    X(ACTIVATION_BWD, activation_bwd)                                                  \
    X(EMBEDDING_FWD, embedding_fwd)                                                    \
    X(EMBEDDING_BWD, embedding_bwd)                                                    \
    X(NEXT_TOKEN, next_token)                                                          \
    X(XENT_STATS, xent_stats)                                                          \
    X(XENT_LOSS, xent_loss)                                                            \
    X(XENT_BWD, xent_bwd)                                                              \
    X(DROPOUT, dropout)                                                                \
    X(ROUTE, route)                                                                    \
    X(ROUTE_SORT, route_sort)                                                          \
    X(ROUTE_LOAD, route_load)                                                          \
    X(ROUTE_LOSSES, route_losses)                                                      \
    X(ROUTE_BWD, route_bwd)                                                            \
    X(DISPATCH, dispatch)                                                              \
    X(COMBINE, combine)                                                                \
    X(WEIGH, weigh)                                                                    \
    X(WEIGH_BWD, weigh_bwd)                                                            \
    X(EXPERTS_FWD, experts_fwd)                                                        \
    X(EXPERTS_BWD_INPUT, experts_bwd_input)                                            \
    X(EXPERTS_BWD_WEIGHT, experts_bwd_weight)                                          \
    X(COPY_ROWS, copy_rows)                                                            \
    X(CAST, cast)                                                                      \
    X(ADD, add)                                                                        \
    X(AXPBY, axpby)                                                                    \
    X(SUM_SQUARES, sum_squares)                                                        \
    X(ADAMW, adamw)                                                                    \
    X(MUON_MOMENTUM, muon_momentum)                                                    \
    X(MUON_PRODUCT, muon_product)                                                      \
    X(MUON_STEP, muon_step)

#endif
