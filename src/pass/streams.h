/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways of choosing streams.
 */
#ifndef STEM_PASS_STREAMS_H
#define STEM_PASS_STREAMS_H

#include "pass/graph.h"

/* The data-flow graph that streams are chosen by: DATA and AFTER deps within segments. */
struct stem_flow {
    struct stem_graph succs, preds;
    const uint32_t *topo;
    uint32_t n;
};

/* None is: chains beside the critical path go to side streams where that pays (streams_auto.c). Every op is on main
 * before. */
void stem_streams_auto(struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_flow *flow);
/* Some are: what each pinned group gains and costs, from the issue order on (events pass). */
void stem_streams_pinned(struct stem_program *p, struct stem_pass_ctx *ctx);
bool stem_streams_has_pins(const struct stem_program *p, const struct stem_options *o);

#endif
