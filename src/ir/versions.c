/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes of a buffer were written in a version after that of a value.
 */
#include "ir/build.h"

bool stem_tensor_overlap(const struct stem_tensor *a, const struct stem_tensor *b)
{
    return a->buffer == b->buffer && a->offset < b->offset + stem_tensor_extent(b) &&
           b->offset < a->offset + stem_tensor_extent(a);
}

bool stem_build_overlap(const struct stem_program *p, struct stem_value_id v, struct stem_value_id w)
{
    return stem_tensor_overlap(&stem_value_at(p, v)->tensor, &stem_value_at(p, w)->tensor);
}

bool stem_build_written_since(const struct stem_builder *b, struct stem_value_id value, uint32_t op)
{
    const struct stem_program *p = b->program;
    const struct stem_tensor *t = &stem_value_at(p, value)->tensor;
    for (uint32_t i = stem_value_origin(p, value).n + 1; i < p->values.len; i++) {
        const struct stem_value *w = &p->values.at[i];
        if (w->def.n < op && w->version > stem_value_at(p, value)->version && stem_tensor_overlap(&w->tensor, t))
            return true;
    }
    return false;
}

struct stem_value_id stem_build_newest(struct stem_builder *b, struct stem_value_id value)
{
    const struct stem_program *p = b->program;
    const struct stem_value v = *stem_value_at(p, value);
    const struct stem_buffer *buffer = &p->buffers.at[v.tensor.buffer];
    if (buffer->consumed || stem_build_written_since(b, value, p->ops.len))
        return STEM_NO_VALUE;
    uint32_t i = p->values.len - 1;
    while (p->values.at[i].tensor.buffer != v.tensor.buffer || p->values.at[i].version != buffer->newest)
        i--;
    return stem_build_view(b, (struct stem_value_id){i}, v.name, v.tensor.offset - p->values.at[i].tensor.offset, v.tensor.rank,
                           v.tensor.dim, v.tensor.stride);
}
