/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff.h"

#include <string.h>

/* ---- the same ops ---- */

static void number_ops(struct stem_strtab *keys, struct stem_diff_side *s, struct stem_arena *a)
{
    struct stem_strtab *names = stem_strtab_new();
    uint32_t *seen = STEM_NEW_ARRAY(a, uint32_t, s->v->n_ops + 1);
    s->key = STEM_NEW_ARRAY(a, uint32_t, s->v->n_ops + 1);
    for (uint32_t i = 0; i < s->v->n_ops; i++) {
        const char *name = s->v->ops[i].name;
        s->key[i] = stem_intern_printf(keys, "%u %s", seen[stem_intern(names, name).n - 1]++, name).n;
    }
    stem_strtab_free(names);
}

static void index_ops(struct stem_diff_side *s, uint32_t n_keys, struct stem_arena *a)
{
    s->op_of = STEM_NEW_ARRAY(a, uint32_t, n_keys);
    memset(s->op_of, 0xff, n_keys * sizeof *s->op_of);
    for (uint32_t i = 0; i < s->v->n_ops; i++)
        s->op_of[s->key[i]] = i;
}

uint32_t stem_diff_other(const struct stem_diff_side *from, const struct stem_diff_side *to, uint32_t op)
{
    return to->op_of[from->key[op]];
}

/* Those outside a longest increasing subsequence (patience sorting). */
static void find_moved(struct stem_diff_pair *d, struct stem_arena *a)
{
    uint32_t n = 0, piles = 0, *at = STEM_NEW_ARRAY(a, uint32_t, d->a.v->n_ops + 1);
    uint32_t *top = STEM_NEW_ARRAY(a, uint32_t, d->a.v->n_ops + 1),
             *back = STEM_NEW_ARRAY(a, uint32_t, d->a.v->n_ops + 1);
    d->moved = STEM_NEW_ARRAY(a, bool, d->b.v->n_ops + 1);
    for (uint32_t i = 0; i < d->a.v->n_ops; i++) {
        uint32_t k = stem_diff_other(&d->a, &d->b, i), low = 0, high = piles;
        if (k == STEM_NONE)
            continue;
        d->moved[k] = true;
        at[n] = k;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (at[top[middle]] < k)
                low = middle + 1;
            else
                high = middle;
        }
        back[n] = low ? top[low - 1] : STEM_NONE;
        top[low] = n++;
        piles = low == piles ? piles + 1 : piles;
    }
    for (uint32_t i = piles ? top[piles - 1] : STEM_NONE; i != STEM_NONE; i = back[i])
        d->moved[at[i]] = false;
}

void stem_diff_pair(struct stem_diff_pair *d, struct stem_arena *a)
{
    uint32_t n = d->a.v->n_ops + d->b.v->n_ops + 1;
    struct stem_strtab *keys = stem_strtab_new();
    number_ops(keys, &d->a, a);
    number_ops(keys, &d->b, a);
    stem_strtab_free(keys);
    index_ops(&d->a, n, a);
    index_ops(&d->b, n, a);
    find_moved(d, a);
}

/* ---- one op ---- */

static const char *code_of(const struct stem_diff_side *s, uint32_t op)
{
    const struct stem_plan_op *o = &s->v->ops[op];
    return o->work == STEM_WORK_LAUNCH   ? s->p->kernels[o->kernel].name
           : o->work == STEM_WORK_EXTERN ? s->p->externs[o->function].name
           : o->work == STEM_WORK_MATMUL ? "cuBLASLt"
                                         : "memset";
}

void stem_diff_op(const struct stem_diff_pair *d, uint32_t i, uint32_t k, struct stem_arena *m,
                  void (*say)(void *user, const char *phrase), void *user)
{
    const struct stem_plan_op *a = &d->a.v->ops[i], *b = &d->b.v->ops[k];
    const char *from = d->a.p->streams[a->stream], *to = d->b.p->streams[b->stream];
    if (strcmp(from, to))
        say(user, stem_arena_printf(m, "moved from stream %s to %s", from, to));
    if (a->segment != b->segment)
        say(user, "is in another segment");
    if (strcmp(a->kind, b->kind))
        say(user, stem_arena_printf(m, "is a %s, was a %s", b->kind, a->kind));
    if (strcmp(code_of(&d->a, i), code_of(&d->b, k)))
        say(user, stem_arena_printf(m, "runs %s, was %s", code_of(&d->b, k), code_of(&d->a, i)));
    if (memcmp(a->grid, b->grid, sizeof a->grid) || memcmp(a->block, b->block, sizeof a->block) || a->smem != b->smem)
        say(user, stem_arena_printf(
                      m, "launches %ux%ux%u blocks of %ux%ux%u with %u bytes, was %ux%ux%u of %ux%ux%u with %u",
                      b->grid[0], b->grid[1], b->grid[2], b->block[0], b->block[1], b->block[2], b->smem, a->grid[0],
                      a->grid[1], a->grid[2], a->block[0], a->block[1], a->block[2], a->smem));
    if (a->programmatic != b->programmatic)
        say(user, b->programmatic ? "is now launched programmatically" : "is no longer launched programmatically");
    if (a->bytes_read != b->bytes_read || a->bytes_written != b->bytes_written)
        say(user, stem_arena_printf(m, "reads %llu and writes %llu bytes, was %llu and %llu",
                                    (unsigned long long)b->bytes_read, (unsigned long long)b->bytes_written,
                                    (unsigned long long)a->bytes_read, (unsigned long long)a->bytes_written));
    if (a->flops != b->flops)
        say(user, stem_arena_printf(m, "takes %llu flops, was %llu", (unsigned long long)b->flops,
                                    (unsigned long long)a->flops));
}

/* ---- variants ---- */

uint32_t stem_diff_variant(const struct stem_plan *a, const struct stem_plan *b, uint32_t k)
{
    bool same = a->n_dims == b->n_dims;
    for (uint32_t i = 0; same && i < a->n_dims; i++)
        same = !strcmp(a->dims[i], b->dims[i]);
    return !same           ? STEM_NONE
           : a->n_dims     ? stem_plan_find_variant(b, a->variants[k].dim)
           : b->n_variants ? 0
                           : STEM_NONE;
}

const char *stem_diff_dims(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_arena *a)
{
    const char *text = "";
    for (uint32_t i = 0; i < p->n_dims; i++)
        text = stem_arena_printf(a, "%s%s%s=%lld", text, i ? ", " : "", p->dims[i], (long long)v->dim[i]);
    return text;
}
