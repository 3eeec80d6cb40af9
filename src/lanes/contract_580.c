/* SPDX-License-Identifier: Apache-2.0
 *
 * Contraction, as driver 580 does it: start nodes of child graphs go, and empty nodes unless they have, by then, two
 * parents and two children or more.
 */
#include "lanes/driver_580.h"

#include <string.h>

#define NONE UINT32_MAX

struct list {
    struct stem_lane_kid *at;
    uint32_t len, cap;
};

/* Place of each edge in its parent's child list: open addressing, no deletion (a contracted node never returns). */
struct places {
    uint64_t *key; /* (from << 32 | to) + 1; 0: free */
    uint32_t *place;
    size_t cap, len;
};

struct contraction {
    struct stem_arena *a;
    struct list *kids, *folk; /* children, parents; folk keeps contracted nodes */
    uint32_t *n_parents;      /* without contracted ones */
    uint8_t *gone;
    struct places places;
};

static void append(struct stem_arena *a, struct list *l, struct stem_lane_kid k)
{
    if (l->len == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct stem_lane_kid *at = STEM_NEW_ARRAY(a, struct stem_lane_kid, cap);
        if (l->len)
            memcpy(at, l->at, l->len * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->len++] = k;
}

static size_t place_slot(const struct places *p, uint64_t key)
{
    size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (p->cap - 1);
    while (p->key[i] && p->key[i] != key)
        i = (i + 1) & (p->cap - 1);
    return i;
}

static void place_set(struct stem_arena *a, struct places *p, uint32_t from, uint32_t to, uint32_t place)
{
    if (2 * p->len >= p->cap) {
        struct places old = *p;
        p->cap = old.cap ? 2 * old.cap : 64;
        p->key = STEM_NEW_ARRAY(a, uint64_t, p->cap);
        p->place = STEM_NEW_ARRAY(a, uint32_t, p->cap);
        for (size_t i = 0; i < old.cap; i++)
            if (old.key[i]) {
                size_t s = place_slot(p, old.key[i]);
                p->key[s] = old.key[i];
                p->place[s] = old.place[i];
            }
    }
    size_t s = place_slot(p, ((uint64_t)from << 32 | to) + 1);
    p->len += p->key[s] == 0;
    p->key[s] = ((uint64_t)from << 32 | to) + 1;
    p->place[s] = place;
}

/* NONE if there is no such edge. */
static uint32_t place_of(const struct places *p, uint32_t from, uint32_t to)
{
    size_t s = place_slot(p, ((uint64_t)from << 32 | to) + 1);
    return p->key[s] ? p->place[s] : NONE;
}

/* Children of `e` go to the end of q's list, unless they are there already (an edge that was programmatic is ordinary
 * then); then the last entry takes e's place. */
static void hand_children_up(struct contraction *c, uint32_t q, uint32_t e)
{
    struct list *kids = &c->kids[q];
    for (uint32_t i = 0; i < c->kids[e].len; i++) {
        uint32_t v = c->kids[e].at[i].node, there = place_of(&c->places, q, v);
        if (there != NONE) {
            kids->at[there].prog = false;
            continue;
        }
        place_set(c->a, &c->places, q, v, kids->len);
        append(c->a, kids, (struct stem_lane_kid){v, false});
        append(c->a, &c->folk[v], (struct stem_lane_kid){q, false});
        c->n_parents[v]++;
    }
    uint32_t at = place_of(&c->places, q, e);
    kids->at[at] = kids->at[--kids->len];
    if (at < kids->len)
        place_set(c->a, &c->places, q, kids->at[at].node, at);
}

static void contract_node(struct contraction *c, uint32_t e)
{
    for (uint32_t i = 0; i < c->folk[e].len; i++)
        if (!c->gone[c->folk[e].at[i].node])
            hand_children_up(c, c->folk[e].at[i].node, e);
    for (uint32_t i = 0; i < c->kids[e].len; i++)
        c->n_parents[c->kids[e].at[i].node]--;
    c->gone[e] = true;
}

/* Child lists and adjacency of what is left. */
static void finish(const struct contraction *c, uint32_t n, struct stem_lane_contracted *out)
{
    uint32_t total = 0;
    out->kid_at = STEM_NEW_ARRAY(c->a, uint32_t, (size_t)n + 1);
    for (uint32_t v = 0; v < n; v++) {
        out->kid_at[v] = total;
        total += c->gone[v] ? 0 : c->kids[v].len;
    }
    out->kid_at[n] = total;
    out->kid = STEM_NEW_ARRAY(c->a, struct stem_lane_kid, total);
    struct stem_lane_edge *edges = STEM_NEW_ARRAY(c->a, struct stem_lane_edge, total);
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < (c->gone[v] ? 0 : c->kids[v].len); i++) {
            struct stem_lane_kid k = c->kids[v].at[i];
            out->kid[out->kid_at[v] + i] = k;
            edges[out->kid_at[v] + i] = (struct stem_lane_edge){v, k.node, k.prog};
        }
    struct stem_lane_graph rest = {.n = n, .edges = edges, .n_edges = total};
    stem_lane_adj_build(&rest, c->a, &out->adj);
    out->gone = c->gone;
}

