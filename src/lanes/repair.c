/* SPDX-License-Identifier: Apache-2.0
 *
 * Repair: redundant edges that let lanes go on. Each round pairs nodes that open a lane with lanes that ended before
 * them, adds all those edges at once and predicts again; if that does not help, one at a time; if nothing does, the same
 * with the nodes whose lanes the openers could have had. Then whatever can be
 * left out is left out, in ever smaller groups, and on small graphs all smaller sets are tried.
 */
#include "lanes/repair.h"

#include <stdlib.h>
#include <string.h>

#include "lanes/reach.h"

#define DEFAULT_WORK 20000000u
#define PREDICT_WORK 50    /* what a prediction costs besides nodes and edges, in the same unit */
#define TAILS 4            /* candidates looked at for each opening */
#define SEARCH_PAIRS 400   /* small graphs: at most so many implied pairs, */
#define SEARCH_SETS 20000  /* and so many sets of them */
#define SEARCH_MISSED 2    /* where rounds found nothing, sets of up to so many are tried */

/* In an arena, so that running out of memory (stem_arena_try) loses nothing. */
struct edge_list {
    struct stem_lane_edge *at;
    uint32_t len, cap;
};

struct repair {
    const struct stem_lane_driver *driver;
    const struct stem_lane_graph *g;
    const uint32_t *stream;
    struct stem_arena *hold; /* the lists */
    struct edge_list edges;  /* the graph's, then those on trial */
    struct edge_list added, rest;
    uint32_t lanes; /* with `added` */
    uint64_t work, limit;
};

static void push(struct repair *r, struct edge_list *l, struct stem_lane_edge e)
{
    if (l->len == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        struct stem_lane_edge *at = STEM_NEW_ARRAY(r->hold, struct stem_lane_edge, l->cap);
        if (l->len)
            memcpy(at, l->at, l->len * sizeof *at);
        l->at = at;
    }
    l->at[l->len++] = e;
}

/* The graph with n more edges. It stands in r->edges until the next call. */
static struct stem_lane_graph graph_with(struct repair *r, const struct stem_lane_edge *more, uint32_t n)
{
    r->edges.len = r->g->n_edges;
    for (uint32_t i = 0; i < n; i++)
        push(r, &r->edges, more[i]);
    struct stem_lane_graph g = *r->g;
    g.edges = r->edges.at;
    g.n_edges = r->edges.len;
    return g;
}

static bool spent(const struct repair *r)
{
    return r->work >= r->limit;
}

static uint32_t lanes_with(struct repair *r, const struct stem_lane_edge *more, uint32_t n)
{
    struct stem_lane_graph g = graph_with(r, more, n);
    struct stem_arena *a = stem_arena_new();
    struct stem_lanes l;
    uint32_t lanes = stem_lanes_predict(r->driver, &g, a, &l) ? l.n_kernel_lanes : UINT32_MAX;
    stem_arena_free(a);
    r->work += g.n + g.n_edges + PREDICT_WORK;
    return lanes;
}

/* ---- rounds ---- */

struct chance {
    uint32_t node, n, tail[TAILS];
};

/* The child that runs on the lane of v's last parent, so that v had to open one. */
static uint32_t rival_of(const struct stem_lane_reach *reach, const struct stem_lanes *l, const uint32_t *place,
                         uint32_t v)
{
    const struct stem_lane_adj *adj = &reach->adj;
    uint32_t parent = STEM_NO_NODE;
    for (uint32_t k = adj->parent_at[v]; k < adj->parent_at[v + 1]; k++)
        if (parent == STEM_NO_NODE || place[adj->parent[k]] > place[parent])
            parent = adj->parent[k];
    for (uint32_t k = parent == STEM_NO_NODE ? 0 : adj->child_at[parent];
         parent != STEM_NO_NODE && k < adj->child_at[parent + 1]; k++)
        if (l->lane[adj->child[k]] == l->lane[parent])
            return adj->child[k];
    return STEM_NO_NODE;
}

