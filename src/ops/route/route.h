/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_ROUTE_H
#define STEM_OPS_ROUTE_H

#include "ops/op.h"

#define STEM_ROUTE_MAX_EXPERTS 1024
#define STEM_ROUTE_MAX_K 32

extern const struct stem_op_def stem_op_route;
void stem_route_reference(const struct stem_concrete *c, void *const *data);

#endif
