/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cublaslt.h"

void stem_profiles_new(struct stem_profiles *p, const struct stem_plan *plan)
{
    p->arena = stem_arena_new();
    p->at = STEM_NEW_ARRAY(p->arena, struct stem_profile, plan->n_variants);
}

void stem_profiles_free(struct stem_profiles *p)
{
    if (p->arena)
        stem_arena_free(p->arena);
    *p = (struct stem_profiles){0};
}

static struct stem_event event_of(const struct stem_audit_record *r, uint64_t begin)
{
    struct stem_event e = {.name = r->name,
                           .kind = r->kind == STEM_AUDIT_KERNEL   ? STEM_EVENT_KERNEL
                                   : r->kind == STEM_AUDIT_MEMSET ? STEM_EVENT_MEMSET
                                                                  : STEM_EVENT_COPY,
                           .stream = r->stream,
                           .graph = r->graph,
                           .correlation = r->correlation,
                           .node = r->graph_node,
                           .bytes = r->bytes,
                           .start = (double)(r->start_ns - begin) / 1000,
                           .end = (double)(r->end_ns - begin) / 1000};
    memcpy(e.grid, r->grid, sizeof e.grid);
    memcpy(e.block, r->block, sizeof e.block);
    return e;
}

/* One replay, alone between two flushes. */
static bool replay_once(struct stem_gpu *g, struct stem_replay *p, struct stem_arena *a, struct stem_event **events,
                        uint32_t *n, struct stem_rt_error *err)
{
    const struct stem_audit_record *records;
    if (stem_audit_take(g->audit, &records, n, err) != STEM_OK || !stem_replay(g, p, err) ||
        stem_rt_synchronize(g->rt, g->stream, err) != STEM_OK ||
        stem_audit_take(g->audit, &records, n, err) != STEM_OK)
        return false;
    *events = STEM_NEW_ARRAY(a, struct stem_event, *n + 1);
    for (uint32_t i = 0; i < *n; i++)
        (*events)[i] = event_of(&records[i], records[0].start_ns);
    return true;
}

/* ---- the table ---- */

struct row {
    const char *kind;
    uint32_t count;
    double us, bytes;
};

static int by_time(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    return a->us < b->us || a->us > b->us ? (a->us < b->us ? 1 : -1) : strcmp(a->kind, b->kind);
}

static uint32_t sum_kinds(const struct stem_plan_variant *v, const struct stem_timeline *t, struct row *rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_ops; i++) {
        uint32_t k = 0;
        while (k < n && strcmp(rows[k].kind, v->ops[i].kind))
            k++;
        if (k == n)
            rows[n++] = (struct row){.kind = v->ops[i].kind};
        rows[k].count++;
        rows[k].us += t->end[i] - t->start[i];
        rows[k].bytes += (double)(v->ops[i].bytes_read + v->ops[i].bytes_written);
    }
    if (n)
        qsort(rows, n, sizeof *rows, by_time);
    return n;
}

static bool programmatic(const struct stem_plan_variant *v)
{
    for (uint32_t i = 0; i < v->n_ops; i++)
        if (v->ops[i].programmatic)
            return true;
    return false;
}

