/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of emission share: the plan under construction, and one variant of it.
 */
#ifndef STEM_EMIT_PART_H
#define STEM_EMIT_PART_H

#include "emit/emit.h"

struct emitter {
    struct stem_plan *plan;
    const struct stem_options *options;
    struct stem_arena *arena; /* for the whole emission */
    struct stem_cuda *cuda;
    struct stem_strtab *texts;         /* each distinct text is stored in the plan once */
    STEM_VEC(const char *) text;       /* by symbol of `texts` */
    STEM_VEC(const char *) symbol;     /* plan texts, by symbol of this table of a program */
    const struct stem_strtab *symbols_of;
    STEM_VEC(const char *) resources;  /* plan texts */
    STEM_VEC(struct stem_plan_extern) externs;
};

/* One variant under construction. */
struct part {
    struct emitter *e;
    const struct stem_program *p;
    struct stem_plan_variant *v;
    uint32_t *buffer;    /* plan index of each program buffer, STEM_NONE: not in the plan */
    STEM_VEC(struct stem_plan_op) lowered; /* by number of a lowering: what its ops have in common, no kind: not there yet */
    uint32_t *position;  /* plan index of each program op, STEM_NONE: dead */
    uint32_t *event;     /* of each program op, STEM_NONE: none is recorded after it */
    uint32_t *fork;      /* event at the start of each segment, STEM_NONE: none */
    /* lists by position (or, for `join`, by segment): items of i are at[begin[i]] .. at[begin[i + 1]] */
    struct list {
        uint32_t *begin, *at;
    } wait, join, alloc, release;
    uint32_t last_frees; /* number of buffers freed at the very end; they follow in release.at */
    STEM_VEC(struct stem_step) steps;
};

/* Our own mistake: says what and aborts. */
void stem_emit_bug(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Zeroed memory of the plan, at least one byte. */
void *stem_emit_array(struct stem_plan *plan, size_t n, size_t size);
#define STEM_PLAN_ARRAY(plan, T, n) ((T *)stem_emit_array((plan), (n), sizeof(T)))

/* steps.c: once ops and buffers of the variant are there, its steps and segments, then its edges. */
void stem_emit_steps(struct part *t);
void stem_emit_edges(struct part *t);

#endif