static bool goes(const struct contraction *c, const struct stem_lane_graph *g, uint32_t v)
{
    uint32_t kind = stem_lane_kind_of(g, v);
    return kind == STEM_LANE_START || (stem_lane_is_empty(kind) && (c->n_parents[v] < 2 || c->kids[v].len < 2));
}

static void contract(const struct stem_lane_graph *g, const struct stem_lane_adj *full, struct stem_arena *a,
                     struct stem_lane_contracted *out)
{
    uint32_t n = g->n;
    struct contraction c = {
        .a = a,
        .kids = STEM_NEW_ARRAY(a, struct list, n),
        .folk = STEM_NEW_ARRAY(a, struct list, n),
        .n_parents = STEM_NEW_ARRAY(a, uint32_t, n),
        .gone = STEM_NEW_ARRAY(a, uint8_t, n),
    };
    place_set(a, &c.places, 0, 0, NONE); /* a loop is no edge: never asked for; makes the table */
    for (uint32_t v = 0; v < n; v++) {
        c.n_parents[v] = full->parent_at[v + 1] - full->parent_at[v];
        for (uint32_t k = full->child_at[v]; k < full->child_at[v + 1]; k++) {
            place_set(a, &c.places, v, full->child[k], c.kids[v].len);
            append(a, &c.kids[v], (struct stem_lane_kid){full->child[k], full->child_prog[k]});
        }
        for (uint32_t k = full->parent_at[v]; k < full->parent_at[v + 1]; k++)
            append(a, &c.folk[v], (struct stem_lane_kid){full->parent[k], full->parent_prog[k]});
    }
    for (uint32_t v = 0; v < n; v++)
        if (goes(&c, g, v))
            contract_node(&c, v);
    finish(&c, n, out);
}

/* Where nothing goes, child lists are in creation order. */
void stem_lane_contract(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lane_contracted *out)
{
    struct stem_lane_adj full;
    bool any = false;
    stem_lane_adj_build(g, a, &full);
    for (uint32_t v = 0; v < g->n; v++)
        any |= stem_lane_is_empty(stem_lane_kind_of(g, v)) || (uint32_t)stem_lane_kind_of(g, v) == STEM_LANE_START;
    if (any) {
        contract(g, &full, a, out);
        return;
    }
    *out = (struct stem_lane_contracted){.adj = full, .kid_at = full.child_at};
    out->kid = STEM_NEW_ARRAY(a, struct stem_lane_kid, full.n_edges);
    for (uint32_t k = 0; k < full.n_edges; k++)
        out->kid[k] = (struct stem_lane_kid){full.child[k], full.child_prog[k]};
}
