/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/cache_store/cache_store.h"

void stem_cache_store_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *cache = &c->operand[0], *x = &c->operand[1];
    size_t bytes = (size_t)(stem_tensor_extent(x) / (uint64_t)x->dim[0]);
    for (int64_t t = 0; t < x->dim[0]; t++) {
        int64_t slot = ((const int32_t *)data[2])[t];
        if (slot >= 0 && slot < cache->dim[0] * cache->dim[1])
            memcpy((char *)data[0] + (size_t)slot * bytes, (const char *)data[1] + (size_t)t * bytes, bytes);
    }
}
