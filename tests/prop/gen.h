/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs for property tests. The same seed and options give the same program on every machine.
 */
#ifndef STEM_TESTS_GEN_H
#define STEM_TESTS_GEN_H

#include "flow.h"

struct gen_rng {
    uint64_t state;
};

uint64_t gen_next(struct gen_rng *r); /* splitmix64 (Steele, Lea and Flood 2014) */
uint32_t gen_below(struct gen_rng *r, uint32_t n);
bool gen_chance(struct gen_rng *r, uint32_t percent);

struct gen_options {
    uint32_t ops;      /* in each layer */
    uint32_t layers;   /* 0 is 1; each layer is the same, and reads what the one before computed */
    uint32_t streams;  /* pins go to 0 .. streams - 1; 0: no pins */
    uint32_t segments; /* at most so many, breaks fall anywhere; in a program of layers 1: none, else any number */
    bool stale;        /* readers of a version that another op overwrites, also later in the text */
    bool odd;          /* after, resources, consume, views, alignments */
    bool small;        /* buffers of a few bytes, for judges that look at every byte */
};

/* Ops are extern ones, named "o0", "o1", ... Costs are random. */
struct flow gen_program(uint64_t seed, const struct gen_options *options);
/* Options that vary with the seed, for tests that want everything. */
struct gen_options gen_any(uint64_t seed, uint32_t most_ops);

#endif
