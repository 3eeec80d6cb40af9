/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_INDEX_SCORES_H
#define STEM_OPS_INDEX_SCORES_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_index_scores;
void stem_index_scores_reference(const struct stem_concrete *c, void *const *data);

#endif
