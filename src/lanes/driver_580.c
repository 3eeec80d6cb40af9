/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes as driver 580 gives them. Fitted to measurements (H200, driver 580.159.04, CUDA 13.0) and to nothing else;
 * the data are in tests/lanes/data/, the rule in words and its exceptions in docs/lanes.md. Linear in nodes and
 * edges, but for graphs in which long chains of empty nodes hang below wide joins.
 *
 *   contract   empty nodes go, in creation order, unless they have (by then) two parents and two children or more
 *   order      ids upwards; a node passed over because a parent was missing follows when its last parent is placed
 *   owner      the region of a node: its highest root, cut at nodes that are not kernels
 *   pinned     with one sink: nodes that every path crosses
 *   visit      each node in turn hands lanes to its children
 */
#include "lanes/lanes_internal.h"

#include <string.h>

/* A wider fork is not laid out as a fork. */
#define MAX_BRANCHES 6
#define NONE UINT32_MAX

struct kid {
    uint32_t node;
    bool prog;
};

/* By the first parent whose lane a programmatic child could go on with: it had no other such child, or several. */
enum claim { UNCLAIMED, CLAIMED_ALONE, CLAIMED_AMONG };

struct model {
    const struct stem_lane_graph *g;
    struct stem_arena *a;
    struct stem_lane_adj adj;    /* after contraction */
    const uint8_t *gone;         /* contracted away */
    uint32_t *kid_at;            /* child lists in the driver's order, which contraction disturbs */
    struct kid *kid;
    uint32_t *order, n_order;
    uint32_t *owner;
    bool *pinned, *inner, *mixed;
    uint8_t *claimed; /* enum claim, of programmatic children */
    uint32_t *lane, n_lanes;
    struct stem_lanes *out;
    struct kid *scratch, *scratch2; /* as long as the longest child list */
    bool *free, *able, *pick;
};

static uint32_t parents(const struct stem_lane_adj *adj, uint32_t v)
{
    return adj->parent_at[v + 1] - adj->parent_at[v];
}

static uint32_t children(const struct stem_lane_adj *adj, uint32_t v)
{
    return adj->child_at[v + 1] - adj->child_at[v];
}

static bool is_kernel(const struct model *m, uint32_t v)
{
    return stem_lane_kind_of(m->g, v) == STEM_LANE_KERNEL;
}

/* ---- order ---- */

static uint32_t *visit_order(const struct stem_lane_adj *adj, const uint8_t *gone, struct stem_arena *a,
                             uint32_t *len)
{
    uint32_t n = adj->n, done = 0, end = 0;
    uint32_t *missing = STEM_NEW_ARRAY(a, uint32_t, n), *order = STEM_NEW_ARRAY(a, uint32_t, n);
    bool *placed = STEM_NEW_ARRAY(a, bool, n);
    for (uint32_t v = 0; v < n; v++)
        missing[v] = parents(adj, v);
    for (uint32_t i = 0; i < n; i++) {
        if (placed[i] || missing[i] || (gone && gone[i]))
            continue;
        placed[i] = true;
        order[end++] = i;
        for (; done < end; done++) {
            uint32_t u = order[done];
            for (uint32_t k = adj->child_at[u]; k < adj->child_at[u + 1]; k++) {
                uint32_t c = adj->child[k];
                if (--missing[c] == 0 && c < i) {
                    placed[c] = true;
                    order[end++] = c;
                }
            }
        }
    }
    *len = end;
    return order;
}

/* ---- contraction of empty nodes ---- */

