/* SPDX-License-Identifier: Apache-2.0
 *
 * What the order pass is made of, for passes that try other orders.
 */
#ifndef STEM_PASS_ORDER_H
#define STEM_PASS_ORDER_H

#include "pass/graph.h"

/* When main-first issues *leaves*: side ops that no main op needs. */
struct stem_leaf_order {
    uint32_t patience; /* at the latest after so many main ops, if they could have been before; UINT32_MAX: last */
    bool with_joins;   /* also behind the other ops of their stream that are issued for a join */
};
#define STEM_LEAVES_USUAL ((struct stem_leaf_order){32, true})

/* Makes sched.order and sched.why anew from streams and deps. `leaves` counts for main-first only. False if ops wait for each
 * other; nothing is reported. */
bool stem_order_build(struct stem_program *p, struct stem_arena *a, enum stem_order how,
                      struct stem_leaf_order leaves);

/* Why an op is issued where it is, in words: "needed by @" where @ stands for ops.at[*other] (STEM_NONE: there is no @). A
 * constant or in `a`; NULL: not known. */
const char *stem_why_text(const struct stem_program *p, struct stem_op_id op, struct stem_arena *a, uint32_t *other);
/* The same as a remark for each op in issue order, with the waits that it takes part in; after all passes. */
void stem_order_remarks(const struct stem_program *p, struct stem_diags *diags);

#endif
