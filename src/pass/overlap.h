/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops cost each other when they run at the same time.
 *
 * While ops overlap, each takes `slowdown` times as long: 1 if they do not meet, 2 if two take turns. Measured where the
 * table of costs has the pair; else together they want a share of the bandwidth and of the arithmetic, and cannot get
 * more than all of it.
 */
#ifndef STEM_PASS_OVERLAP_H
#define STEM_PASS_OVERLAP_H

#include "pass/pass.h"

struct stem_slowdown {
    double factor; /* at least 1 */
    bool measured;
};
struct stem_slowdown stem_slowdown(const struct stem_options *o, const struct stem_op *a, const struct stem_op *b);

/* Share of the bandwidth that the op takes while it runs, 0..1. */
double stem_bandwidth_share(const struct stem_options *o, const struct stem_op *op);

/* What a fork of `side` beside `main` and its join cost, besides, if the side is ready `slack` before the join. */
double stem_fork_price(const struct stem_options *o, const struct stem_op *main, const struct stem_op *side, double slack);
/* What is left of a price that is mostly the time that news take from one stream to another, if that much time is there. */
double stem_fork_price_left(double price, double slack);

/* Two lines of ops: `side` starts `delay` after `main` does. As long as both run they slow each other down. */
struct stem_overlap {
    double us;       /* from the start of main until the last of side has ended */
    double main_us;  /* time that the ops of main which ran meanwhile take by themselves, the last one in part */
    double slack_us; /* what main still had to do before `join`, or its end, when what it needs there had ended */
    bool met;        /* some ops ran at the same time */
    bool measured;   /* and each such pair was measured */
};
struct stem_lines {
    const struct stem_op *ops;  /* of the program */
    const uint32_t *main, *side;
    uint32_t n_main, n_side;
    uint32_t join, n_needed;    /* main's op number `join` waits for side's first n_needed; n_main: nothing does */
    double delay;               /* other work on side's stream first */
    double filler;              /* other work on main, at its end or while it would wait */
    double extra;               /* bandwidth that others take meanwhile, 0..1 */
};
struct stem_overlap stem_overlap(const struct stem_options *o, const struct stem_lines *l);

#endif
