/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/zero/zero.h"

void stem_zero_reference(const struct stem_concrete *c, void *const *data)
{
    memset(data[0], 0, stem_tensor_extent(&c->operand[0]));
}
