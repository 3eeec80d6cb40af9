/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes/reach.h"

#include "lanes/repair.h"

/* How far back a search for a tail goes. */
#define TAIL_STEPS 20000

bool stem_lane_reach_init(struct stem_lane_reach *r, const struct stem_lane_graph *g, struct stem_arena *a)
{
    *r = (struct stem_lane_reach){0};
    if (!stem_lane_adj_build(g, a, &r->adj))
        return false;
    r->order = stem_lane_topological(&r->adj, a);
    if (!r->order)
        return false;
    r->position = STEM_NEW_ARRAY(a, uint32_t, g->n);
    r->seen = STEM_NEW_ARRAY(a, uint32_t, g->n);
    for (uint32_t i = 0; i < g->n; i++)
        r->position[r->order[i]] = i;
    return true;
}

void stem_lane_reach_walk(struct stem_lane_reach *r, uint32_t v, uint64_t max_steps,
                          bool (*visit)(void *user, uint32_t ancestor), void *user)
{
    uint64_t limit = r->steps + max_steps;
    uint32_t waiting = 1; /* ancestors met but not walked over yet */
    r->seen[v] = ++r->stamp;
    for (uint32_t i = r->position[v] + 1; waiting && i-- > 0 && r->steps < limit;) {
        uint32_t u = r->order[i];
        r->steps++;
        if (r->seen[u] != r->stamp)
            continue;
        waiting--;
        if (u != v && !visit(user, u))
            return;
        for (uint32_t k = r->adj.parent_at[u]; k < r->adj.parent_at[u + 1]; k++) {
            r->steps++;
            if (r->adj.parent_prog[k] || r->seen[r->adj.parent[k]] == r->stamp)
                continue;
            r->seen[r->adj.parent[k]] = r->stamp;
            waiting++;
        }
    }
}

struct target {
    const struct stem_lane_reach *r;
    uint32_t node;
    bool found;
};

static bool look_for(void *user, uint32_t u)
{
    struct target *t = user;
    t->found = u == t->node;
    return !t->found && t->r->position[u] > t->r->position[t->node];
}

bool stem_lane_reach_before(struct stem_lane_reach *r, uint32_t from, uint32_t to)
{
    struct target t = {r, from, false};
    if (r->position[from] < r->position[to])
        stem_lane_reach_walk(r, to, UINT64_MAX / 2, look_for, &t);
    return t.found;
}

bool stem_lanes_implied(const struct stem_lane_graph *g, uint32_t from, uint32_t to)
{
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_reach r;
    bool yes =
        from < g->n && to < g->n && stem_lane_reach_init(&r, g, scratch) && stem_lane_reach_before(&r, from, to);
    stem_arena_free(scratch);
    return yes;
}

bool stem_lane_has_edge(const struct stem_lane_adj *adj, uint32_t from, uint32_t to)
{
    uint32_t low = adj->child_at[from], high = adj->child_at[from + 1];
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (adj->child[mid] < to)
            low = mid + 1;
        else
            high = mid;
    }
    return low < adj->child_at[from + 1] && adj->child[low] == to;
}

bool stem_lane_may_leave(const struct stem_lane_graph *g, const struct stem_lane_adj *adj, uint32_t v)
{
    for (uint32_t k = adj->child_at[v]; k < adj->child_at[v + 1]; k++)
        if (adj->child_prog[k])
            return false;
    return stem_lane_kind_of(g, v) == STEM_LANE_KERNEL && stem_lane_within(g, v) == STEM_NO_NODE;
}

bool stem_lane_may_enter(const struct stem_lane_graph *g, const struct stem_lane_adj *adj, uint32_t v)
{
    for (uint32_t k = adj->parent_at[v]; k < adj->parent_at[v + 1]; k++)
        if (adj->parent_prog[k])
            return false;
    return stem_lane_kind_of(g, v) == STEM_LANE_KERNEL && stem_lane_within(g, v) == STEM_NO_NODE;
}

struct tails {
    const struct stem_lane_reach *r;
    const bool *is_tail;
    uint32_t v, max, len, *tail;
};

static bool collect(void *user, uint32_t u)
{
    struct tails *t = user;
    bool apart = !t->r->stream || t->r->stream[u] != t->r->stream[t->v];
    if (t->is_tail[u] && apart && !stem_lane_has_edge(&t->r->adj, u, t->v))
        t->tail[t->len++] = u;
    return t->len < t->max;
}

uint32_t stem_lane_tails(struct stem_lane_reach *r, const struct stem_lane_graph *g, const bool *is_tail, uint32_t v,
                         uint32_t max, uint32_t *tail)
{
    struct tails t = {.r = r, .is_tail = is_tail, .v = v, .max = max, .tail = tail};
    if (stem_lane_may_enter(g, &r->adj, v))
        stem_lane_reach_walk(r, v, TAIL_STEPS, collect, &t);
    return t.len;
}

bool *stem_lane_tail_flags(const struct stem_lane_graph *g, const struct stem_lanes *l, struct stem_arena *a)
{
    bool *flag = STEM_NEW_ARRAY(a, bool, l->n);
    uint32_t *last = STEM_NEW_ARRAY(a, uint32_t, l->n_lanes);
    for (uint32_t i = 0; i < l->n_order; i++)
        last[l->lane[l->order[i]]] = l->order[i];
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_adj adj;
    if (stem_lane_adj_build(g, scratch, &adj))
        for (uint32_t k = 0; k < l->n_lanes; k++)
            flag[last[k]] = stem_lane_may_leave(g, &adj, last[k]);
    stem_arena_free(scratch);
    return flag;
}
