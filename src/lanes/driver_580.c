/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes as driver 580 gives them. Fitted to measurements (H200, driver 580.159.04, CUDA 13.0) and to nothing else;
 * the data are in tests/lanes/data/, the rule in words and its exceptions in docs/lanes.md. Linear in nodes and
 * edges, but for graphs in which long chains of empty nodes hang below wide joins.
 *
 *   contract   empty nodes go, in creation order, unless they have (by then) two parents and two children or more
 *   order      ids upwards; a node passed over because a parent was missing follows when its last parent is placed
 *   owner      the region of a node: its highest root, cut at nodes that are not kernels
 *   pinned     nodes that every path from a root to a sink crosses
 *   visit      each node in turn hands lanes to its children
 */
#include "lanes/driver_580.h"

#include <string.h>

/* A wider fork is not laid out as a fork. */
#define MAX_BRANCHES 6
#define NONE UINT32_MAX

/* By the first parent whose lane a programmatic child could go on with: it had no other such child, or several. */
enum claim { UNCLAIMED, CLAIMED_ALONE, CLAIMED_AMONG };

struct model {
    const struct stem_lane_graph *g; /* child graphs opened */
    struct stem_arena *a;
    struct stem_lane_contracted c;
    uint32_t *order, n_order;
    uint32_t *owner;
    bool *pinned, *inner, *mixed;
    uint8_t *claimed; /* enum claim, of programmatic children */
    uint32_t *lane, n_lanes;
    uint8_t *why;
    uint32_t *by;
    bool *free, *able, *pick; /* as long as the longest child list */
};

/* The children of a node while it is visited. list[0 .. p-1] are private kernels, the first `a` of them over a
 * programmatic edge; list[p .. k-1] are shared kernels, of which one is picked. */
struct fork {
    struct stem_lane_kid *list, *spare; /* as long as the longest child list, and one */
    uint32_t a, p, k;
    uint32_t first;   /* the first private kernel or holder; NONE */
    uint32_t holder;  /* a pinned child that is no such kernel: it has the lane already, in a way; NONE */
    uint32_t leading; /* the holder, if it is the first of the children that are no such kernels; NONE */
    uint32_t before;  /* private kernels before `leading` */
    uint32_t spent;   /* picks from this one on get new lanes */
    uint32_t claims;  /* children over a programmatic edge, which are claimed from now on */
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
    return stem_lane_is_kernel(stem_lane_kind_of(m->g, v));
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

/* ---- regions and pinned nodes ---- */

/* owner; inner: a kernel whose parents are all kernels; mixed: its parents have different owners. A child is shared
 * between u and another region if it is mixed, since u is one of its parents. */
static void find_regions(struct model *m)
{
    const struct stem_lane_adj *adj = &m->c.adj;
    for (uint32_t i = 0; i < m->n_order; i++) {
        uint32_t v = m->order[i], high = 0, low = NONE;
        bool cut = false;
        for (uint32_t k = adj->parent_at[v]; k < adj->parent_at[v + 1]; k++) {
            uint32_t p = adj->parent[k];
            cut |= !is_kernel(m, p);
            high = m->owner[p] > high ? m->owner[p] : high;
            low = m->owner[p] < low ? m->owner[p] : low;
        }
        m->owner[v] = cut || !parents(adj, v) ? v : high;
        m->mixed[v] = parents(adj, v) && low != high;
        m->inner[v] = is_kernel(m, v) && !cut;
    }
}

/* A node is pinned if no edge, no way in through a root and no way out through a sink leads past it in the order. */
static bool *find_pinned(const struct stem_lane_adj *adj, const uint32_t *order, uint32_t n, struct stem_arena *a)
{
    uint32_t furthest = 0, last_root = 0, first_sink = NONE;
    uint32_t *position = STEM_NEW_ARRAY(a, uint32_t, adj->n);
    bool *pinned = STEM_NEW_ARRAY(a, bool, adj->n);
    for (uint32_t i = 0; i < n; i++) {
        position[order[i]] = i;
        if (!children(adj, order[i]) && first_sink == NONE)
            first_sink = i;
        if (!parents(adj, order[i]))
            last_root = i;
    }
    for (uint32_t i = 0; i < n && i <= first_sink; i++) {
        uint32_t v = order[i];
        pinned[v] = i >= last_root && i >= furthest;
        for (uint32_t k = adj->child_at[v]; k < adj->child_at[v + 1]; k++)
            if (position[adj->child[k]] > furthest)
                furthest = position[adj->child[k]];
    }
    return pinned;
}

/* Found while child graphs are closed and bodies hang on conditional nodes: `g` is the graph as it was given. */
static bool *find_pinned_closed(const struct stem_lane_graph *g, const struct stem_lane_expanded *open,
                                struct stem_arena *a)
{
    struct stem_lane_expanded closed;
    struct stem_lane_contracted c;
    stem_lane_expand(g, true, a, &closed);
    stem_lane_contract(&closed.graph, a, &c);
    uint32_t n, *order = visit_order(&c.adj, c.gone, a, &n);
    const bool *found = find_pinned(&c.adj, order, n, a);
    bool *pinned = STEM_NEW_ARRAY(a, bool, open->graph.n);
    for (uint32_t v = 0; v < open->graph.n; v++)
        pinned[v] = open->old[v] != NONE && found[closed.node[open->old[v]]];
    return pinned;
}

/* ---- the children of a node ---- */

static bool is_branch(const struct model *m, uint32_t u, uint32_t c)
{
    return is_kernel(m, u) && m->inner[c];
}

static bool is_private_programmatic(const struct model *m, const struct stem_lane_kid *k)
{
    return k->prog && !m->mixed[k->node];
}

static void swap(struct stem_lane_kid *x, struct stem_lane_kid *y)
{
    struct stem_lane_kid t = *x;
    *x = *y;
    *y = t;
}

/* Children of u that can be branches: private ones, then shared ones. Shared ones leave the list of all children by
 * swapping with its last entry. */
static void list_branches(const struct model *m, uint32_t u, struct fork *f)
{
    uint32_t n = m->c.kid_at[u + 1] - m->c.kid_at[u], q = n;
    struct stem_lane_kid *all = f->spare;
    if (n)
        memcpy(all, m->c.kid + m->c.kid_at[u], n * sizeof *all);
    for (uint32_t i = n; i-- > 0;)
        if (is_branch(m, u, all[i].node) && m->mixed[all[i].node])
            swap(&all[i], &all[--q]);
    f->first = f->holder = f->leading = f->spent = NONE;
    f->a = f->p = f->k = f->claims = 0;
    bool others = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = all[i].node;
        if (is_branch(m, u, c)) {
            f->first = f->first == NONE && i < q ? c : f->first;
            f->p += i < q;
            f->list[f->k++] = all[i];
        } else if (i < q && is_kernel(m, u)) {
            bool holds = m->pinned[c] && m->lane[c] == NONE;
            if (holds && !others) {
                f->leading = c;
                f->before = f->p;
            }
            if (holds && f->holder == NONE) {
                f->holder = c;
                f->first = f->first == NONE ? c : f->first;
            }
            others = true;
        }
    }
}

