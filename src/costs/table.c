/* SPDX-License-Identifier: Apache-2.0
 *
 * The table itself: entries by key, pairs by their entries.
 */
#include <string.h>
#define uthash_malloc(n) stem_xmalloc(n)
#include <uthash.h>

#include "costs/costs.h"

struct by_key {
    const char *key;
    uint32_t entry;
    UT_hash_handle hh;
};

struct by_pair {
    uint64_t key;
    uint32_t pair;
    UT_hash_handle hh;
};

struct stem_cost_index {
    struct by_key *keys;
    struct by_pair *pairs;
};

static uint64_t pair_key(uint32_t a, uint32_t b)
{
    return a <= b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

static void forget_pairs(struct stem_cost_gpu *g)
{
    struct by_pair *p, *tmp;
    HASH_ITER(hh, g->index->pairs, p, tmp)
    {
        HASH_DEL(g->index->pairs, p);
        free(p);
    }
}

static void index_pair(struct stem_cost_gpu *g, uint32_t i)
{
    struct by_pair *p = stem_xmalloc(sizeof *p);
    *p = (struct by_pair){.key = pair_key(g->pairs.at[i].a, g->pairs.at[i].b), .pair = i};
    HASH_ADD(hh, g->index->pairs, key, sizeof p->key, p);
}

struct stem_costs *stem_costs_new(void)
{
    struct stem_costs *c = stem_xmalloc(sizeof *c);
    *c = (struct stem_costs){.arena = stem_arena_new()};
    return c;
}

void stem_costs_free(struct stem_costs *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->gpus.len; i++) {
        struct stem_cost_gpu *g = c->gpus.at[i];
        struct by_key *k, *tmp;
        HASH_ITER(hh, g->index->keys, k, tmp)
        {
            HASH_DEL(g->index->keys, k);
            free(k);
        }
        forget_pairs(g);
        free(g->index);
        stem_vec_free(&g->entries);
        stem_vec_free(&g->pairs);
        free(g);
    }
    stem_vec_free(&c->gpus);
    stem_arena_free(c->arena);
    free(c);
}

const struct stem_cost_gpu *stem_costs_find_gpu(const struct stem_costs *c, const char *name, uint32_t sm)
{
    for (uint32_t i = 0; i < c->gpus.len; i++)
        if (name ? !strcmp(c->gpus.at[i]->name, name) : c->gpus.at[i]->sm == sm)
            return c->gpus.at[i];
    return NULL;
}

struct stem_cost_gpu *stem_costs_gpu(struct stem_costs *c, const char *name, uint32_t sm)
{
    for (uint32_t i = 0; i < c->gpus.len; i++)
        if (!strcmp(c->gpus.at[i]->name, name))
            return c->gpus.at[i];
    struct stem_cost_gpu *g = stem_xmalloc(sizeof *g);
    *g = (struct stem_cost_gpu){.name = stem_arena_strdup(c->arena, name), .sm = sm};
    g->index = stem_xmalloc(sizeof *g->index);
    *g->index = (struct stem_cost_index){0};
    stem_vec_push(&c->gpus, g);
    return g;
}

uint32_t stem_costs_find(const struct stem_cost_gpu *g, const char *key)
{
    struct by_key *k;
    HASH_FIND_STR(g->index->keys, key, k);
    return k ? k->entry : STEM_NONE;
}

const struct stem_cost_pair *stem_costs_find_pair(const struct stem_cost_gpu *g, uint32_t a, uint32_t b)
{
    uint64_t key = pair_key(a, b);
    struct by_pair *p;
    HASH_FIND(hh, g->index->pairs, &key, sizeof key, p);
    return p ? &g->pairs.at[p->pair] : NULL;
}

static void drop_pairs_of(struct stem_cost_gpu *g, uint32_t entry)
{
    uint32_t kept = 0;
    forget_pairs(g);
    for (uint32_t i = 0; i < g->pairs.len; i++)
        if (g->pairs.at[i].a != entry && g->pairs.at[i].b != entry)
            g->pairs.at[kept++] = g->pairs.at[i];
    g->pairs.len = kept;
    for (uint32_t i = 0; i < kept; i++)
        index_pair(g, i);
}

uint32_t stem_costs_put(struct stem_costs *c, struct stem_cost_gpu *g, struct stem_cost_entry e)
{
    uint32_t at = stem_costs_find(g, e.key);
    if (at != STEM_NONE) {
        if (g->entries.at[at].kernel != e.kernel)
            drop_pairs_of(g, at);
        e.key = g->entries.at[at].key;
        g->entries.at[at] = e;
        return at;
    }
    struct by_key *k = stem_xmalloc(sizeof *k);
    e.key = stem_arena_strdup(c->arena, e.key);
    *k = (struct by_key){.key = e.key, .entry = g->entries.len};
    stem_vec_push(&g->entries, e);
    HASH_ADD_KEYPTR(hh, g->index->keys, k->key, strlen(k->key), k);
    return k->entry;
}

void stem_costs_put_pair(struct stem_cost_gpu *g, struct stem_cost_pair p)
{
    if (p.a > p.b) {
        uint32_t a = p.a;
        p.a = p.b;
        p.b = a;
    }
    const struct stem_cost_pair *old = stem_costs_find_pair(g, p.a, p.b);
    if (old) {
        g->pairs.at[old - g->pairs.at] = p;
        return;
    }
    stem_vec_push(&g->pairs, p);
    index_pair(g, g->pairs.len - 1);
}
