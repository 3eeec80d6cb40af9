/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the table of costs. Members, kinds, ranges and indices are checked, and a message says where: the first fault
 * ends the reading.
 */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "costs/costs.h"

enum { MAX_GPUS = 256, MAX_ENTRIES = 1 << 20, MAX_KEY = 1 << 16 };
#define MOST_US 1e9

struct reader {
    struct stem_arena *arena;
    const char *error;
    struct stem_costs *costs;
};

static bool fault(struct reader *r, const char *place, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault(struct reader *r, const char *place, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = stem_arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    r->error = stem_arena_printf(r->arena, "%s%s%s", place, *place ? ": " : "", text);
    return false;
}

static bool members(struct reader *r, json_t *o, const char *place, const char *known)
{
    const char *name;
    json_t *value;
    if (!json_is_object(o))
        return fault(r, place, "an object is expected");
    json_object_foreach(o, name, value)
    {
        const char *at = strstr(known, name);
        size_t n = strlen(name);
        if (!n || !at || (at != known && at[-1] != ' ') || (at[n] && at[n] != ' '))
            return fault(r, place, "unknown member '%s'", name);
    }
    return true;
}

static const char *sub(struct reader *r, const char *place, const char *member)
{
    return stem_arena_printf(r->arena, "%s%s%s", place, *place ? "." : "", member);
}

static const char *item(struct reader *r, const char *place, size_t i)
{
    return stem_arena_printf(r->arena, "%s[%zu]", place, i);
}

static bool in_range(struct reader *r, json_t *v, const char *place, double low, double high, double *out)
{
    *out = json_number_value(v);
    if (!json_is_number(v))
        return fault(r, place, "a number is expected");
    if (!(*out >= low && *out <= high))
        return fault(r, place, "%g is not in %g..%g", *out, low, high);
    return true;
}

static bool whole(struct reader *r, json_t *v, const char *place, uint32_t high, uint32_t *out)
{
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || n > (json_int_t)high)
        return fault(r, place, "an integer from 0 to %u is expected", high);
    *out = (uint32_t)n;
    return true;
}

static const char *text(struct reader *r, json_t *v, const char *place)
{
    const char *s = json_string_value(v);
    if (!s || !*s || json_string_length(v) > MAX_KEY || strlen(s) != json_string_length(v)) {
        fault(r, place, "a text of 1 to %d bytes is expected", (int)MAX_KEY);
        return NULL;
    }
    return s;
}

static bool hash(struct reader *r, json_t *v, const char *place, uint64_t *out)
{
    const char *s = json_string_value(v);
    if (!s || strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16)
        return fault(r, place, "16 hexadecimal digits are expected");
    *out = strtoull(s, NULL, 16);
    return true;
}

static bool read_entry(struct reader *r, struct stem_cost_gpu *g, json_t *o, const char *place)
{
    struct stem_cost_entry e = {0};
    json_t *early = json_object_get(o, "early_us");
    if (!members(r, o, place, "op kernel us early_us") || !(e.key = text(r, json_object_get(o, "op"), sub(r, place, "op"))) ||
        !hash(r, json_object_get(o, "kernel"), sub(r, place, "kernel"), &e.kernel) ||
        !in_range(r, json_object_get(o, "us"), sub(r, place, "us"), 0, MOST_US, &e.us) ||
        (early && !in_range(r, early, sub(r, place, "early_us"), 0, MOST_US, &e.early_us)))
        return false;
    if (stem_costs_find(g, e.key) != STEM_NONE)
        return fault(r, sub(r, place, "op"), "'%s' is there twice", e.key);
    stem_costs_put(r->costs, g, e);
    return true;
}

