/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs for the lane tests: from a text of measured-format lines, from a data file, and fork/join patterns.
 */
#ifndef STEM_TESTS_LANES_GRAPHS_H
#define STEM_TESTS_LANES_GRAPHS_H

#include <stdlib.h>

#include "lanes/read.h"
#include "unit.h"

static inline struct stem_lane_cases graphs_from_text(struct stem_arena *a, const char *text)
{
    struct stem_diags *q = stem_diags_new(0);
    struct stem_lane_cases cases = {0};
    struct stem_source *s = stem_source_new(a, "text", text, strlen(text));
    CU_ASSERT_FATAL(stem_lane_read_lines(s, a, q, &cases));
    stem_diags_free(q);
    return cases;
}

static inline struct stem_lane_cases graphs_from_file(struct stem_arena *a, const char *name)
{
    const char *dir = getenv("SRCDIR"), *why = NULL;
    char *path = stem_arena_printf(a, "%s/tests/lanes/data/%s", dir ? dir : ".", name);
    struct stem_source *s = stem_source_read(a, path, &why);
    struct stem_lane_cases cases = {0};
    if (!s)
        fprintf(stderr, "%s\n", why);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    struct stem_diags *q = stem_diags_new(0);
    stem_diags_set_source(q, s);
    CU_ASSERT_FATAL(stem_lane_read_lines(s, a, q, &cases));
    stem_diags_free(q);
    return cases;
}

/* L layers of a k-way fork of branches of `length` kernels between joins; node 0 comes before the first. The joins
 * are the nodes that fork next. The branch recorded first is branch 0, or with `side_first` branch k-1 is the main
 * one: all kernels, nothing told apart, so only the numbering differs. `chain` adds continuation edges on every
 * branch. */
static inline struct stem_lane_graph fork_join(struct stem_arena *a, uint32_t k, uint32_t layers, uint32_t length,
                                               uint32_t main_length, bool side_first, bool chain)
{
    uint32_t n = 1 + layers * ((k - 1) * length + main_length + 1), m = 0, next = 1, fork = 0;
    struct stem_lane_edge *e = STEM_NEW_ARRAY(a, struct stem_lane_edge, 3 * n);
    uint32_t *tail = STEM_NEW_ARRAY(a, uint32_t, k);
    for (uint32_t l = 0; l < layers; l++) {
        for (uint32_t i = 0; i < k; i++) {
            uint32_t branch = side_first ? k - 1 - i : i, steps = branch ? length : main_length, at = fork;
            for (uint32_t s = 0; s < steps; s++) {
                e[m++] = (struct stem_lane_edge){at, next, false};
                if (chain && s == 0 && l)
                    e[m++] = (struct stem_lane_edge){tail[branch], next, false};
                at = next++;
            }
            tail[branch] = at;
        }
        for (uint32_t i = 0; i < k; i++)
            e[m++] = (struct stem_lane_edge){tail[i], next, false};
        fork = next++;
    }
    return (struct stem_lane_graph){.n = n, .edges = e, .n_edges = m};
}

/* L layers of a main branch of 3 kernels and a side branch that forks as well; the innermost branch is recorded first,
 * main last. A join, then one kernel, end a layer. */
static inline struct stem_lane_graph nested(struct stem_arena *a, uint32_t layers, uint32_t kernels)
{
    uint32_t n = 1, m = 0, fork = 0;
    struct stem_lane_edge *e = STEM_NEW_ARRAY(a, struct stem_lane_edge, 2 * layers * (2 * kernels + 6));
    for (uint32_t l = 0; l < layers; l++) {
        uint32_t end[3];
        for (uint32_t branch = 0; branch < 3; branch++) {
            end[branch] = fork;
            for (uint32_t i = 0; i < (branch < 2 ? kernels : 3); i++) {
                e[m++] = (struct stem_lane_edge){end[branch], n, false};
                end[branch] = n++;
            }
            if (branch == 1) {
                e[m++] = (struct stem_lane_edge){end[0], n, false};
                e[m++] = (struct stem_lane_edge){end[1], n, false};
                end[1] = n++;
            }
        }
        e[m++] = (struct stem_lane_edge){end[1], n, false};
        e[m++] = (struct stem_lane_edge){end[2], n, false};
        e[m++] = (struct stem_lane_edge){n, n + 1, false};
        fork = n + 1;
        n += 2;
    }
    return (struct stem_lane_graph){.n = n, .edges = e, .n_edges = m};
}

static inline uint32_t lanes_of(const struct stem_lane_graph *g)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lanes l = {0};
    CU_ASSERT(stem_lanes_predict(NULL, g, a, &l));
    uint32_t n = l.n_kernel_lanes;
    stem_arena_free(a);
    return n;
}

#endif
