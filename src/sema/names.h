/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of weights in checkpoints. Private to src/sema/.
 */
#ifndef STEM_SEMA_NAMES_H
#define STEM_SEMA_NAMES_H

#include "sema/module.h"

/* The `from` of a plan's buffer for a weight that says where it is, in the module's arena; NULL after a report. e->indices
 * has the indices of the enclosing instances, innermost last; those without a value count as 0. */
const char *stem_weight_names(const struct stem_eval *e, const struct stem_ast_param *p, const struct stem_type *t,
                              const int64_t *dim);

#endif