static void print_table(const struct stem_plan *p, uint32_t variant, const struct stem_profile *f)
{
    const struct stem_plan_variant *v = &p->variants[variant];
    struct stem_arena *a = stem_arena_new();
    struct row *rows = STEM_NEW_ARRAY(a, struct row, v->n_ops + 1);
    uint32_t n = sum_kinds(v, &f->when, rows);
    double each = stem_us_per_byte(v), sum = 0, length = f->when.length > 0 ? f->when.length : 1;
    for (uint32_t i = 0; i < n; i++)
        sum += rows[i].us;
    printf("  profile        %.1f us from the first start to the last end, %u %s%s; ops take %.1f us, %.2f at a time\n",
           f->when.length, f->n_lanes, f->graph ? "lane" : "stream", f->n_lanes == 1 ? "" : "s", sum, sum / length);
    printf("  %-28s %6s %11s %7s %13s\n", "op", "count", "time", "share", "of the bound");
    for (uint32_t i = 0; i < n; i++)
        printf("  %-28.28s %6u %8.1f us %5.1f %% %11.1f %%\n", rows[i].kind, rows[i].count, rows[i].us,
               100 * rows[i].us / (sum > 0 ? sum : 1), rows[i].us > 0 ? 100 * rows[i].bytes * each / rows[i].us : 0);
    printf("  %-28s %6u %8.1f us %5.1f %% %11.1f %%\n", "all, as they overlap", v->n_ops, f->when.length, 100.0,
           100 * v->floor_us / length);
    if (programmatic(v))
        printf("  (ops that are launched early wait within their time, which overlaps that of others; --pdl=off measures them "
               "apart)\n");
    printf("  records        %s\n", stem_profile_proof(f, v, a));
    stem_arena_free(a);
}

/* ---- measuring ---- */

struct taken {
    double length;
    struct stem_event *events;
    uint32_t n;
};

static int by_length(const void *x, const void *y)
{
    const struct taken *a = x, *b = y;
    return (a->length > b->length) - (a->length < b->length);
}

int stem_profile_replays(struct stem_gpu *g, struct stem_replay *p, uint32_t times, struct stem_profiles *all)
{
    const struct stem_plan *plan = p->e->plan;
    struct stem_rt_error err;
    const char *why = "";
    struct taken *taken = STEM_NEW_ARRAY(all->arena, struct taken, times + 1);
    for (uint32_t i = 0; i < times; i++) {
        struct taken *t = &taken[i];
        if (!replay_once(g, p, all->arena, &t->events, &t->n, &err))
            return stem_cli_rt_error(&err);
        for (uint32_t k = 0; k < t->n; k++)
            t->length = t->events[k].end > t->length ? t->events[k].end : t->length;
    }
    if (stem_audit_dropped(g->audit)) {
        stem_cli_error("CUPTI lost %u records", stem_audit_dropped(g->audit));
        return STEM_EXIT_WORLD;
    }
    qsort(taken, times, sizeof *taken, by_length);
    const struct taken *middle = &taken[times / 2];
    struct stem_profile *f = &all->at[p->variant];
    const struct stem_plan_variant *v = &plan->variants[p->variant];
    uint32_t *kernels = STEM_NEW_ARRAY(all->arena, uint32_t, v->n_ops + 1);
    for (uint32_t i = 0; i < v->n_ops; i++)
        kernels[i] = stem_exec_library_kernels(p->e->exec, p->variant, i);
    if (!stem_profile_map(plan, v, middle->events, middle->n, kernels, all->arena, f, &why)) {
        stem_cli_error("CUPTI's records are not those of the plan: %s", why);
        return STEM_EXIT_WORLD;
    }
    print_table(plan, p->variant, f);
    return STEM_EXIT_OK;
}

int stem_profiles_write(const struct stem_profiles *all, const struct stem_gpu *g, const struct stem_source *source,
                        enum stem_run_by by, const char *path)
{
    static const char *const way[] = {"own graph by capture", "own graph node by node",
                                      "recorded into a caller's capture", "eager"};
    const struct stem_plan *plan = g->many.plan;
    const struct stem_trace t = {plan, all->at, source, g->info.name, way[by]};
    struct stem_out o = {0};
    if (!path)
        path = stem_arena_printf(all->arena, "%s.profile.json", plan->name);
    stem_profile_trace(&t, &o);
    bool fine = stem_cli_write(path, stem_out_text(&o), o.len);
    if (fine)
        printf("%s: %s; Perfetto and chrome://tracing open it, and mainstem report --trace=FILE\n", path,
               stem_cli_bytes(o.len));
    stem_out_free(&o);
    return fine ? STEM_EXIT_OK : STEM_EXIT_WORLD;
}