static bool read_pair(struct reader *r, struct stem_cost_gpu *g, json_t *row, const char *place)
{
    struct stem_cost_pair p;
    uint32_t last = g->entries.len - 1;
    if (!json_is_array(row) || json_array_size(row) != 4)
        return fault(r, place, "[op, op, slowdown, microseconds of a fork] is expected");
    if (!g->entries.len)
        return fault(r, place, "there are no ops");
    if (!whole(r, json_array_get(row, 0), item(r, place, 0), last, &p.a) ||
        !whole(r, json_array_get(row, 1), item(r, place, 1), last, &p.b) ||
        !in_range(r, json_array_get(row, 2), item(r, place, 2), 1, 1e6, &p.slowdown) ||
        !in_range(r, json_array_get(row, 3), item(r, place, 3), -MOST_US, MOST_US, &p.fork_us))
        return false;
    if (stem_costs_find_pair(g, p.a, p.b))
        return fault(r, place, "the pair is there twice");
    stem_costs_put_pair(g, p);
    return true;
}

static bool list(struct reader *r, json_t *v, const char *place, size_t most)
{
    if (!json_is_array(v))
        return fault(r, place, "a list is expected");
    return json_array_size(v) <= most || fault(r, place, "more than %zu", most);
}

static bool read_gpu(struct reader *r, json_t *o, const char *place)
{
    const char *name;
    uint32_t sm = 0;
    json_t *ops = json_object_get(o, "ops"), *pairs = json_object_get(o, "pairs"),
           *bandwidth = json_object_get(o, "bandwidth");
    const char *in_ops = sub(r, place, "ops"), *in_pairs = sub(r, place, "pairs");
    if (!members(r, o, place, "name sm bandwidth ops pairs") ||
        !(name = text(r, json_object_get(o, "name"), sub(r, place, "name"))) ||
        !whole(r, json_object_get(o, "sm"), sub(r, place, "sm"), 999, &sm) || !list(r, ops, in_ops, MAX_ENTRIES) ||
        !list(r, pairs, in_pairs, MAX_ENTRIES))
        return false;
    if (stem_costs_find_gpu(r->costs, name, 0))
        return fault(r, sub(r, place, "name"), "'%s' is there twice", name);
    struct stem_cost_gpu *g = stem_costs_gpu(r->costs, name, sm);
    if (bandwidth && !in_range(r, bandwidth, sub(r, place, "bandwidth"), 1, 1e18, &g->bandwidth))
        return false;
    for (size_t i = 0; i < json_array_size(ops); i++)
        if (!read_entry(r, g, json_array_get(ops, i), item(r, in_ops, i)))
            return false;
    for (size_t i = 0; i < json_array_size(pairs); i++)
        if (!read_pair(r, g, json_array_get(pairs, i), item(r, in_pairs, i)))
            return false;
    return true;
}

static bool read_all(struct reader *r, json_t *root)
{
    json_t *gpus = json_object_get(root, "gpus"), *version = json_object_get(root, "mainstem_costs");
    if (!json_is_object(root) || !version)
        return fault(r, "", "this is no table of costs: there is no member 'mainstem_costs'");
    if (!json_is_integer(version) || json_integer_value(version) != STEM_COSTS_VERSION)
        return fault(r, "mainstem_costs", "the table is of another version, this program reads %d: measure again",
                     STEM_COSTS_VERSION);
    if (!members(r, root, "", "mainstem_costs gpus") || !list(r, gpus, "gpus", MAX_GPUS))
        return false;
    for (size_t i = 0; i < json_array_size(gpus); i++)
        if (!read_gpu(r, json_array_get(gpus, i), item(r, "gpus", i)))
            return false;
    return true;
}

struct stem_costs *stem_costs_read(const char *text, size_t len, struct stem_arena *a, const char **error)
{
    json_error_t e;
    struct reader r = {.arena = a};
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    *error = NULL;
    if (!root) {
        *error = stem_arena_printf(a, "line %d, column %d: %s", e.line, e.column, e.text);
        return NULL;
    }
    r.costs = stem_costs_new();
    if (!read_all(&r, root)) {
        *error = r.error;
        stem_costs_free(r.costs);
        r.costs = NULL;
    }
    json_decref(root);
    return r.costs;
}
