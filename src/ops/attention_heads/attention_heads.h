/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_ATTENTION_HEADS_H
#define STEM_OPS_ATTENTION_HEADS_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_attention_heads;
void stem_attention_heads_reference(const struct stem_concrete *c, void *const *data);

/* Whether the sum of the shares of latents `acc`, rounded to `type`, times w[H, N, K] has a kernel on the target that is
 * worth it: thread-block clusters, few tokens. */
bool stem_attention_heads_fit(const struct stem_tensor *acc, int64_t tokens, enum stem_dtype type,
                              const struct stem_tensor *w, const struct stem_target *t);

#endif
