/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the verifier share: one variant under examination. The steps are walked once, in order. Each
 * stream carries a vector clock; a *tick* is one op, alloc or free of a stream, so that `a` happens before whatever
 * stream s issues next exactly if now[s][stream of a] >= tick of a.
 */
#ifndef STEM_VERIFY_CHECK_H
#define STEM_VERIFY_CHECK_H

#include "base/arena.h"
#include "verify/verify.h"

struct stem_check_event {
    uint32_t *clock;   /* of its stream when it was recorded; NULL: not recorded yet */
    uint32_t segment;  /* where it was recorded */
    bool joined;       /* its stream was part of the segment */
    uint32_t *pending; /* ops that it stands for, ascending */
    uint32_t n_pending;
};

struct stem_check_stream {
    uint32_t tick;    /* ticks so far */
    uint32_t last_op; /* last op issued in this segment, STEM_NONE */
    uint32_t sure;    /* when the next op starts, what happens before this one has completed; STEM_NONE as last_op */
    bool joined;      /* main, or ordered after the start of this segment */
    uint32_t *pending; /* ops that the next op depends on in the graph, ascending */
    uint32_t n_pending, cap_pending;
};

struct stem_check_buffer {
    bool allocated, freed;
    uint32_t alloc_stream, alloc_tick;
    uint32_t *last; /* for each stream: 1 + the last op that touched it; NULL: none did */
    uint32_t *wrote; /* for each stream: 1 + the last op that wrote to it; NULL: none did */
};

struct stem_check_memory; /* memory.c */

struct stem_check {
    const struct stem_plan *plan;
    const struct stem_plan_variant *v;
    uint32_t variant;
    struct stem_diags *diags;
    struct stem_arena *arena; /* lives as long as the check of this variant */
    uint32_t faults;
    uint32_t segment;

    uint32_t *now;      /* [n_streams][n_streams]: clock of each stream */
    uint32_t *op_clock; /* [n_ops][n_streams]: the clock that an op started with, its own tick included */
    uint32_t *op_tick;  /* [n_ops] */
    struct stem_check_stream *streams;
    struct stem_check_event *events;
    struct stem_check_buffer *buffers;
    uint32_t *resource; /* for each resource and stream: 1 + the last op that held it */
    uint32_t next_edge;
    struct stem_check_memory *memory;

    /* the pair reported last, so that one conflict over many bytes is said once */
    uint32_t said_first, said_second;
    int said_id;
};

#define STEM_VERIFY_MAX_FAULTS 20

/* ---- verify.c ---- */

/* Reports a fault about op `op` (STEM_NONE: about no op in particular) and, if `other` is not STEM_NONE, about an
 * earlier one, which gets a label. */
void stem_check_fault(struct stem_check *c, enum stem_diag_id id, uint32_t op, uint32_t other, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* "'moe[3].x' (line 12, stream main)", in the arena. */
const char *stem_check_op_text(struct stem_check *c, uint32_t op);
/* True if op `a` has completed before what stream s issues next starts. */
bool stem_check_before(const struct stem_check *c, uint32_t a, uint32_t s);

/* ---- structure.c: everything that the rest relies on; false if the variant cannot be walked ---- */
bool stem_check_structure(struct stem_check *c);

/* ---- edges.c: what the steps imply, against variant.edges ---- */
void stem_check_edges_wait(struct stem_check *c, uint32_t stream, uint32_t event);
void stem_check_edges_record(struct stem_check *c, uint32_t stream, uint32_t event);
void stem_check_edges_op(struct stem_check *c, uint32_t op);
void stem_check_edges_end(struct stem_check *c);

/* ---- memory.c: conflicts over bytes ---- */
void stem_check_memory_new(struct stem_check *c);
void stem_check_memory_op(struct stem_check *c, uint32_t op);
void stem_check_memory_end(struct stem_check *c);
void stem_check_memory_free(struct stem_check *c);

#endif
