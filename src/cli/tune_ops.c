/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/tune.h"

enum { WINDOW = 64 }; /* ops: what is further apart in the order of one stream hardly ever overlaps */
#define ROTATE_BYTES ((uint64_t)192 << 20)  /* several times the L2 of an H200 */
#define LARGE_STATE ((uint64_t)1 << 20)     /* what a state must have to be read from memory and not from the L2 */
#define LARGE_COPY ((uint64_t)1 << 28)

static const struct stem_plan_variant *variant_of(const struct tune_op *o)
{
    return &o->program->exec.plan->variants[o->variant];
}

static bool allocate(struct tune *t, uint64_t bytes, uint64_t *at, struct stem_rt_error *err)
{
    if (stem_rt_alloc(t->gpu->rt, bytes, at, err) != STEM_OK)
        return false;
    stem_vec_push(&t->memory, *at);
    t->budget -= bytes < t->budget ? bytes : t->budget;
    return true;
}

/* ---- operands ---- */

struct collector {
    struct tune *t;
    struct tune_program *p;
    uint32_t variant;
    const bool *first; /* by op of the plan: the first of its kind, to be kept */
    struct stem_rt_error *err;
    bool failed;
};

/* Temporaries get a copy: later ops use their bytes again. What is updated in place does too, so that the program's
 * own state stays as it is. */
static bool keep_operand(struct collector *c, struct tune_op *o, const struct stem_plan_operand *x, uint64_t at,
                         uint64_t *kept)
{
    const struct stem_plan_buffer *b = &variant_of(o)->buffers[x->tensor.buffer];
    uint64_t base = at - x->tensor.offset;
    bool copy = b->kind == STEM_BUFFER_TEMP || (x->access == STEM_READ_WRITE && b->bytes <= LARGE_COPY);
    *kept = base;
    return !copy || (allocate(c->t, b->bytes ? b->bytes : 1, kept, c->err) &&
                     stem_rt_copy(c->t->gpu->rt, *kept, base, b->bytes, c->t->gpu->stream, c->err) == STEM_OK);
}

static bool keep(void *user, const struct stem_plan_op *op, uint32_t index, const uint64_t *operands)
{
    struct collector *c = user;
    if (!c->first[index])
        return true;
    struct tune_op *o = &c->t->ops.at[c->p->op[c->variant][index]];
    o->address = STEM_NEW_ARRAY(c->t->arena, uint64_t, op->n_operands + 1);
    for (uint32_t k = 0; k < op->n_operands && !c->failed; k++)
        if (op->operands[k].tensor.buffer != STEM_NONE)
            c->failed = !keep_operand(c, o, &op->operands[k], operands[k], &o->address[k]);
    c->failed = c->failed || stem_rt_synchronize(c->t->gpu->rt, c->t->gpu->stream, c->err) != STEM_OK;
    return !c->failed;
}

/* ---- distinct ops ---- */

static uint32_t find(const struct tune *t, const char *key)
{
    for (uint32_t i = 0; i < t->ops.len; i++)
        if (!strcmp(t->ops.at[i].key, key))
            return i;
    return STEM_NONE;
}

/* True if it is the first of its kind. */
static bool add_op(struct tune *t, struct tune_program *p, uint32_t variant, uint32_t index)
{
    const struct stem_program *program = p->compiled->programs[variant];
    const struct stem_op *op = stem_op_at(program, program->sched.order.at[index]);
    const struct stem_plan_op *plan_op = &p->exec.plan->variants[variant].ops[index];
    struct stem_arena *a = stem_arena_new();
    const char *key = stem_cost_key(program, op, a);
    bool can = plan_op->work == STEM_WORK_LAUNCH || plan_op->work == STEM_WORK_MATMUL;
    uint32_t at = can ? find(t, key) : STEM_NONE;
    bool first = can && at == STEM_NONE;
    if (first) {
        struct tune_op o = {.key = stem_arena_strdup(t->arena, key), .program = p, .variant = variant, .op = index, .n_sets = 1,
                            .stale = true, .entry = stem_costs_find(t->table, key)};
        o.kernel = stem_cost_kernel(program, op, &t->options->target);
        if (o.entry != STEM_NONE && t->table->entries.at[o.entry].kernel == o.kernel) {
            const struct stem_cost_entry *e = &t->table->entries.at[o.entry];
            o.us = e->early_us > 0 ? e->early_us : e->us;
            o.stale = false;
        }
        at = t->ops.len;
        stem_vec_push(&t->ops, o);
    }
    p->op[variant][index] = at;
    stem_arena_free(a);
    return first;
}

