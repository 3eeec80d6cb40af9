/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_SEMA_CALLEES_H
#define STEM_SEMA_CALLEES_H

#include "sema/module.h"

/* Calls `body` for each layer and model, callees before callers, and reports recursion and too deep nesting. Also
 * numbers the streams by first appearance in the text. */
void stem_visit_callees_first(struct stem_module *m, void (*body)(struct stem_module *m, uint32_t callable));

#endif
