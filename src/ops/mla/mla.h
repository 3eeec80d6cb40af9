/* SPDX-License-Identifier: Apache-2.0
 *
 * The two launches that surround latent attention (DeepSeek-V2, 2024) with everything that is small: mla_query makes
 * the query of the latent cache, mla_store its new row.
 */
#ifndef STEM_OPS_MLA_H
#define STEM_OPS_MLA_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_mla_query, stem_op_mla_store, stem_op_norm_query;
void stem_mla_query_reference(const struct stem_concrete *c, void *const *data);
void stem_mla_store_reference(const struct stem_concrete *c, void *const *data);
void stem_norm_query_reference(const struct stem_concrete *c, void *const *data);

/* Whether the target has a kernel for norm_linear and a mla_query of its first columns that is worth it: clusters, few
 * tokens, all weights of both in shared memory at once. */
bool stem_norm_query_fits(const struct stem_concrete *linear, const struct stem_concrete *query, const struct stem_target *t);

#endif
