/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of cuBLASLt as nodes of graphs that are built node by node: the call is captured into a graph of its own,
 * whose kernels are copied, so that our graph has kernels only, as a captured one has.
 */
#include "matmul.h"

#include <string.h>

void stem_matmul_drop(struct stem_exec *e, struct stem_matmul_chain *c)
{
    stem_drop_graph(e->rt, c->graph);
    memset(c, 0, sizeof *c);
}

static enum stem_status record(struct stem_exec *e, const struct stem_plan_op *op, int mode, struct CUgraph_st **graph,
                               struct stem_rt_error *err)
{
    struct stem_driver *d = &e->rt->d;
    int code = d->stream_begin_capture(e->helper, mode);
    if (code)
        return stem_fail_cuda(err, d, code, "cuStreamBeginCapture");
    enum stem_status s = stem_matmul_issue(e, op, e->helper, err);
    code = d->stream_end_capture(e->helper, graph);
    if (code || !*graph)
        *graph = NULL;
    else
        atomic_fetch_add(&e->rt->live, 1);
    return s || *graph ? s : stem_fail_cuda(err, d, code, "cuStreamEndCapture");
}

static enum stem_status no_chain(struct stem_rt_error *err)
{
    return stem_fail(err, STEM_E_LIBRARY,
                     "cuBLASLt recorded something else than a chain of at most %d kernels: compile with --matmul=own",
                     STEM_MATMUL_MAX_NODES);
}

static enum stem_status check_kernels(struct stem_exec *e, const struct stem_matmul_chain *c, struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        int type = -1, code = e->rt->d.graph_node_type(c->node[i], &type);
        if (code)
            return stem_fail_cuda(err, &e->rt->d, code, "cuGraphNodeGetType");
        if (type != STEM_CUDA_NODE_KERNEL)
            return no_chain(err);
    }
    return STEM_OK;
}

/* Nodes in the order of the edges, which must be one from each to the next. */
static enum stem_status sort(struct stem_exec *e, struct stem_matmul_chain *c, struct stem_rt_error *err)
{
    struct CUgraphNode_st *from[STEM_MATMUL_MAX_NODES], *to[STEM_MATMUL_MAX_NODES], *at = NULL;
    struct stem_cuda_edge edge[STEM_MATMUL_MAX_NODES];
    size_t n = STEM_MATMUL_MAX_NODES;
    int code = e->rt->d.graph_edges(c->graph, NULL, NULL, NULL, &n);
    if (!code && n + 1 != c->n)
        return no_chain(err);
    if (!code && n)
        code = e->rt->d.graph_edges(c->graph, from, to, edge, &n);
    if (code)
        return stem_fail_cuda(err, &e->rt->d, code, "cuGraphGetEdges");
    for (uint32_t i = 0; i < c->n; i++) {
        bool first = true;
        for (size_t k = 0; k < n; k++)
            first &= to[k] != c->node[i];
        at = first ? c->node[i] : at;
    }
    c->node[0] = at;
    for (uint32_t i = 1; i < c->n; i++) {
        size_t k = 0;
        while (k < n && from[k] != c->node[i - 1])
            k++;
        if (k == n)
            return no_chain(err);
        c->node[i] = to[k];
        c->edge[i] = edge[k];
    }
    return STEM_OK;
}

enum stem_status stem_matmul_capture(struct stem_exec *e, const struct stem_plan_op *op, int mode,
                                     struct stem_matmul_chain *c, struct stem_rt_error *err)
{
    size_t n = 0;
    memset(c, 0, sizeof *c);
    enum stem_status s = record(e, op, mode, &c->graph, err);
    int code = s ? 0 : e->rt->d.graph_nodes(c->graph, NULL, &n);
    if (!s && !code && (n == 0 || n > STEM_MATMUL_MAX_NODES))
        s = no_chain(err);
    if (!s && !code)
        code = e->rt->d.graph_nodes(c->graph, c->node, &n);
    if (code)
        s = stem_fail_cuda(err, &e->rt->d, code, "cuGraphGetNodes");
    c->n = (uint32_t)n;
    if (!s)
        s = check_kernels(e, c, err);
    if (!s)
        s = sort(e, c, err);
    if (s)
        stem_matmul_drop(e, c);
    return s;
}

/* The parameters stay the captured node's, which lives until the chain is dropped. */
static int params_of(struct stem_exec *e, struct CUgraphNode_st *node, struct stem_cuda_node_params *p)
{
    memset(p, 0, sizeof *p);
    p->type = STEM_CUDA_NODE_KERNEL;
    return e->rt->d.kernel_node_params(node, &p->kernel);
}

static enum stem_status capture_at(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                                   struct stem_matmul_chain *c, struct stem_rt_error *err)
{
    stem_op_params(e, op, address);
    return stem_matmul_capture(e, op, STEM_CUDA_CAPTURE_MODE_THREAD_LOCAL, c, err);
}

enum stem_status stem_matmul_add(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                                 struct CUgraph_st *graph, struct CUgraphNode_st *const *from,
                                 const struct stem_cuda_edge *data, uint32_t n, struct CUgraphNode_st **node,
                                 struct stem_rt_error *err)
{
    struct stem_matmul_chain c;
    struct stem_cuda_node_params p;
    enum stem_status s = capture_at(e, op, address, &c, err);
    int code = 0;
    for (uint32_t i = 0; i < c.n && !code; i++) {
        code = params_of(e, c.node[i], &p);
        if (!code && i == 0)
            code = e->rt->d.graph_add_node(&node[0], graph, n ? from : NULL, n ? data : NULL, n, &p);
        else if (!code)
            code = e->rt->d.graph_add_node(&node[i], graph, &node[i - 1], &c.edge[i], 1, &p);
        if (!code)
            code = e->rt->d.kernel_node_copy_attributes(node[i], c.node[i]);
    }
    stem_matmul_drop(e, &c);
    return code ? stem_fail_cuda(err, &e->rt->d, code, "copying a kernel of cuBLASLt into the graph") : s;
}

enum stem_status stem_matmul_update(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                                    struct CUgraphExec_st *exec, struct CUgraphNode_st *const *node,
                                    struct stem_rt_error *err)
{
    struct stem_matmul_chain c;
    struct stem_cuda_node_params p;
    enum stem_status s = capture_at(e, op, address, &c, err);
    int code = 0;
    for (uint32_t i = 0; i < c.n && !code; i++) {
        code = params_of(e, c.node[i], &p);
        if (!code)
            code = e->rt->d.graph_exec_set_params(exec, node[i], &p);
    }
    stem_matmul_drop(e, &c);
    return code ? stem_fail_cuda(err, &e->rt->d, code, "cuGraphExecNodeSetParams") : s;
}
