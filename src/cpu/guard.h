/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands and shared memory of other people's code between pages that nobody may touch, so that an access beyond them is found, not luck.
 */
#ifndef STEM_CPU_GUARD_H
#define STEM_CPU_GUARD_H

#include "cpu/device.h"
#include "ops/op.h"

struct stem_cpu_region {
    unsigned char *map, *first, *last; /* mapped; its writable pages are first..last */
    size_t mapped;
    unsigned char *at;   /* the copy, which ends within its alignment of `last` */
    unsigned char *from; /* what it is a copy of; NULL: of nothing, it is dynamic shared memory */
    uint64_t bytes;
    uint32_t operand; /* one of those in it */
    bool written;
};

struct stem_cpu_guard {
    struct stem_cpu_region region[STEM_MAX_OPERANDS]; /* operands that overlap share one */
    uint32_t n;
    struct stem_cpu_region shared; /* the block's dynamic shared memory, of NaN bytes at first */
    void *data[STEM_MAX_OPERANDS]; /* in the copies; NULL: an absent operand */
};

/* Copies the operands, makes shared memory. False with *error; the guard is then empty. */
bool stem_cpu_guard_new(struct stem_cpu_guard *g, const struct stem_plan_op *op, void *const *data, char **error);
/* Who watches (or NULL) is told where operands and shared memory are, and may be: what is only read cannot be written meanwhile. */
void stem_cpu_guard_tell(const struct stem_cpu_guard *g, struct stem_cpu_watch *w);
/* Copies back what was written and frees all. False with *error if bytes beside an operand or beyond shared memory were written. */
bool stem_cpu_guard_end(struct stem_cpu_guard *g, const struct stem_plan_op *op, char **error);

#endif
