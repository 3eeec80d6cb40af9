/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/graph.h"

uint32_t stem_live_ops(const struct stem_program *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->ops.len; i++)
        n += !p->ops.at[i].dead;
    return n;
}

const char *stem_op_label(const struct stem_program *p, struct stem_op_id id)
{
    const struct stem_op *op = stem_op_at(p, id);
    if (op->name.n)
        return stem_sym_str(p->strings, op->name);
    return op->class == STEM_OP_BUILTIN ? op->def->name : stem_sym_str(p->strings, p->decls.at[op->decl].name);
}

static bool taken(const struct stem_program *p, const struct stem_dep *d, uint32_t kinds, bool within)
{
    return kinds >> d->kind & 1 && (!within || stem_op_at(p, d->from)->segment == stem_op_at(p, d->to)->segment);
}

static struct stem_graph build(struct stem_arena *a, const struct stem_program *p, uint32_t kinds, bool within,
                               bool forward)
{
    struct stem_graph g = {p->ops.len, STEM_NEW_ARRAY(a, uint32_t, p->ops.len + 2), NULL};
    uint32_t *count = g.begin + 2; /* shifted, so that filling moves them into place */
    uint32_t total = 0;
    for (uint32_t i = 0; i < p->sched.deps.len; i++) {
        const struct stem_dep *d = &p->sched.deps.at[i];
        uint32_t key = forward ? d->from.n : d->to.n;
        if (taken(p, d, kinds, within)) {
            total++;
            count[key]++;
        }
    }
    for (uint32_t i = 2; i <= g.n + 1; i++)
        g.begin[i] += g.begin[i - 1];
    g.to = STEM_NEW_ARRAY(a, uint32_t, total);
    for (uint32_t i = 0; i < p->sched.deps.len; i++) {
        const struct stem_dep *d = &p->sched.deps.at[i];
        if (taken(p, d, kinds, within))
            g.to[g.begin[(forward ? d->from.n : d->to.n) + 1]++] = forward ? d->to.n : d->from.n;
    }
    return g;
}

struct stem_graph stem_graph_succs(struct stem_arena *a, const struct stem_program *p, uint32_t kinds, bool within)
{
    return build(a, p, kinds, within, true);
}

struct stem_graph stem_graph_preds(struct stem_arena *a, const struct stem_program *p, uint32_t kinds, bool within)
{
    return build(a, p, kinds, within, false);
}

static bool less(const struct stem_heap *h, uint32_t a, uint32_t b)
{
    uint32_t ka = h->key ? h->key[a] : a, kb = h->key ? h->key[b] : b;
    return ka != kb ? ka < kb : a < b;
}

void stem_heap_push(struct stem_heap *h, uint32_t op)
{
    stem_vec_push(&h->at, op);
    uint32_t i = h->at.len - 1;
    for (; i && less(h, op, h->at.at[(i - 1) / 2]); i = (i - 1) / 2)
        h->at.at[i] = h->at.at[(i - 1) / 2];
    h->at.at[i] = op;
}

uint32_t stem_heap_pop(struct stem_heap *h)
{
    uint32_t top = h->at.at[0], last = stem_vec_pop(&h->at), n = h->at.len, i = 0;
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && less(h, h->at.at[child + 1], h->at.at[child]))
            child++;
        if (!less(h, h->at.at[child], last))
            break;
        h->at.at[i] = h->at.at[child];
    }
    if (n)
        h->at.at[i] = last;
    return top;
}

uint32_t *stem_graph_topo(struct stem_arena *a, const struct stem_program *p, const struct stem_graph *succs,
                          uint32_t *n)
{
    uint32_t *order = STEM_NEW_ARRAY(a, uint32_t, succs->n), *waiting = STEM_NEW_ARRAY(a, uint32_t, succs->n);
    struct stem_heap ready = {0};
    for (uint32_t i = 0; i < succs->begin[succs->n]; i++)
        waiting[succs->to[i]]++;
    for (uint32_t i = 0; i < succs->n; i++)
        if (!waiting[i] && !p->ops.at[i].dead)
            stem_heap_push(&ready, i);
    *n = 0;
    while (ready.at.len) {
        uint32_t op = stem_heap_pop(&ready);
        order[(*n)++] = op;
        for (uint32_t e = succs->begin[op]; e < succs->begin[op + 1]; e++)
            if (--waiting[succs->to[e]] == 0)
                stem_heap_push(&ready, succs->to[e]);
    }
    stem_vec_free(&ready.at);
    return order;
}

/* Tarjan's algorithm with its own stack: programs are deeper than the C stack. */
uint32_t *stem_graph_components(struct stem_arena *a, const struct stem_graph *g)
{
    uint32_t n = g->n, time = 0, found = 0, open = 0;
    uint32_t *component = STEM_NEW_ARRAY(a, uint32_t, n), *seen = STEM_NEW_ARRAY(a, uint32_t, n);
    uint32_t *low = STEM_NEW_ARRAY(a, uint32_t, n), *next = STEM_NEW_ARRAY(a, uint32_t, n);
    uint32_t *stack = STEM_NEW_ARRAY(a, uint32_t, n), *path = STEM_NEW_ARRAY(a, uint32_t, n);
    for (uint32_t i = 0; i < n; i++)
        component[i] = STEM_NONE;
    for (uint32_t root = 0; root < n; root++) {
        if (seen[root])
            continue;
        uint32_t depth = 0;
        path[0] = root;
        for (;;) {
            uint32_t v = path[depth];
            if (!seen[v]) {
                seen[v] = low[v] = ++time;
                next[v] = g->begin[v];
                stack[open++] = v;
            }
            uint32_t w = STEM_NONE;
            while (next[v] < g->begin[v + 1] && w == STEM_NONE) {
                uint32_t u = g->to[next[v]++];
                if (!seen[u])
                    w = u;
                else if (component[u] == STEM_NONE && seen[u] < low[v])
                    low[v] = seen[u];
            }
            if (w != STEM_NONE) {
                path[++depth] = w;
                continue;
            }
            if (low[v] == seen[v]) {
                uint32_t u;
                do {
                    u = stack[--open];
                    component[u] = found;
                } while (u != v);
                found++;
            }
            if (!depth)
                break;
            uint32_t parent = path[--depth];
            if (low[v] < low[parent])
                low[parent] = low[v];
        }
    }
    return component;
}