/* Nodes that open a lane though lanes ended before them, in the driver's order; or instead the rivals of all nodes
 * that open one: if a rival goes on with a lane that ended, the lane of its parent is free. Returns how many. */
static uint32_t find_chances(struct repair *r, bool rivals, struct stem_arena *a, struct chance **out)
{
    struct stem_lane_graph g = graph_with(r, r->added.at, r->added.len);
    struct stem_lanes l;
    struct stem_lane_reach reach;
    uint32_t len = 0;
    if (!stem_lanes_predict(r->driver, &g, a, &l) || !stem_lane_reach_init(&reach, &g, a))
        return 0;
    reach.stream = r->stream;
    const bool *is_tail = stem_lane_tail_flags(&g, &l, a);
    struct chance *c = STEM_NEW_ARRAY(a, struct chance, l.n_lanes);
    uint32_t *place = STEM_NEW_ARRAY(a, uint32_t, g.n);
    for (uint32_t i = 0; i < l.n_order; i++)
        place[l.order[i]] = i;
    for (uint32_t i = 0; i < l.n_order && r->work + reach.steps < r->limit; i++) {
        uint32_t v = l.order[i];
        if (l.why[v] != STEM_LANE_BRANCH && l.why[v] != STEM_LANE_LEFT)
            continue;
        c[len].node = rivals ? rival_of(&reach, &l, place, v) : v;
        if (c[len].node == STEM_NO_NODE)
            continue;
        c[len].n = stem_lane_tails(&reach, &g, is_tail, c[len].node, TAILS, c[len].tail);
        len += c[len].n > 0;
    }
    r->work += g.n + g.n_edges + reach.steps;
    *out = c;
    return len;
}

/* Each tail continues into one node at most. */
static uint32_t pair_up(const struct repair *r, const struct chance *c, uint32_t len, struct stem_arena *a,
                        struct stem_lane_edge *pairs)
{
    bool *used = STEM_NEW_ARRAY(a, bool, r->g->n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < len; i++)
        for (uint32_t k = 0; k < c[i].n; k++)
            if (!used[c[i].tail[k]]) {
                used[c[i].tail[k]] = true;
                pairs[n++] = (struct stem_lane_edge){c[i].tail[k], c[i].node, false};
                break;
            }
    return n;
}

static bool try_all(struct repair *r, const struct stem_lane_edge *pairs, uint32_t n)
{
    uint32_t before = r->added.len;
    for (uint32_t i = 0; i < n; i++)
        push(r, &r->added, pairs[i]);
    uint32_t lanes = lanes_with(r, r->added.at, r->added.len);
    if (lanes < r->lanes) {
        r->lanes = lanes;
        return true;
    }
    r->added.len = before;
    return false;
}

static bool try_one_by_one(struct repair *r, const struct chance *c, uint32_t len)
{
    bool better = false;
    for (uint32_t i = 0; i < len; i++)
        for (uint32_t k = 0; k < c[i].n && !spent(r); k++) {
            struct stem_lane_edge e = {c[i].tail[k], c[i].node, false};
            if (try_all(r, &e, 1)) {
                better = true;
                break;
            }
        }
    return better;
}

/* False when nothing more helps. */
static bool go_round(struct repair *r, bool rivals)
{
    struct stem_arena *a = stem_arena_new();
    struct chance *c;
    uint32_t len = spent(r) ? 0 : find_chances(r, rivals, a, &c);
    bool better = false;
    if (len) {
        struct stem_lane_edge *pairs = STEM_NEW_ARRAY(a, struct stem_lane_edge, len);
        uint32_t n = pair_up(r, c, len, a, pairs);
        better = try_all(r, pairs, n) || try_one_by_one(r, c, len);
    }
    stem_arena_free(a);
    return better;
}

/* ---- leaving out ---- */