struct list {
    struct kid *at;
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

static void append(struct stem_arena *a, struct list *l, struct kid k)
{
    if (l->len == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct kid *at = STEM_NEW_ARRAY(a, struct kid, cap);
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
        append(c->a, kids, (struct kid){v, false});
        append(c->a, &c->folk[v], (struct kid){q, false});
        c->n_parents[v]++;
    }
    uint32_t at = place_of(&c->places, q, e);
    kids->at[at] = kids->at[--kids->len];
    if (at < kids->len)
        place_set(c->a, &c->places, q, kids->at[at].node, at);
}

static void contract_node(struct contraction *c, uint32_t e)
{
    if (c->n_parents[e] > 1 && c->kids[e].len > 1)
        return;
    for (uint32_t i = 0; i < c->folk[e].len; i++)
        if (!c->gone[c->folk[e].at[i].node])
            hand_children_up(c, c->folk[e].at[i].node, e);
    for (uint32_t i = 0; i < c->kids[e].len; i++)
        c->n_parents[c->kids[e].at[i].node]--;
    c->gone[e] = true;
}

/* Child lists and adjacency of what is left. */
static void contraction_result(struct model *m, const struct contraction *c)
{
    uint32_t n = m->g->n, total = 0;
    m->kid_at = STEM_NEW_ARRAY(m->a, uint32_t, (size_t)n + 1);
    for (uint32_t v = 0; v < n; v++) {
        m->kid_at[v] = total;
        total += c->gone[v] ? 0 : c->kids[v].len;
    }
    m->kid_at[n] = total;
    m->kid = STEM_NEW_ARRAY(m->a, struct kid, total);
    struct stem_lane_edge *edges = STEM_NEW_ARRAY(m->a, struct stem_lane_edge, total);
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < (c->gone[v] ? 0 : c->kids[v].len); i++) {
            struct kid k = c->kids[v].at[i];
            m->kid[m->kid_at[v] + i] = k;
            edges[m->kid_at[v] + i] = (struct stem_lane_edge){v, k.node, k.prog};
        }
    struct stem_lane_graph rest = {.n = n, .edges = edges, .n_edges = total};
    stem_lane_adj_build(&rest, m->a, &m->adj);
    m->gone = c->gone;
}

static void contract(struct model *m, const struct stem_lane_adj *full)
{
    uint32_t n = m->g->n;
    struct contraction c = {
        .a = m->a,
        .kids = STEM_NEW_ARRAY(m->a, struct list, n),
        .folk = STEM_NEW_ARRAY(m->a, struct list, n),
        .n_parents = STEM_NEW_ARRAY(m->a, uint32_t, n),
        .gone = STEM_NEW_ARRAY(m->a, uint8_t, n),
    };
    place_set(m->a, &c.places, 0, 0, NONE); /* a loop is no edge: never asked for; makes the table */
    for (uint32_t v = 0; v < n; v++) {
        c.n_parents[v] = parents(full, v);
        for (uint32_t k = full->child_at[v]; k < full->child_at[v + 1]; k++) {
            place_set(m->a, &c.places, v, full->child[k], c.kids[v].len);
            append(m->a, &c.kids[v], (struct kid){full->child[k], full->child_prog[k]});
        }
        for (uint32_t k = full->parent_at[v]; k < full->parent_at[v + 1]; k++)
            append(m->a, &c.folk[v], (struct kid){full->parent[k], full->parent_prog[k]});
    }
    for (uint32_t v = 0; v < n; v++)
        if (stem_lane_kind_of(m->g, v) == STEM_LANE_EMPTY)
            contract_node(&c, v);
    contraction_result(m, &c);
}

/* Without empty nodes nothing is contracted, and child lists are in creation order. */
static void take_as_is(struct model *m, const struct stem_lane_adj *full)
{
    m->adj = *full;
    m->kid_at = full->child_at;
    m->kid = STEM_NEW_ARRAY(m->a, struct kid, full->n_edges);
    for (uint32_t k = 0; k < full->n_edges; k++)
        m->kid[k] = (struct kid){full->child[k], full->child_prog[k]};
}

/* ---- regions and pinned nodes ---- */

/* owner; inner: a kernel whose parents are all kernels; mixed: its parents have different owners. A child is shared
 * between u and another region if it is mixed, since u is one of its parents. */
static void find_regions(struct model *m)
{
    for (uint32_t i = 0; i < m->n_order; i++) {
        uint32_t v = m->order[i], high = 0, low = NONE;
        bool cut = false;
        for (uint32_t k = m->adj.parent_at[v]; k < m->adj.parent_at[v + 1]; k++) {
            uint32_t p = m->adj.parent[k];
            cut |= !is_kernel(m, p);
            high = m->owner[p] > high ? m->owner[p] : high;
            low = m->owner[p] < low ? m->owner[p] : low;
        }
        m->owner[v] = cut || !parents(&m->adj, v) ? v : high;
        m->mixed[v] = parents(&m->adj, v) && low != high;
        m->inner[v] = is_kernel(m, v) && !cut;
    }
}

