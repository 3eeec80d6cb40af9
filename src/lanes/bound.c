/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest antichain of kernels, part by part between bottlenecks: no antichain reaches across a node that every
 * path crosses. In a part, Dilworth's theorem: nodes minus a maximum matching in the bipartite graph of "comes
 * before" (Ford and Fulkerson's reduction; augmenting paths).
 */
#include <string.h>

#include "base/bitset.h"
#include "lanes/lanes_internal.h"
#include "lanes/reach.h"
#include "lanes/repair.h"

#define MAX_PART 1024
#define NONE UINT32_MAX

struct part {
    const struct stem_lane_graph *g;
    const struct stem_lane_reach *r;
    uint32_t first, n; /* positions first .. first + n - 1 */
    struct stem_bitset *after; /* for each: what comes after it within the part */
    uint32_t *left, *right;    /* matching: of an earlier node its later one, and back */
    bool *tried;
};

static uint32_t node_at(const struct part *p, uint32_t i)
{
    return p->r->order[p->first + i];
}

static bool is_kernel(const struct part *p, uint32_t i)
{
    return stem_lane_kind_of(p->g, node_at(p, i)) == STEM_LANE_KERNEL;
}

static void find_after(struct part *p, struct stem_arena *a)
{
    p->after = STEM_NEW_ARRAY(a, struct stem_bitset, p->n);
    for (uint32_t i = p->n; i-- > 0;) {
        uint32_t u = node_at(p, i);
        p->after[i] = stem_bitset_new(a, p->n);
        for (uint32_t k = p->r->adj.child_at[u]; k < p->r->adj.child_at[u + 1]; k++) {
            uint32_t j = p->r->position[p->r->adj.child[k]] - p->first;
            if (j >= p->n)
                continue;
            stem_bitset_add(&p->after[i], j);
            stem_bitset_union(&p->after[i], &p->after[j]);
        }
    }
}

/* Depth is at most the number of matched nodes, MAX_PART. */
static bool augment(struct part *p, uint32_t i)
{
    for (uint32_t j = i + 1; j < p->n; j++) {
        if (p->tried[j] || !stem_bitset_has(&p->after[i], j) || !is_kernel(p, j))
            continue;
        p->tried[j] = true;
        if (p->right[j] == NONE || augment(p, p->right[j])) {
            p->left[i] = j;
            p->right[j] = i;
            return true;
        }
    }
    return false;
}

static uint32_t part_width(struct part *p)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n && !any; i++)
        any = is_kernel(p, i);
    if (!any || p->n == 1 || p->n > MAX_PART)
        return any;
    struct stem_arena *a = stem_arena_new();
    find_after(p, a);
    p->left = STEM_NEW_ARRAY(a, uint32_t, p->n);
    p->right = STEM_NEW_ARRAY(a, uint32_t, p->n);
    p->tried = STEM_NEW_ARRAY(a, bool, p->n);
    for (uint32_t i = 0; i < p->n; i++)
        p->left[i] = p->right[i] = NONE;
    uint32_t kernels = 0, matched = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!is_kernel(p, i))
            continue;
        kernels++;
        memset(p->tried, 0, p->n * sizeof *p->tried);
        matched += augment(p, i);
    }
    stem_arena_free(a);
    return kernels - matched;
}

uint32_t stem_lanes_bound(const struct stem_lane_graph *given)
{
    struct stem_arena *a = stem_arena_new();
    const struct stem_lane_graph *g = given;
    struct stem_lane_expanded x;
    if (given->within) { /* child graphs opened; bodies left out, which makes the bound no larger */
        stem_lane_expand(given, false, a, &x);
        g = &x.graph;
    }
    struct stem_lane_reach r;
    uint32_t width = 0;
    if (stem_lane_reach_init(&r, g, a)) {
        /* A cut before position i: no edge from before i-1 to behind i-1, no root behind and no sink before: then
         * node i-1 is comparable with all others. Roots and sinks count as edges from and to the outside. */
        uint32_t furthest = 0, last_root = 0, first_sink = NONE, first = 0;
        for (uint32_t i = 0; i < g->n; i++)
            if (r.adj.parent_at[r.order[i]] == r.adj.parent_at[r.order[i] + 1])
                last_root = i;
        for (uint32_t i = 0; i < g->n; i++) {
            uint32_t u = r.order[i];
            bool bottleneck = i >= last_root && i >= furthest && first_sink == NONE;
            for (uint32_t k = r.adj.child_at[u]; k < r.adj.child_at[u + 1]; k++)
                if (r.position[r.adj.child[k]] > furthest)
                    furthest = r.position[r.adj.child[k]];
            if (r.adj.child_at[u] == r.adj.child_at[u + 1] && first_sink == NONE)
                first_sink = i;
            if (bottleneck || i + 1 == g->n) {
                struct part p = {.g = g, .r = &r, .first = first, .n = i + 1 - first};
                uint32_t w = part_width(&p);
                width = w > width ? w : width;
                first = i + 1;
            }
        }
    }
    stem_arena_free(a);
    return width;
}