/* Leaves out groups of `size` edges that are not needed. False if the work allowed ran out. */
static bool leave_out(struct repair *r, uint32_t size, bool *changed)
{
    for (uint32_t at = 0; at < r->added.len;) {
        if (spent(r))
            return false;
        uint32_t n = size < r->added.len - at ? size : r->added.len - at;
        r->rest.len = 0;
        for (uint32_t i = 0; i < r->added.len; i++)
            if (i < at || i >= at + n)
                push(r, &r->rest, r->added.at[i]);
        uint32_t lanes = lanes_with(r, r->rest.at, r->rest.len);
        if (lanes <= r->lanes) {
            memmove(r->added.at + at, r->added.at + at + n, (r->added.len - at - n) * sizeof *r->added.at);
            r->added.len -= n;
            r->lanes = lanes;
            *changed = true;
        } else {
            at += n;
        }
    }
    return true;
}

static enum stem_lane_proof make_minimal(struct repair *r)
{
    bool changed;
    for (uint32_t size = r->added.len / 2; size > 1; size /= 2)
        if (!leave_out(r, size, &changed))
            return STEM_LANE_SMALL;
    do {
        changed = false;
        if (!leave_out(r, 1, &changed))
            return STEM_LANE_SMALL;
    } while (changed);
    return STEM_LANE_MINIMAL;
}

/* ---- small graphs: all sets ---- */

/* All edges that could be added. Returns how many, or SEARCH_PAIRS + 1. */
static uint32_t implied_pairs(const struct repair *r, struct stem_arena *a, struct stem_lane_edge *pairs)
{
    struct stem_lane_reach reach;
    uint32_t len = 0;
    if (r->g->n > SEARCH_PAIRS || !stem_lane_reach_init(&reach, r->g, a))
        return SEARCH_PAIRS + 1;
    for (uint32_t v = 0; v < r->g->n; v++)
        for (uint32_t u = 0; stem_lane_may_enter(r->g, &reach.adj, v) && u < r->g->n; u++) {
            if (u == v || (r->stream && r->stream[u] == r->stream[v]) || !stem_lane_may_leave(r->g, &reach.adj, u) || stem_lane_has_edge(&reach.adj, u, v) ||
                !stem_lane_reach_before(&reach, u, v))
                continue;
            if (len == SEARCH_PAIRS)
                return SEARCH_PAIRS + 1;
            pairs[len++] = (struct stem_lane_edge){u, v, false};
        }
    return len;
}

/* The next set of k indices below n, in lexical order. */
static bool next_set(uint32_t *index, uint32_t k, uint32_t n)
{
    uint32_t i = k;
    while (i > 0 && index[i - 1] == n - k + i - 1)
        i--;
    if (i == 0)
        return false;
    index[i - 1]++;
    for (; i < k; i++)
        index[i] = index[i - 1] + 1;
    return true;
}

static double count_sets(uint32_t n, uint32_t k)
{
    double sets = 1;
    for (uint32_t i = 0; i < k; i++)
        sets = sets * (n - i) / (i + 1);
    return sets;
}

/* Tries all sets of k pairs and takes the best if it has at most `enough` lanes. */
static bool search_sets(struct repair *r, const struct stem_lane_edge *pairs, uint32_t n, uint32_t k, uint32_t enough,
                        struct stem_arena *a)
{
    uint32_t *index = STEM_NEW_ARRAY(a, uint32_t, k), *best = STEM_NEW_ARRAY(a, uint32_t, k);
    struct stem_lane_edge *set = STEM_NEW_ARRAY(a, struct stem_lane_edge, k);
    bool found = false;
    for (uint32_t i = 0; i < k; i++)
        index[i] = i;
    do {
        for (uint32_t i = 0; i < k; i++)
            set[i] = pairs[index[i]];
        uint32_t lanes = lanes_with(r, set, k);
        if (lanes <= enough) {
            memcpy(best, index, k * sizeof *best);
            found = true;
            r->lanes = lanes;
            enough = lanes - 1;
        }
    } while (enough && !spent(r) && next_set(index, k, n));
    if (found)
        r->added.len = 0;
    for (uint32_t i = 0; found && i < k; i++)
        push(r, &r->added, pairs[best[i]]);
    return found;
}

