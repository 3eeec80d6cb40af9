/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_EMBED_H
#define STEM_OPS_EMBED_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_embed;
void stem_embed_reference(const struct stem_concrete *c, void *const *data);

#endif