/* With exactly one sink, a node is pinned if no edge, and no way in through a root, leads past it in the order. */
static void find_pinned(struct model *m)
{
    uint32_t sinks = 0, furthest = 0, last_root = 0;
    uint32_t *position = STEM_NEW_ARRAY(m->a, uint32_t, m->g->n);
    for (uint32_t i = 0; i < m->n_order; i++) {
        position[m->order[i]] = i;
        sinks += children(&m->adj, m->order[i]) == 0;
        if (!parents(&m->adj, m->order[i]))
            last_root = i;
    }
    if (sinks != 1)
        return;
    for (uint32_t i = 0; i < m->n_order; i++) {
        uint32_t v = m->order[i];
        m->pinned[v] = i >= last_root && i >= furthest;
        for (uint32_t k = m->adj.child_at[v]; k < m->adj.child_at[v + 1]; k++)
            if (position[m->adj.child[k]] > furthest)
                furthest = position[m->adj.child[k]];
    }
}

/* ---- handing out lanes ---- */

/* Children of a kernel u that can be branches of a fork, into m->scratch: private ones first (*p of them), then
 * those shared with another region. Shared ones leave the list of all children by swapping with its last entry.
 * Returns how many. Too many for a fork: all count as shared. */
static uint32_t fork_list(struct model *m, uint32_t u, uint32_t *p)
{
    uint32_t n = m->kid_at[u + 1] - m->kid_at[u], q = n, k = 0;
    const struct kid *all = m->kid + m->kid_at[u];
    struct kid *kids = m->scratch2;
    *p = 0;
    if (!is_kernel(m, u))
        return 0;
    if (n)
        memcpy(kids, all, n * sizeof *kids);
    for (uint32_t i = n; i-- > 0;)
        if (m->inner[kids[i].node] && m->mixed[kids[i].node]) {
            struct kid t = kids[i];
            kids[i] = kids[--q];
            kids[q] = t;
        }
    for (uint32_t i = 0; i < n; i++)
        if (m->inner[kids[i].node]) {
            *p += i < q;
            m->scratch[k++] = kids[i];
        }
    if (*p + (*p < k) <= MAX_BRANCHES)
        return k;
    *p = k = 0;
    for (uint32_t i = 0; i < n; i++)
        if (m->inner[all[i].node])
            m->scratch[k++] = all[i];
    return k;
}

/* Private children over a programmatic edge that no earlier parent claimed come first; returns how many. If there is
 * none, those that an earlier parent claimed alone come first. The order is kept otherwise. */
static uint32_t programmatic_first(struct model *m, uint32_t p)
{
    uint32_t unclaimed = 0, front = 0, rest = 0;
    for (uint32_t i = 0; i < p; i++)
        unclaimed += m->scratch[i].prog && m->claimed[m->scratch[i].node] == UNCLAIMED;
    for (uint32_t i = 0; i < p; i++) {
        struct kid k = m->scratch[i];
        if (k.prog && m->claimed[k.node] == (unclaimed ? UNCLAIMED : CLAIMED_ALONE))
            m->scratch[front++] = k;
        else
            m->scratch2[rest++] = k;
    }
    if (rest)
        memcpy(m->scratch + front, m->scratch2, rest * sizeof *m->scratch2);
    return unclaimed;
}

/* Marks in m->pick which of the k children get something from this node: a programmatic, then the other private
 * ones up to p, then shared ones. In a list without shared children the last entry is left for a later parent if the
 * one before it is picked; of the shared ones only the last free one is picked. */
static void choose(struct model *m, uint32_t a, uint32_t p, uint32_t k)
{
    bool *able = m->able, *pick = m->pick;
    for (uint32_t i = 0; i < k; i++) {
        uint32_t c = m->scratch[i].node;
        m->free[i] = m->lane[c] == NONE;
        able[i] = i < p && (m->free[i] || (m->pinned[c] && i < k - 1));
        pick[i] = able[i];
    }
    if (a > 1 && able[a - 1] && able[a - 2])
        pick[a - 1] = false;
    if (p == k && a < p && able[p - 1]) {
        bool leave = p - a > 1 ? able[p - 2] : a > 1 || (a == 1 && able[0]);
        if (leave)
            pick[p - 1] = false;
    }
    for (uint32_t i = k; i-- > p;)
        if (m->free[i] || (i == k - 1 && m->pinned[m->scratch[i].node])) {
            pick[i] = true;
            break;
        }
}

