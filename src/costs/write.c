/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of costs as JSON. Entries are sorted by key and pairs by their entries, so that a table measured again
 * differs only in its numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "costs/costs.h"

static void put_string(struct stem_out *o, const char *s)
{
    stem_out_char(o, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            stem_out_char(o, '\\');
        if ((unsigned char)*s < ' ')
            stem_out_printf(o, "\\u%04x", (unsigned char)*s);
        else
            stem_out_char(o, *s);
    }
    stem_out_char(o, '"');
}

struct sorted {
    const char *key;
    uint32_t entry;
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct sorted *)a)->key, ((const struct sorted *)b)->key);
}

static int by_entries(const void *a, const void *b)
{
    const struct stem_cost_pair *x = a, *y = b;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static void put_entries(const struct stem_cost_gpu *g, const struct sorted *order, struct stem_out *o)
{
    for (uint32_t i = 0; i < g->entries.len; i++) {
        const struct stem_cost_entry *e = &g->entries.at[order[i].entry];
        stem_out_str(o, i ? ",\n {\"op\":" : "\n {\"op\":");
        put_string(o, e->key);
        stem_out_printf(o, ",\"kernel\":\"%016" PRIx64 "\",\"us\":%.3f", e->kernel, e->us);
        if (e->early_us >= 0.0005)
            stem_out_printf(o, ",\"early_us\":%.3f", e->early_us);
        stem_out_char(o, '}');
    }
}

static void put_pairs(const struct stem_cost_gpu *g, const uint32_t *place, struct stem_arena *a, struct stem_out *o)
{
    struct stem_cost_pair *pairs = STEM_NEW_ARRAY(a, struct stem_cost_pair, g->pairs.len + 1);
    for (uint32_t i = 0; i < g->pairs.len; i++) {
        const struct stem_cost_pair *p = &g->pairs.at[i];
        uint32_t x = place[p->a], y = place[p->b];
        pairs[i] = (struct stem_cost_pair){x < y ? x : y, x < y ? y : x, p->slowdown, p->fork_us};
    }
    qsort(pairs, g->pairs.len, sizeof *pairs, by_entries);
    for (uint32_t i = 0; i < g->pairs.len; i++)
        stem_out_printf(o, "%s [%u,%u,%.3f,%.3f]", i ? ",\n" : "\n", pairs[i].a, pairs[i].b, pairs[i].slowdown,
                        pairs[i].fork_us);
}

static void put_gpu(const struct stem_cost_gpu *g, struct stem_out *o)
{
    struct stem_arena *a = stem_arena_new();
    struct sorted *order = STEM_NEW_ARRAY(a, struct sorted, g->entries.len + 1);
    uint32_t *place = STEM_NEW_ARRAY(a, uint32_t, g->entries.len + 1);
    for (uint32_t i = 0; i < g->entries.len; i++)
        order[i] = (struct sorted){g->entries.at[i].key, i};
    qsort(order, g->entries.len, sizeof *order, by_key);
    for (uint32_t i = 0; i < g->entries.len; i++)
        place[order[i].entry] = i;
    stem_out_str(o, "{\"name\":");
    put_string(o, g->name);
    stem_out_printf(o, ",\"sm\":%u", g->sm);
    if (g->bandwidth > 0)
        stem_out_printf(o, ",\"bandwidth\":%.4e", g->bandwidth);
    stem_out_str(o, ",\"ops\":[");
    put_entries(g, order, o);
    stem_out_str(o, "],\"pairs\":[");
    put_pairs(g, place, a, o);
    stem_out_str(o, "]}");
    stem_arena_free(a);
}

void stem_costs_write(const struct stem_costs *c, struct stem_out *o)
{
    stem_out_printf(o, "{\"mainstem_costs\":%d,\"gpus\":[", STEM_COSTS_VERSION);
    for (uint32_t i = 0; i < c->gpus.len; i++) {
        stem_out_str(o, i ? ",\n" : "\n");
        put_gpu(c->gpus.at[i], o);
    }
    stem_out_str(o, "]}\n");
}