/* Too many for a fork: private children over a programmatic edge come first, in the order that swapping all others
 * with the last gives; those count as shared. */
static void list_wide(const struct model *m, uint32_t u, struct fork *f)
{
    f->k = 0;
    for (uint32_t i = m->c.kid_at[u]; i < m->c.kid_at[u + 1]; i++)
        if (m->inner[m->c.kid[i].node])
            f->list[f->k++] = m->c.kid[i];
    f->a = f->k;
    for (uint32_t i = f->k; i-- > 0;)
        if (!is_private_programmatic(m, &f->list[i]))
            swap(&f->list[i], &f->list[--f->a]);
    f->p = 0;
    f->claims = f->a;
}

/* Private children over a programmatic edge that no earlier parent claimed come first. If there is none, those that
 * an earlier parent claimed alone come first. The order is kept otherwise. */
static void programmatic_first(const struct model *m, struct fork *f)
{
    uint32_t front = 0, rest = 0;
    for (uint32_t i = 0; i < f->p; i++)
        f->a += f->list[i].prog && m->claimed[f->list[i].node] == UNCLAIMED;
    for (uint32_t i = 0; i < f->p; i++) {
        struct stem_lane_kid k = f->list[i];
        if (k.prog && m->claimed[k.node] == (f->a ? UNCLAIMED : CLAIMED_ALONE))
            f->list[front++] = k;
        else
            f->spare[rest++] = k;
    }
    if (rest)
        memcpy(f->list + front, f->spare, rest * sizeof *f->spare);
    f->claims = f->a;
}

/* A holder comes before programmatic children if one of them had to move; without any, it has its place among the
 * branches, and those behind it get no lane that exists. */
