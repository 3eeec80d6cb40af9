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

/* Makes sched.order anew from streams and deps. `leaves` counts for main-first only. False if ops wait for each
 * other; nothing is reported. */
bool stem_order_build(struct stem_program *p, struct stem_arena *a, enum stem_order how,
                      struct stem_leaf_order leaves);

#endif
