/* SPDX-License-Identifier: Apache-2.0
 *
 * Where lanes are opened, and by whom.
 */
#include "lanes/reach.h"
#include "lanes/repair.h"

static struct stem_lane_opening explain_one(struct stem_lane_reach *r, const struct stem_lane_graph *g,
                                            const struct stem_lanes *l, const uint32_t *turn, const uint32_t *heir,
                                            const bool *is_tail, uint32_t v)
{
    struct stem_lane_opening o = {.node = v, .lane = l->lane[v], .why = l->why[v],
                                  .parent = STEM_NO_NODE, .rival = STEM_NO_NODE, .tail = STEM_NO_NODE};
    /* A contracted parent never has a turn; look through it for who forked. */
    for (uint32_t k = r->adj.parent_at[v]; k < r->adj.parent_at[v + 1]; k++) {
        uint32_t p = r->adj.parent[k];
        if (turn[p] != UINT32_MAX && (o.parent == STEM_NO_NODE || turn[p] > turn[o.parent]))
            o.parent = p;
    }
    if (l->by[v] != STEM_NO_NODE)
        o.parent = l->by[v];
    if (o.parent != STEM_NO_NODE)
        o.rival = heir[o.parent];
    stem_lane_tails(r, g, is_tail, v, 1, &o.tail);
    return o;
}

void stem_lanes_explain(const struct stem_lane_graph *g, const struct stem_lanes *l, struct stem_arena *a,
                        struct stem_lane_openings *out)
{
    *out = (struct stem_lane_openings){0};
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_reach r;
    if (stem_lane_reach_init(&r, g, scratch)) {
        uint32_t *turn = STEM_NEW_ARRAY(scratch, uint32_t, l->n), *heir = STEM_NEW_ARRAY(scratch, uint32_t, l->n);
        for (uint32_t v = 0; v < l->n; v++)
            turn[v] = heir[v] = UINT32_MAX;
        for (uint32_t i = 0; i < l->n_order; i++)
            turn[l->order[i]] = i;
        for (uint32_t v = 0; v < l->n; v++)
            if (l->why[v] == STEM_LANE_CONTINUES)
                heir[l->by[v]] = v;
        /* A node that was pinned keeps the first lane; it is the heir of a parent on that lane that has no other. */
        for (uint32_t v = 0; v < l->n; v++)
            for (uint32_t k = r.adj.parent_at[v]; l->why[v] == STEM_LANE_PINNED && k < r.adj.parent_at[v + 1]; k++)
                if (l->lane[r.adj.parent[k]] == l->lane[v] && heir[r.adj.parent[k]] == UINT32_MAX)
                    heir[r.adj.parent[k]] = v;
        const bool *is_tail = stem_lane_tail_flags(g, l, scratch);
        struct stem_lane_opening *at = STEM_NEW_ARRAY(a, struct stem_lane_opening, l->n_lanes);
        for (uint32_t i = 0; i < l->n_order; i++) {
            uint32_t v = l->order[i];
            if (l->why[v] == STEM_LANE_ROOT || l->why[v] == STEM_LANE_BRANCH || l->why[v] == STEM_LANE_LEFT)
                at[out->len++] = explain_one(&r, g, l, turn, heir, is_tail, v);
        }
        out->at = at;
    }
    stem_arena_free(scratch);
}