/* ---- pairs ---- */

static void add_pair(struct tune *t, const struct tune_program *p, uint32_t variant, uint32_t i, uint32_t j)
{
    if (p->op[variant][i] == STEM_NONE || p->op[variant][j] == STEM_NONE)
        return;
    if (p->op[variant][i] > p->op[variant][j]) {
        uint32_t x = i;
        i = j;
        j = x;
    }
    struct tune_pair new = {
        .a = p->op[variant][i], .b = p->op[variant][j], .program = p, .variant = variant, .op_a = i, .op_b = j, .count = 1};
    for (uint32_t k = 0; k < t->pairs.len; k++)
        if (t->pairs.at[k].a == new.a && t->pairs.at[k].b == new.b) {
            t->pairs.at[k].count++;
            return;
        }
    stem_vec_push(&t->pairs, new);
}

/* Ops near each other in issue order, in one segment, neither of which needs the other. */
static void add_pairs(struct tune *t, const struct tune_program *p, uint32_t variant)
{
    const struct stem_program *g = p->compiled->programs[variant];
    uint32_t n = g->sched.order.len, next = 0;
    struct stem_arena *a = stem_arena_new();
    uint32_t *position = STEM_NEW_ARRAY(a, uint32_t, g->ops.len + 1), *first = STEM_NEW_ARRAY(a, uint32_t, g->ops.len + 1);
    uint64_t *after = STEM_NEW_ARRAY(a, uint64_t, n + 1); /* bit d: the op d + 1 places before precedes this one */
    for (uint32_t i = 0; i < n; i++)
        position[g->sched.order.at[i].n] = i;
    for (uint32_t op = 0; op < g->ops.len; op++) {
        while (next < g->sched.deps.len && g->sched.deps.at[next].to.n < op)
            next++;
        first[op] = next;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t op = g->sched.order.at[i].n;
        for (uint32_t d = first[op]; d < g->sched.deps.len && g->sched.deps.at[d].to.n == op; d++) {
            uint32_t from = position[g->sched.deps.at[d].from.n], back = i - from;
            if (from >= i || back > WINDOW)
                continue;
            after[i] |= (uint64_t)1 << (back - 1);
            after[i] |= back < WINDOW ? after[from] << back : 0;
        }
        for (uint32_t back = 1; back <= WINDOW && back <= i; back++)
            if (!(after[i] >> (back - 1) & 1) && g->ops.at[op].segment == stem_op_at(g, g->sched.order.at[i - back])->segment)
                add_pair(t, p, variant, i - back, i);
    }
    stem_arena_free(a);
}

bool tune_collect(struct tune *t, struct tune_program *p, struct stem_rt_error *err)
{
    const struct stem_plan *plan = p->exec.plan;
    p->op = STEM_NEW_ARRAY(t->arena, uint32_t *, plan->n_variants);
    for (uint32_t v = 0; v < plan->n_variants; v++) {
        uint32_t n = plan->variants[v].n_ops;
        bool *first = STEM_NEW_ARRAY(t->arena, bool, n + 1);
        p->op[v] = STEM_NEW_ARRAY(t->arena, uint32_t, n + 1);
        for (uint32_t i = 0; i < n; i++)
            first[i] = add_op(t, p, v, i);
        add_pairs(t, p, v);
        struct collector c = {.t = t, .p = p, .variant = v, .first = first, .err = err};
        struct stem_launch_options o = {.delay_op = STEM_NONE, .after_op = keep, .user = &c};
        struct stem_rt_error launch;
        if (stem_exec_fill(p->exec.exec, v, t->gpu->seed, err) != STEM_OK ||
            !stem_gpu_fill_states(t->gpu->rt, &p->exec, t->gpu->seed, err))
            return false;
        if (stem_exec_launch_with(p->exec.exec, v, t->gpu->stream, &o, &launch) != STEM_OK) {
            if (!c.failed)
                *err = launch;
            return false;
        }
    }
    return true;
}

/* ---- weights that take turns ---- */

