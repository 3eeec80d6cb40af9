/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_INDEX_STORE_H
#define STEM_OPS_INDEX_STORE_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_index_store;
void stem_index_store_reference(const struct stem_concrete *c, void *const *data);
/* How many elements of a row are turned. */
uint32_t stem_index_store_size(const struct stem_concrete *c);

#endif
