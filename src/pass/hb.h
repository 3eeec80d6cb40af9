/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of happens-before: vector clocks over the streams, one entry for each stream. An op's clock says up to which
 * op of every stream all has happened once the op itself has. Streams are few, so that a clock is small. (Fidge 1988,
 * Mattern 1989.)
 */
#ifndef STEM_PASS_HB_H
#define STEM_PASS_HB_H

#include "pass/pass.h"

struct stem_hb {
    const struct stem_program *p;
    uint32_t n_streams;
    uint32_t *index;    /* by op: its place on its stream, from 1; the start of a segment takes a place on main */
    uint32_t *position; /* by op: its place in issue order; STEM_NONE if dead */
    uint32_t *clock;    /* by op, n_streams each; includes the op itself */
    uint32_t *now;      /* by stream, n_streams each: what is known at its end */
    uint32_t *start;    /* clock of the start of the present segment */
};

/* Building one as the schedule is walked. */
struct stem_hb *stem_hb_begin(struct stem_arena *a, const struct stem_program *p);
/* Main waits for everything and a new segment starts. */
void stem_hb_start_segment(struct stem_hb *hb);
/* What `row` knows is known to the stream from here on. */
void stem_hb_learn(struct stem_hb *hb, uint32_t stream, const uint32_t *row);
void stem_hb_issue(struct stem_hb *hb, struct stem_op_id op, uint32_t position);

static inline const uint32_t *stem_hb_clock(const struct stem_hb *hb, uint32_t op)
{
    return hb->clock + (size_t)op * hb->n_streams;
}
static inline uint32_t *stem_hb_now(const struct stem_hb *hb, uint32_t stream)
{
    return hb->now + (size_t)stream * hb->n_streams;
}

#endif