static bool rotates(const struct tune_op *o, uint32_t operand)
{
    const struct stem_plan_operand *x = &variant_of(o)->ops[o->op].operands[operand];
    if (x->tensor.buffer == STEM_NONE || x->access != STEM_READ)
        return false;
    const struct stem_plan_buffer *b = &variant_of(o)->buffers[x->tensor.buffer];
    bool number = x->tensor.dtype != STEM_I32 && x->tensor.dtype != STEM_I64;
    return b->kind == STEM_BUFFER_WEIGHT || (b->kind == STEM_BUFFER_STATE && number && b->bytes >= LARGE_STATE);
}

static uint64_t rotating_bytes(const struct tune_op *o)
{
    const struct stem_plan_op *op = &variant_of(o)->ops[o->op];
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < op->n_operands; k++)
        bytes += rotates(o, k) ? variant_of(o)->buffers[op->operands[k].tensor.buffer].bytes : 0;
    return bytes;
}

/* Another op of the same kind with weights of its own. */
static void borrow(const struct tune_op *o, uint32_t want, uint64_t (*sets)[STEM_MAX_OPERANDS * 2], uint32_t *n)
{
    const struct tune_program *p = o->program;
    const struct stem_plan_variant *v = variant_of(o);
    const struct stem_plan_op *op = &v->ops[o->op];
    for (uint32_t i = 0; i < v->n_ops && *n < want; i++) {
        if (i == o->op || p->op[o->variant][i] != p->op[o->variant][o->op])
            continue;
        bool fresh = true;
        for (uint32_t k = 0; k < op->n_operands; k++)
            if (rotates(o, k)) {
                sets[*n][k] = stem_exec_address(p->exec.exec, v->ops[i].operands[k].tensor.buffer);
                for (uint32_t s = 0; s < *n; s++)
                    fresh &= sets[s][k] != sets[*n][k];
            }
        *n += fresh;
    }
}

static bool copy_of(struct tune *t, const struct stem_plan_buffer *b, uint32_t number, uint64_t *at, struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < t->copies.len; i++)
        if (t->copies.at[i].number == number && !strcmp(t->copies.at[i].name, b->name)) {
            *at = t->copies.at[i].at;
            return true;
        }
    if (!allocate(t, b->bytes, at, err) || stem_rt_fill(t->gpu->rt, b, t->gpu->seed + number, *at, err) != STEM_OK)
        return false;
    stem_vec_push(&t->copies, (struct tune_copy){b->name, number, *at});
    return true;
}

bool tune_rotate(struct tune *t, struct tune_op *o, struct stem_rt_error *err)
{
    const struct stem_plan_op *op = &variant_of(o)->ops[o->op];
    uint64_t sets[TUNE_MAX_SETS][STEM_MAX_OPERANDS * 2], each = rotating_bytes(o), read = op->bytes_read;
    uint32_t want = (uint32_t)(1 + ROTATE_BYTES / (read > (uint64_t)4 << 20 ? read : (uint64_t)4 << 20)), n = 1;
    if (o->rotated || !each || op->n_operands > STEM_MAX_OPERANDS * 2)
        return true;
    o->rotated = true;
    want = want > TUNE_MAX_SETS ? TUNE_MAX_SETS : want;
    memcpy(sets[0], o->address, op->n_operands * sizeof **sets);
    borrow(o, want, sets, &n);
    for (uint32_t number = 1; n < want && each <= t->budget; number++, n++)
        for (uint32_t k = 0; k < op->n_operands; k++)
            if (rotates(o, k) && !copy_of(t, &variant_of(o)->buffers[op->operands[k].tensor.buffer], number, &sets[n][k], err))
                return false;
    uint64_t *address = STEM_NEW_ARRAY(t->arena, uint64_t, (size_t)n * op->n_operands + 1);
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t k = 0; k < op->n_operands; k++)
            address[s * op->n_operands + k] = rotates(o, k) ? sets[s][k] : o->address[k];
    o->address = address;
    o->n_sets = n;
    return true;
}

void tune_free(struct tune *t)
{
    for (uint32_t i = 0; i < t->memory.len; i++)
        stem_rt_free(t->gpu->rt, t->memory.at[i]);
    stem_vec_free(&t->memory);
    stem_vec_free(&t->copies);
    stem_vec_free(&t->ops);
    stem_vec_free(&t->pairs);
    stem_arena_free(t->arena);
}