/* Smaller sets that do as well, and where lanes are above the bound sets that do better. */
static enum stem_lane_proof search(struct repair *r, uint32_t bound, uint32_t max_edges, enum stem_lane_proof proof)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_edge *pairs = STEM_NEW_ARRAY(a, struct stem_lane_edge, SEARCH_PAIRS);
    uint32_t most = r->added.len > SEARCH_MISSED ? r->added.len : SEARCH_MISSED;
    uint32_t n = r->lanes > bound || r->added.len > 1 ? implied_pairs(r, a, pairs) : 0;
    double sets = 0;
    if (n == SEARCH_PAIRS + 1)
        goto done;
    for (uint32_t k = 1; k <= most && k <= n && k <= max_edges; k++) {
        bool fewer = k < r->added.len;
        if (!fewer && r->lanes <= bound)
            break;
        sets += count_sets(n, k);
        if (sets > SEARCH_SETS || spent(r))
            goto done;
        if (search_sets(r, pairs, n, k, fewer ? r->lanes : r->lanes - 1, a))
            most = k > SEARCH_MISSED ? k : SEARCH_MISSED;
        if (spent(r))
            goto done;
    }
    proof = STEM_LANE_SMALLEST;
done:
    if (r->added.len <= 1 && proof == STEM_LANE_MINIMAL)
        proof = STEM_LANE_SMALLEST;
    stem_arena_free(a);
    return proof;
}

/* ---- all of it ---- */

static int by_target(const void *x, const void *y)
{
    const struct stem_lane_edge *a = x, *b = y;
    uint64_t p = (uint64_t)a->to << 32 | a->from, q = (uint64_t)b->to << 32 | b->from;
    return (p > q) - (p < q);
}

/* Sound as long as removing edges from the end leaves fewer lanes than there were without any. */
static void cut_to(struct repair *r, uint32_t max_edges, uint32_t before)
{
    if (r->added.len <= max_edges)
        return;
    r->added.len = max_edges;
    r->lanes = lanes_with(r, r->added.at, r->added.len);
    if (r->lanes >= before) {
        r->added.len = 0;
        r->lanes = before;
    }
}

bool stem_lanes_repair(const struct stem_lane_driver *driver, const struct stem_lane_graph *g,
                       const struct stem_lane_repair_options *options, struct stem_arena *a,
                       struct stem_lane_repair *out)
{
    struct repair r = {.driver = driver, .g = g, .hold = stem_arena_new()};
    r.stream = options ? options->stream : NULL;
    r.limit = options && options->work ? options->work : DEFAULT_WORK;
    uint32_t max_edges = options && options->max_edges ? options->max_edges : UINT32_MAX;
    for (uint32_t i = 0; i < g->n_edges; i++)
        push(&r, &r.edges, g->edges[i]);
    r.lanes = lanes_with(&r, NULL, 0);
    *out = (struct stem_lane_repair){.before = r.lanes, .after = r.lanes};
    bool good = r.lanes != UINT32_MAX;
    if (good) {
        out->bound = stem_lanes_bound(g);
        uint32_t enough = options && options->enough > out->bound ? options->enough : out->bound;
        bool rivals = r.stream; /* within a stream most lanes that ended are its own, and looking past them is dear */
        while (r.lanes > enough && (go_round(&r, rivals) || go_round(&r, !rivals)))
            continue;
        cut_to(&r, max_edges, out->before);
        out->proof = make_minimal(&r);
        if (spent(&r))
            out->proof = STEM_LANE_SMALL;
        else if (!options || !options->greedy)
            out->proof = search(&r, enough, max_edges, out->proof);
        if (r.added.len)
            qsort(r.added.at, r.added.len, sizeof *r.added.at, by_target);
        out->edges = stem_arena_dup(a, r.added.at, r.added.len * sizeof *r.added.at);
        out->n_edges = r.added.len;
        out->after = r.lanes;
    }
    stem_arena_free(r.hold);
    return good;
}
