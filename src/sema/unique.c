/* SPDX-License-Identifier: Apache-2.0
 *
 * No two ops have one name. A name that comes again, because a loop binds it anew or a layer is called again with the
 * same weights, is numbered: hidden[0], hidden[1]. Names in brackets are what reports fold repeats by.
 */
#include <string.h>

#include "sema/expand.h"

/* "moe.ids" of the op "moe", as "moe.ids[3]"; a value that is the caller's keeps its name. */
static void number_value(struct stem_program *p, struct stem_value_id v, struct stem_sym old, struct stem_sym op, uint32_t k)
{
    struct stem_value *value = stem_value_at(p, v);
    struct stem_buffer *buffer = &p->buffers.at[value->tensor.buffer];
    const char *prefix = stem_sym_str(p->strings, old), *name = stem_sym_str(p->strings, value->name);
    size_t len = strlen(prefix);
    if (buffer->kind != STEM_BUFFER_TEMP || strncmp(name, prefix, len) || (name[len] && name[len] != '.'))
        return;
    struct stem_sym numbered = name[len] ? stem_intern_printf(p->strings, "%s[%u]", name, k) : op;
    if (stem_sym_eq(buffer->name, value->name))
        buffer->name = numbered;
    value->name = numbered;
}

void stem_expand_unique(struct stem_program *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->ops.len; i++)
        most = p->ops.at[i].name.n > most ? p->ops.at[i].name.n : most;
    struct stem_arena *a = stem_arena_new();
    uint32_t *count = STEM_NEW_ARRAY(a, uint32_t, most + 1), *seen = STEM_NEW_ARRAY(a, uint32_t, most + 1);
    for (uint32_t i = 0; i < p->ops.len; i++)
        count[p->ops.at[i].name.n]++;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        struct stem_op *op = &p->ops.at[i];
        struct stem_sym old = op->name;
        if (count[old.n] < 2 || !old.n)
            continue;
        uint32_t k = seen[old.n]++;
        op->name = stem_intern_printf(p->strings, "%s[%u]", stem_sym_str(p->strings, old), k);
        for (uint32_t o = op->n_in; o < op->n_in + op->n_out; o++)
            number_value(p, op->operands[o].value, old, op->name, k);
    }
    stem_arena_free(a);
}