static void place_holder(struct fork *f)
{
    if (f->a > 1 || (f->a == 1 && f->list[0].node != f->first)) {
        if (f->holder == NONE)
            return;
        memmove(f->list + 1, f->list, f->k * sizeof *f->list);
        f->list[0] = (struct stem_lane_kid){f->holder, false};
        f->a++;
        f->p++;
        f->k++;
    } else if (f->a == 0 && f->leading != NONE) {
        f->spent = f->before;
    }
}

/* ---- handing out lanes ---- */

/* Of the shared ones at most one is picked: the last free one. */
static void choose_shared(const struct model *m, const struct fork *f, uint32_t from)
{
    for (uint32_t i = f->k; i-- > from;)
        if (m->free[i] || (i == f->k - 1 && m->pinned[f->list[i].node])) {
            m->pick[i] = true;
            return;
        }
}

/* Marks in m->pick which entries get something from this node. In a list without shared children the last entry is
 * left for a later parent if the one before it is picked; so is the last over a programmatic edge. */
static void choose(struct model *m, const struct fork *f)
{
    bool *able = m->able, *pick = m->pick;
    uint32_t a = f->a, p = f->p, k = f->k;
    for (uint32_t i = 0; i < k; i++) {
        m->free[i] = m->lane[f->list[i].node] == NONE;
        able[i] = i < p && (m->free[i] || (m->pinned[f->list[i].node] && i < k - 1));
        pick[i] = able[i];
    }
    if (a > 1 && able[a - 1] && able[a - 2])
        pick[a - 1] = false;
    if (p == k && a < p && able[p - 1]) {
        bool leave = p - a > 1 ? able[p - 2] : a > 1 || (a == 1 && able[0]);
        if (leave)
            pick[p - 1] = false;
    }
    choose_shared(m, f, p);
}

static void choose_wide(struct model *m, const struct fork *f)
{
    for (uint32_t i = 0; i < f->k; i++) {
        m->free[i] = m->lane[f->list[i].node] == NONE;
        m->pick[i] = i < f->a && m->free[i];
    }
    if (f->a > 1 && m->free[f->a - 1] && m->free[f->a - 2])
        m->pick[f->a - 1] = false;
    choose_shared(m, f, f->a);
}

static void give(struct model *m, uint32_t c, uint32_t u, uint32_t lane)
{
    m->lane[c] = lane == NONE ? m->n_lanes++ : lane;
    m->why[c] = lane == NONE ? STEM_LANE_BRANCH : STEM_LANE_CONTINUES;
    m->by[c] = u;
}

/* Its only child is pinned too, and has one child only. */
static bool heads_chain(const struct model *m, uint32_t c)
{
    if (children(&m->c.adj, c) != 1)
        return false;
    uint32_t next = m->c.adj.child[m->c.adj.child_at[c]];
    return m->pinned[next] && children(&m->c.adj, next) == 1;
}

/* A pinned child keeps the lane that it has by that; the last of several private ones does not, unless it heads a
 * chain, and of the shared ones only the last does. */
static bool stays(const struct model *m, uint32_t u, const struct fork *f, uint32_t i)
{
    uint32_t c = f->list[i].node;
    if (!is_branch(m, u, c))
        return true;
    if (!m->pinned[c])
        return false;
    return i < f->p ? i < f->k - 1 || f->k == 1 || heads_chain(m, c) : i == f->k - 1;
}

/* Returns u's lane if nobody took it, else NONE. */
static uint32_t visit_fork(struct model *m, uint32_t u, struct fork *f)
{
    uint32_t own = m->lane[u];
    for (uint32_t i = 0; i < f->k; i++) {
        if (!m->pick[i])
            continue;
        if (i >= f->spent)
            own = NONE;
        if (!stays(m, u, f, i))
            give(m, f->list[i].node, u, own);
        own = NONE;
    }
    return own;
}

static void claim(struct model *m, const struct fork *f)
{
    for (uint32_t i = 0, left = f->claims; left && i < f->k; i++)
        if (m->inner[f->list[i].node]) {
            m->claimed[f->list[i].node] = f->claims == 1 ? CLAIMED_ALONE : CLAIMED_AMONG;
            left--;
        }
}

/* Other children: the first free one goes on with u's lane; a pinned one only if it is not the first of these, or if
 * there are branches. */
static void visit_others(struct model *m, uint32_t u, const struct fork *f, uint32_t own)
{
    bool first = true;
    for (uint32_t i = m->c.kid_at[u]; i < m->c.kid_at[u + 1]; i++) {
        uint32_t c = m->c.kid[i].node;
        if (is_branch(m, u, c))
            continue;
        if (m->lane[c] == NONE) {
            if (!m->pinned[c] || !first || f->k)
                give(m, c, u, own);
            return;
        }
        first = false;
    }
}

