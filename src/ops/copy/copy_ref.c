/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/copy/copy.h"
#include "ops/strided.h"

void stem_copy_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_tensor t[2];
    struct stem_walk w;
    stem_copy_bytes(c, t);
    stem_walk_init(&w, t, 2);
    size_t size = stem_dtype_bits(t[0].dtype) / 8;
    uint64_t length = (uint64_t)w.dim[w.rank - 1];
    int64_t step = w.stride[0][w.rank - 1];
    for (uint64_t row = 0; row < w.elements / length; row++) {
        const char *from = (const char *)data[0] + stem_walk_offset(&w, 0, row) * (int64_t)size;
        char *to = (char *)data[1] + row * length * size;
        if (step == 1)
            memcpy(to, from, length * size);
        else
            for (uint64_t i = 0; i < length; i++)
                memcpy(to + i * size, from + (int64_t)i * step * (int64_t)size, size);
    }
}
