/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/embed/embed.h"
#include "ops/ref.h"

void stem_embed_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *table = &c->operand[1];
    size_t bytes = (size_t)table->dim[1] * stem_dtype_bits(table->dtype) / 8;
    for (int64_t t = 0; t < c->operand[0].dim[0]; t++) {
        int64_t id = stem_ref_load_int(c->operand[0].dtype, data[0], t);
        char *to = (char *)data[2] + (size_t)t * bytes;
        if (id >= 0 && id < table->dim[0])
            memcpy(to, (const char *)data[1] + (size_t)id * bytes, bytes);
        else
            memset(to, 0, bytes);
    }
}
