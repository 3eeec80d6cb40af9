/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights and the tensors of checkpoints that make them up. Used by the plan's reader too, so nothing of the driver.
 */
#ifndef STEM_RUNTIME_SOURCES_H
#define STEM_RUNTIME_SOURCES_H

#include "plan.h"

enum { STEM_MAX_SOURCE = 1000 }; /* characters of a `from` */

struct stem_sources {
    const char *from;
    const char *star, *list; /* their braces in `from`; NULL: there is none */
    uint64_t first;          /* {*+N}: N */
    uint32_t n_star, n_list; /* tensors: n_star times n_list, the list running faster */
    size_t len;              /* of the names in `from`, without the part behind them */
    uint32_t axis, part, parts; /* only this one of so many equal parts of each tensor along this size; parts 1: all of it */
};

/* What is wrong with it, or NULL. `from` is kept. */
const char *stem_sources_parse(const char *from, uint32_t rank, const int64_t *dim, struct stem_sources *s);
/* Name of tensor i; false if it does not fit. */
bool stem_sources_name(const struct stem_sources *s, uint32_t i, char *name, size_t size);

#endif