static void visit(struct model *m, uint32_t u, struct fork *f)
{
    if (m->lane[u] == NONE) {
        bool behind = parents(&m->c.adj, u), rejoin = m->pinned[u] && behind;
        m->why[u] = rejoin ? STEM_LANE_PINNED : behind ? STEM_LANE_LEFT : STEM_LANE_ROOT;
        m->lane[u] = rejoin ? m->lane[m->order[0]] : m->n_lanes++;
    }
    list_branches(m, u, f);
    if (f->p + (f->p < f->k) > MAX_BRANCHES) {
        list_wide(m, u, f);
        choose_wide(m, f);
    } else {
        programmatic_first(m, f);
        place_holder(f);
        choose(m, f);
    }
    uint32_t own = visit_fork(m, u, f);
    claim(m, f);
    if (own != NONE && f->p == f->k)
        visit_others(m, u, f, own);
}

/* ---- all of it ---- */

static void allocate(struct model *m, struct fork *f)
{
    uint32_t n = m->g->n, widest = 0;
    for (uint32_t v = 0; v < n; v++)
        if (m->c.kid_at[v + 1] - m->c.kid_at[v] > widest)
            widest = m->c.kid_at[v + 1] - m->c.kid_at[v];
    f->list = STEM_NEW_ARRAY(m->a, struct stem_lane_kid, widest + 1);
    f->spare = STEM_NEW_ARRAY(m->a, struct stem_lane_kid, widest + 1);
    m->free = STEM_NEW_ARRAY(m->a, bool, widest + 1);
    m->able = STEM_NEW_ARRAY(m->a, bool, widest + 1);
    m->pick = STEM_NEW_ARRAY(m->a, bool, widest + 1);
    m->owner = STEM_NEW_ARRAY(m->a, uint32_t, n);
    m->inner = STEM_NEW_ARRAY(m->a, bool, n);
    m->mixed = STEM_NEW_ARRAY(m->a, bool, n);
    m->claimed = STEM_NEW_ARRAY(m->a, uint8_t, n);
    m->lane = STEM_NEW_ARRAY(m->a, uint32_t, n);
    m->why = STEM_NEW_ARRAY(m->a, uint8_t, n);
    m->by = STEM_NEW_ARRAY(m->a, uint32_t, n);
    for (uint32_t v = 0; v < n; v++)
        m->lane[v] = m->by[v] = NONE;
}

/* From numbers of the expanded graph to those of the graph that was given. */
static void hand_over(const struct model *m, const struct stem_lane_expanded *x, struct stem_lanes *out)
{
    for (uint32_t v = 0; v < m->g->n; v++)
        if (x->old[v] != NONE) {
            out->lane[x->old[v]] = m->lane[v];
            out->why[x->old[v]] = m->why[v];
            out->by[x->old[v]] = m->by[v] == NONE ? NONE : x->old[m->by[v]];
        }
    out->order = STEM_NEW_ARRAY(m->a, uint32_t, out->n);
    out->n_order = 0;
    for (uint32_t i = 0; i < m->n_order; i++)
        if (x->old[m->order[i]] != NONE)
            out->order[out->n_order++] = x->old[m->order[i]];
    out->n_lanes = m->n_lanes;
}

static bool has_inner_graphs(const struct stem_lane_graph *g)
{
    for (uint32_t v = 0; v < g->n; v++)
        if (stem_lane_kind_of(g, v) == STEM_LANE_CHILD || stem_lane_kind_of(g, v) == STEM_LANE_CONDITIONAL)
            return true;
    return false;
}

static void predict_580(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lanes *out)
{
    struct stem_lane_expanded x;
    struct fork f;
    stem_lane_expand(g, false, a, &x);
    struct model m = {.g = &x.graph, .a = a};
    stem_lane_contract(m.g, a, &m.c);
    allocate(&m, &f);
    m.order = visit_order(&m.c.adj, m.c.gone, a, &m.n_order);
    find_regions(&m);
    m.pinned = has_inner_graphs(g) ? find_pinned_closed(g, &x, a) : find_pinned(&m.c.adj, m.order, m.n_order, a);
    for (uint32_t i = 0; i < m.n_order; i++)
        visit(&m, m.order[i], &f);
    hand_over(&m, &x, out);
}

const struct stem_lane_driver stem_lane_driver_580 = {
    .name = "580",
    .first = 580,
    .last = 580,
    .blurb = "H200, driver 580.159.04, CUDA 13.0",
    .predict = predict_580,
};
