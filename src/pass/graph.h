/* SPDX-License-Identifier: Apache-2.0
 *
 * The dependency graph as passes walk it: adjacency of ops in arrays, a topological order, strongly connected
 * components. All linear. Shared by the passes, not by the verifier.
 */
#ifndef STEM_PASS_GRAPH_H
#define STEM_PASS_GRAPH_H

#include "pass/pass.h"

/* Neighbours of op i are to[begin[i]] .. to[begin[i + 1] - 1]; the same one may occur twice (two kinds of dep). */
struct stem_graph {
    uint32_t n;
    uint32_t *begin, *to;
};

/* Bits of the kinds of dep that a graph takes in. */
#define STEM_DEPS_ALL UINT32_MAX
#define STEM_DEPS_FLOW (1u << STEM_DEP_DATA | 1u << STEM_DEP_AFTER)

/* From sched.deps. `within`: leave out deps between segments, which the barrier covers. */
struct stem_graph stem_graph_succs(struct stem_arena *a, const struct stem_program *p, uint32_t kinds, bool within);
struct stem_graph stem_graph_preds(struct stem_arena *a, const struct stem_program *p, uint32_t kinds, bool within);

/* Live ops so that each comes after its predecessors; among the ready ones the lowest id first. *n is their number:
 * fewer than the live ones if there is a cycle. */
uint32_t *stem_graph_topo(struct stem_arena *a, const struct stem_program *p, const struct stem_graph *succs,
                          uint32_t *n);
/* For each op the number of its strongly connected component (Tarjan). */
uint32_t *stem_graph_components(struct stem_arena *a, const struct stem_graph *succs);

uint32_t stem_live_ops(const struct stem_program *p);

/* A heap of op ids, smallest key first; equal keys by id. */
struct stem_heap {
    STEM_VEC(uint32_t) at;
    const uint32_t *key;
};
void stem_heap_push(struct stem_heap *h, uint32_t op);
uint32_t stem_heap_pop(struct stem_heap *h);

/* Builds sched.deps anew, all kinds but MEMORY. False if ops wait for each other; RESOURCE deps are then missing,
 * since their direction follows from an order of the others. Deps that run against the segments are reported. */
bool stem_deps_build(struct stem_program *p, struct stem_arena *scratch, struct stem_diags *diags);
/* Reports a cycle of sched.deps (STEM_E_SCHED_CYCLE); there must be one. */
void stem_deps_report_cycle(const struct stem_program *p, struct stem_arena *scratch, struct stem_diags *diags);

/* Time of an op on its own, microseconds: one launch, and the longer of moving its bytes and doing its arithmetic
 * with as much of the machine as its blocks can fill. */
double stem_estimate_us(const struct stem_cost *c, const struct stem_target *t);

/* What options->costs, which is not NULL, knows of an op; *entry is the table's. `key` may be NULL. */
enum stem_known { STEM_COST_UNKNOWN, STEM_COST_KNOWN, STEM_COST_STALE };
enum stem_known stem_cost_find(const struct stem_program *p, const struct stem_op *op, const struct stem_options *o,
                               const char *key, uint32_t *entry);
/* Sets est_us and where it is from. */
void stem_cost_set(struct stem_op *op, const struct stem_options *o, enum stem_known k, uint32_t entry);
void stem_cost_op(const struct stem_program *p, struct stem_op *op, const struct stem_options *o);
/* All ops of a program; a remark for each stale kind. */
void stem_cost_all(struct stem_program *p, struct stem_pass_ctx *ctx);

/* Name of an op for messages: its path, or the kind of op if it has none. */
const char *stem_op_label(const struct stem_program *p, struct stem_op_id id);

#endif
