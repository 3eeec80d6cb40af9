/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products that a program leaves to cuBLASLt.
 *
 * Each distinct product (shape, types, alignment, workspace) is prepared when the program is made: descriptors, and the
 * first algorithm of the library's heuristic that can be recorded as a chain of kernels. It is kept, so that a program
 * computes the same bits however it is launched; another GPU or another version of the library may choose another one.
 */
#ifndef STEM_RUNTIME_MATMUL_H
#define STEM_RUNTIME_MATMUL_H

#include "cublaslt.h"
#include "exec.h"

/* Loads the library and prepares every product of the plan, if there are any. The streams are there. */
enum stem_status stem_matmul_load(struct stem_exec *e, struct stem_rt_error *err);
void stem_matmul_unload(struct stem_exec *e);

/* The op on a stream, eager or capturing; e->values holds its operands. */
enum stem_status stem_matmul_issue(struct stem_exec *e, const struct stem_plan_op *op, struct CUstream_st *stream,
                                   struct stem_rt_error *err);
/* How many kernels the op is. */
uint32_t stem_matmul_n_nodes(const struct stem_exec *e, const struct stem_plan_op *op);

/* ---- as nodes of a graph (matmul_node.c) ---- */

/* Captured on the helper's stream into a graph of its own: its kernels in order, each with the edge from the one before.
 * STEM_E_LIBRARY if it is anything but such a chain. */
struct stem_matmul_chain {
    struct CUgraph_st *graph;
    struct CUgraphNode_st *node[STEM_MATMUL_MAX_NODES];
    struct stem_cuda_edge edge[STEM_MATMUL_MAX_NODES];
    uint32_t n;
};
enum stem_status stem_matmul_capture(struct stem_exec *e, const struct stem_plan_op *op, int mode,
                                     struct stem_matmul_chain *c, struct stem_rt_error *err);
void stem_matmul_drop(struct stem_exec *e, struct stem_matmul_chain *c);

/* Adds copies of the op's kernels to a graph, behind `n` nodes; `node` gets them in order, NULL after the last. */
enum stem_status stem_matmul_add(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                                 struct CUgraph_st *graph, struct CUgraphNode_st *const *from,
                                 const struct stem_cuda_edge *data, uint32_t n, struct CUgraphNode_st **node,
                                 struct stem_rt_error *err);
/* Gives the op's nodes in an instantiated graph the present addresses. */
enum stem_status stem_matmul_update(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                                    struct CUgraphExec_st *exec, struct CUgraphNode_st *const *node,
                                    struct stem_rt_error *err);

#endif
