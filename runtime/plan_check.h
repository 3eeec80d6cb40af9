/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan must satisfy so that it can be walked: indices, orders and sizes. Whether it is safe to run is the
 * verifier's question.
 */
#ifndef STEM_RUNTIME_PLAN_CHECK_H
#define STEM_RUNTIME_PLAN_CHECK_H

#include "plan.h"

#define STEM_MAX_STREAMS 256

/* False with the place within the variant ("ops[3].stream", or empty for the variant itself) and a message. */
bool stem_plan_check_variant(const struct stem_plan *p, uint32_t variant, char *place, size_t place_size, char *text,
                             size_t text_size);

#endif
