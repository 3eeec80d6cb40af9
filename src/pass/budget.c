/* SPDX-License-Identifier: Apache-2.0
 *
 * Two buffers that conflict only because their streams run beside each other need not: if the first uses of the one
 * come after the last uses of the other in issue order, a wait makes that so in happens-before, and never closes a
 * cycle. Such pairs are sold by size: all pairs in which the smaller buffer has at least some number of bytes. The
 * largest number that fits the budget costs the least overlap; it is found by bisection over the sizes there are.
 */
#include "pass/budget.h"

#include <stdlib.h>

#include "pass/place.h"
#include "pass/throttle.h"

struct offer { /* one more dep and the bytes that it makes shareable */
    struct stem_dep dep;
    uint64_t bytes;
};

struct offers {
    STEM_VEC(struct offer) list;
    STEM_VEC(uint64_t) sizes;
};

static bool precedes(const struct stem_program *p, const struct stem_hb *hb, const struct stem_item *x,
                     uint32_t position)
{
    for (uint32_t k = p->sched.last_use_begin.at[x->buffer]; k < p->sched.last_use_begin.at[x->buffer + 1]; k++)
        if (hb->position[p->sched.last_use.at[k].n] >= position)
            return false;
    return true;
}

/* All pairs of a buffer that is used up in issue order before another one is first used, but not in happens-before.
 */
static void collect(const struct stem_program *p, struct stem_arena *a, struct offers *o)
{
    struct stem_hb *hb = stem_hb_new(a, p, false);
    struct stem_items s = stem_items_new(a, p);
    STEM_VEC(uint32_t) active = {0};
    for (uint32_t i = 0; i < s.n; i++) {
        struct stem_op_id first = p->sched.first_use.at[s.at[i].buffer];
        uint32_t still = 0;
        for (uint32_t k = 0; k < active.len; k++) {
            const struct stem_item *x = &s.at[active.at[k]];
            if (stem_item_before(&s, active.at[k], s.floor + (size_t)i * s.n_streams))
                continue;
            active.at[still++] = active.at[k];
            if (stem_item_before(&s, active.at[k], s.at[i].known) || !precedes(p, hb, x, hb->position[first.n]))
                continue;
            uint64_t bytes = x->bytes < s.at[i].bytes ? x->bytes : s.at[i].bytes;
            for (uint32_t e = p->sched.last_use_begin.at[x->buffer]; e < p->sched.last_use_begin.at[x->buffer + 1];
                 e++)
                stem_vec_push(&o->list, (struct offer){
                                            {p->sched.last_use.at[e], first, STEM_DEP_MEMORY, STEM_NO_VALUE}, bytes});
            stem_vec_push(&o->sizes, bytes);
        }
        active.len = still;
        stem_vec_push(&active, i);
    }
    stem_vec_free(&active);
}

static int larger_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* The schedule with all offers of at least `bytes` taken. */
static void take(struct stem_program *p, struct stem_pass_ctx *ctx, const struct offers *o, uint64_t bytes)
{
    stem_memory_drop_deps(p);
    for (uint32_t i = 0; i < o->list.len; i++)
        if (o->list.at[i].bytes >= bytes)
            stem_vec_push(&p->sched.deps, o->list.at[i].dep);
    stem_memory_sort_deps(p);
    stem_memory_rebuild(p, ctx);
}

bool stem_memory_buy(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct offers o = {0};
    uint64_t budget = ctx->options->memory_budget, before = p->sched.slab_bytes;
    double us = p->sched.critical_path_us;
    collect(p, ctx->scratch, &o);
    if (o.sizes.len)
        qsort(o.sizes.at, o.sizes.len, sizeof *o.sizes.at, larger_first);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o.sizes.len; i++)
        if (!n || o.sizes.at[i] != o.sizes.at[n - 1])
            o.sizes.at[n++] = o.sizes.at[i];
    uint32_t low = 0, high = n; /* sizes[high] is enough, as far as known; n: nothing is */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        take(p, ctx, &o, o.sizes.at[middle]);
        if (p->sched.slab_bytes <= budget)
            high = middle;
        else
            low = middle + 1;
    }
    if (n)
        take(p, ctx, &o, o.sizes.at[high < n ? high : n - 1]);
    uint32_t bought = 0;
    for (uint32_t i = 0; i < p->sched.deps.len; i++)
        bought += p->sched.deps.at[i].kind == STEM_DEP_MEMORY;
    bool fits = p->sched.slab_bytes <= budget;
    if (fits)
        stem_remark(ctx->diags, "memory", STEM_NOWHERE,
                    "the budget of %llu bytes is met: %llu instead of %llu bytes, for %u "
                    "more dependencies; the schedule takes %.1f us instead of %.1f",
                    (unsigned long long)budget, (unsigned long long)p->sched.slab_bytes, (unsigned long long)before,
                    bought, p->sched.critical_path_us, us);
    else
        stem_error(ctx->diags, STEM_E_MEMORY_BUDGET, STEM_NOWHERE,
                   "the temporaries need %llu bytes even without overlap, and "
                   "the budget is %llu",
                   (unsigned long long)p->sched.slab_bytes, (unsigned long long)budget);
    stem_vec_free(&o.list);
    stem_vec_free(&o.sizes);
    return fits;
}
