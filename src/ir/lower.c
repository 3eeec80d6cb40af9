/* SPDX-License-Identifier: Apache-2.0
 *
 * The lowerings of a program's ops, each made once. A lowering depends on nothing but what stem_op_lower writes into its
 * key: layers have the same ops, and pdl, room, the table of costs and the emitter ask for each of them.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#define uthash_malloc(n) stem_xmalloc(n)
#include <uthash.h>

#include "ir/ir.h"

/* So many are kept: a program whose ops are all different has no use for them, and each takes some KiB. */
enum { MOST = 8192 };

struct entry {
    struct stem_lowering result;
    UT_hash_handle hh;
};

struct stem_lowerings {
    struct stem_arena *arena;
    struct entry *by_key;
    STEM_VEC(char) key; /* of the op that is asked for */
    uint32_t made;
};

struct stem_lowerings *stem_lowerings_new(void)
{
    struct stem_lowerings *m = stem_xmalloc(sizeof *m);
    memset(m, 0, sizeof *m);
    m->arena = stem_arena_new();
    return m;
}

static void forget(struct stem_lowerings *m)
{
    HASH_CLEAR(hh, m->by_key);
    stem_arena_free(m->arena);
}

void stem_lowerings_free(struct stem_lowerings *m)
{
    if (!m)
        return;
    forget(m);
    stem_vec_free(&m->key);
    free(m);
}

static void put(struct stem_lowerings *m, const void *data, size_t bytes)
{
    stem_vec_reserve(&m->key, m->key.len + (uint32_t)bytes);
    memcpy(m->key.at + m->key.len, data, bytes);
    m->key.len += (uint32_t)bytes;
}

static void put_number(struct stem_lowerings *m, uint64_t n)
{
    put(m, &n, sizeof n);
}

/* Which buffer it is in does not count, only whether it is there. */
static void put_tensor(struct stem_lowerings *m, const struct stem_tensor *t)
{
    put_number(m, (uint64_t)t->rank << 32 | t->dtype);
    if (t->rank == STEM_NONE)
        return;
    put_number(m, t->offset);
    put(m, t->dim, t->rank * sizeof *t->dim);
    put(m, t->stride, t->rank * sizeof *t->stride);
}

static void put_attr(struct stem_lowerings *m, const struct stem_attr *a)
{
    size_t len = a->text ? strlen(a->text) : SIZE_MAX;
    switch (a->kind) {
    case STEM_ATTR_INT: put(m, &a->i, sizeof a->i); break;
    case STEM_ATTR_FLOAT: put(m, &a->f, sizeof a->f); break;
    case STEM_ATTR_TEXT:
        put_number(m, len);
        put(m, a->text ? a->text : "", a->text ? len : 0);
        break;
    }
}

static void put_target(struct stem_lowerings *m, const struct stem_target *t)
{
    const double rates[] = {t->bandwidth, t->flops, t->launch_us, t->fork_us, t->early_us};
    put_number(m, (uint64_t)t->sm << 32 | t->n_sms);
    put(m, rates, sizeof rates);
}

static void make_key(struct stem_lowerings *m, const struct stem_concrete *c, const struct stem_target *t)
{
    m->key.len = 0;
    put(m, &c->def, sizeof c->def);
    put_target(m, t);
    put_number(m, (uint64_t)c->n_in << 32 | c->n_out);
    put_number(m, (uint64_t)c->constant << 1 | c->shares);
    for (uint32_t i = 0; i < c->n_in + c->n_out; i++)
        put_tensor(m, &c->operand[i]);
    for (uint32_t i = 0; i < c->n_attrs; i++)
        put_attr(m, &c->attrs[i]);
}

const struct stem_lowering *stem_op_lower(const struct stem_program *p, const struct stem_op *op, const struct stem_target *t)
{
    struct stem_lowerings *m = p->lowerings;
    struct stem_tensor tensor[2 * STEM_MAX_OPERANDS];
    struct stem_concrete c;
    struct entry *e;
    stem_op_concrete(p, op, tensor, &c);
    make_key(m, &c, t);
    unsigned hash = (unsigned)XXH3_64bits(m->key.at, m->key.len);
    HASH_FIND_BYHASHVALUE(hh, m->by_key, m->key.at, m->key.len, hash, e);
    if (e)
        return &e->result;
    if (HASH_COUNT(m->by_key) == MOST) {
        forget(m);
        m->arena = stem_arena_new();
    }
    e = STEM_NEW(m->arena, struct entry);
    e->result.number = m->made++;
    op->def->lower(&c, t, m->arena, &e->result.l);
    const char *key = stem_arena_dup(m->arena, m->key.at, m->key.len);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, m->by_key, key, m->key.len, hash, e);
    return &e->result;
}
