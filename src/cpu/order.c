/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal orders. An op may run once everything that it depends on has: by the plan's edges, or by the edges that its
 * steps imply, and always everything of earlier segments.
 */
#include <stdlib.h>

#include "cpu/device.h"

struct queue {
    enum stem_cpu_order order;
    uint64_t random;
    uint32_t *at; /* RANDOM: a bag; otherwise a heap with the largest (LAST) op at 0 */
    uint32_t n;
};

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void put(struct queue *q, uint32_t op)
{
    uint32_t i = q->n++;
    q->at[i] = op;
    while (q->order == STEM_CPU_LAST && i && q->at[(i - 1) / 2] < op) {
        q->at[i] = q->at[(i - 1) / 2];
        q->at[i = (i - 1) / 2] = op;
    }
}

static uint32_t take(struct queue *q)
{
    uint32_t i = q->order == STEM_CPU_RANDOM ? (uint32_t)(next_random(&q->random) % q->n) : 0;
    uint32_t op = q->at[i], last = q->at[--q->n];
    if (i == q->n)
        return op;
    q->at[i] = last;
    while (q->order == STEM_CPU_LAST && 2 * i + 1 < q->n) {
        uint32_t child = 2 * i + 1;
        child += child + 1 < q->n && q->at[child + 1] > q->at[child];
        if (q->at[child] <= last)
            break;
        q->at[i] = q->at[child];
        q->at[i = child] = last;
    }
    return op;
}

/* Kahn's algorithm over one segment at a time. `begin` and `next` list each op's successors. */
static uint32_t run(const struct stem_plan_variant *v, struct queue *q, const struct stem_plan_edge *edges,
                    const uint32_t *begin, const uint32_t *next, uint32_t *waits, uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t first = 0; first < v->n_ops;) {
        uint32_t end = first;
        for (; end < v->n_ops && v->ops[end].segment == v->ops[first].segment; end++)
            if (!waits[end])
                put(q, end);
        while (q->n) {
            uint32_t op = out[n++] = take(q);
            for (uint32_t k = begin[op]; k < begin[op + 1]; k++) {
                uint32_t to = edges[next[k]].to;
                if (!--waits[to] && to < end)
                    put(q, to);
            }
        }
        first = end;
    }
    return n;
}

static bool sort(const struct stem_plan_variant *v, struct queue *q, const struct stem_plan_edge *edges, uint32_t n,
                 uint32_t *out)
{
    uint32_t *begin = calloc(v->n_ops + (size_t)2, sizeof *begin);
    uint32_t *next = calloc(n + (size_t)1, sizeof *next), *waits = calloc(v->n_ops + (size_t)1, sizeof *waits);
    bool ok = begin && next && waits;
    for (uint32_t i = 0; ok && i < n; i++) {
        begin[edges[i].from + 2]++;
        waits[edges[i].to]++;
    }
    for (uint32_t i = 0; ok && i < v->n_ops; i++)
        begin[i + 2] += begin[i + 1];
    for (uint32_t i = 0; ok && i < n; i++)
        next[begin[edges[i].from + 1]++] = i;
    ok = ok && run(v, q, edges, begin, next, waits, out) == v->n_ops;
    free(begin);
    free(next);
    free(waits);
    return ok;
}

uint32_t *stem_cpu_order(const struct stem_plan *plan, const struct stem_plan_variant *v,
                         const struct stem_cpu_options *options)
{
    uint32_t *out = malloc((v->n_ops + (size_t)1) * sizeof *out);
    for (uint32_t i = 0; out && i < v->n_ops; i++)
        out[i] = i;
    if (!out || options->order == STEM_CPU_ISSUE)
        return out;
    struct stem_plan_edge *own = NULL;
    uint32_t n = options->use_edges ? v->n_edges : stem_plan_derive_edges(v, plan->n_streams, &own);
    struct queue q = {.order = options->order, .random = options->seed,
                      .at = malloc((v->n_ops + (size_t)1) * sizeof *q.at)};
    bool ok = q.at && n != STEM_NONE && sort(v, &q, own ? own : v->edges, n, out);
    free(own);
    free(q.at);
    if (!ok) {
        free(out);
        out = NULL;
    }
    return out;
}