static void give(struct model *m, uint32_t c, uint32_t u, uint32_t lane)
{
    m->lane[c] = lane == NONE ? m->n_lanes++ : lane;
    m->out->why[c] = lane == NONE ? STEM_LANE_BRANCH : STEM_LANE_CONTINUES;
    m->out->by[c] = u;
}

/* The fork of u. Returns u's lane if nobody took it, else NONE. */
static uint32_t visit_fork(struct model *m, uint32_t u, uint32_t p, uint32_t k)
{
    uint32_t own = m->lane[u], a = programmatic_first(m, p);
    choose(m, a, p, k);
    for (uint32_t i = 0; i < k; i++) {
        if (!m->pick[i])
            continue;
        uint32_t c = m->scratch[i].node;
        bool stays = m->pinned[c] && (i < p ? i < k - 1 || k == 1 : i == k - 1);
        if (!stays)
            give(m, c, u, own);
        own = NONE;
    }
    for (uint32_t i = 0; i < a; i++)
        m->claimed[m->scratch[i].node] = a == 1 ? CLAIMED_ALONE : CLAIMED_AMONG;
    return own;
}

static void visit(struct model *m, uint32_t u)
{
    if (m->lane[u] == NONE) {
        bool rejoin = m->pinned[u] && parents(&m->adj, u);
        m->out->why[u] = rejoin ? STEM_LANE_PINNED : parents(&m->adj, u) ? STEM_LANE_LEFT : STEM_LANE_ROOT;
        m->lane[u] = rejoin ? m->lane[m->order[0]] : m->n_lanes++;
    }
    uint32_t p, k = fork_list(m, u, &p);
    uint32_t own = visit_fork(m, u, p, k);
    if (own == NONE || p < k)
        return;
    /* Other children: the first free one goes on, if u's lane is unspent; a pinned one only if it is not the first. */
    bool first = true;
    for (uint32_t i = m->kid_at[u]; i < m->kid_at[u + 1]; i++) {
        uint32_t c = m->kid[i].node;
        if (is_kernel(m, u) && m->inner[c])
            continue;
        if (m->lane[c] == NONE) {
            if (!m->pinned[c] || !first)
                give(m, c, u, own);
            return;
        }
        first = false;
    }
}

static void allocate(struct model *m)
{
    uint32_t n = m->g->n, widest = 0;
    for (uint32_t v = 0; v < n; v++)
        if (m->kid_at[v + 1] - m->kid_at[v] > widest)
            widest = m->kid_at[v + 1] - m->kid_at[v];
    m->scratch = STEM_NEW_ARRAY(m->a, struct kid, widest);
    m->scratch2 = STEM_NEW_ARRAY(m->a, struct kid, widest);
    m->free = STEM_NEW_ARRAY(m->a, bool, widest);
    m->able = STEM_NEW_ARRAY(m->a, bool, widest);
    m->pick = STEM_NEW_ARRAY(m->a, bool, widest);
    m->owner = STEM_NEW_ARRAY(m->a, uint32_t, n);
    m->pinned = STEM_NEW_ARRAY(m->a, bool, n);
    m->inner = STEM_NEW_ARRAY(m->a, bool, n);
    m->mixed = STEM_NEW_ARRAY(m->a, bool, n);
    m->claimed = STEM_NEW_ARRAY(m->a, uint8_t, n);
    m->lane = m->out->lane;
}

static void predict_580(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lanes *out)
{
    struct model m = {.g = g, .a = a, .out = out};
    struct stem_lane_adj full;
    stem_lane_adj_build(g, a, &full);
    bool empties = false;
    for (uint32_t v = 0; v < g->n; v++)
        empties |= stem_lane_kind_of(g, v) == STEM_LANE_EMPTY;
    if (empties)
        contract(&m, &full);
    else
        take_as_is(&m, &full);
    allocate(&m);
    m.order = visit_order(&m.adj, m.gone, a, &m.n_order);
    find_regions(&m);
    find_pinned(&m);
    for (uint32_t i = 0; i < m.n_order; i++)
        visit(&m, m.order[i]);
    out->order = m.order;
    out->n_order = m.n_order;
    out->n_lanes = m.n_lanes;
}

const struct stem_lane_driver stem_lane_driver_580 = {
    .name = "580",
    .first = 580,
    .last = 580,
    .blurb = "H200, driver 580.159.04, CUDA 13.0",
    .predict = predict_580,
};
