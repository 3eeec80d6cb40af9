/* SPDX-License-Identifier: Apache-2.0
 *
 * --explain-streams: each fork that the compiler thought about, what it gains and what it costs. Layers have the same
 * ones: they are one line with a count.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cli/cli.h"
#include "report/report.h"

struct row {
    const char *text;
    uint32_t count;
    bool taken;
};

static const char *label(const struct stem_program *p, struct stem_op_id id, struct stem_arena *a)
{
    const char *name = stem_sym_str(p->strings, stem_op_at(p, id)->name);
    return stem_name_pattern(name && *name ? name : "?", a);
}

static const char *text_of(const struct stem_program *p, const struct stem_fork *f, struct stem_arena *a)
{
    const char *many = f->n_ops > 1 ? "s" : "", *verdict = "stays on main";
    if (f->stream.n)
        verdict = stem_arena_printf(a, f->pinned ? "is pinned to '%s'" : "forks to '%s'", stem_sym_str(p->strings, p->streams.at[f->stream.n].name));
    if (f->beside.n == STEM_NONE)
        return stem_arena_printf(a, "'%s' (%u op%s, %.1f us) %s: nothing runs beside it", label(p, f->first, a), f->n_ops, many, f->us,
                                 verdict);
    return stem_arena_printf(a, "'%s' (%u op%s, %.1f us) %s: beside '%s' (%.1f us) it saves %.1f us, a fork costs %.1f us (%s)",
                             label(p, f->first, a), f->n_ops, many, f->us, verdict, label(p, f->beside, a), f->beside_us,
                             f->gain_us > 0 ? f->gain_us : 0.0, f->price_us, f->measured ? "measured" : "by the model");
}

static bool pinned(const struct stem_program *p)
{
    for (uint32_t i = 0; i < p->ops.len; i++)
        if (!p->ops.at[i].dead && p->ops.at[i].pin.n != STEM_NONE)
            return true;
    return false;
}

static uint32_t streams_used(const struct stem_program *p)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->streams.len; s++) {
        bool used = false;
        for (uint32_t i = 0; i < p->ops.len && !used; i++)
            used = !p->ops.at[i].dead && p->ops.at[i].stream.n == s;
        n += used;
    }
    return n;
}

static void print_head(const struct stem_program *p, const struct stem_options *o)
{
    uint32_t ops = 0, known = 0, streams = streams_used(p);
    for (uint32_t i = 0; i < p->ops.len; i++) {
        ops += !p->ops.at[i].dead;
        known += !p->ops.at[i].dead && p->ops.at[i].measured;
    }
    printf("%s", stem_sym_str(p->strings, p->name));
    for (uint32_t i = 0; i < p->dim_names.len; i++)
        printf(", %s = %" PRId64, stem_sym_str(p->strings, p->dim_names.at[i]), p->dim_values.at[i]);
    printf(": %u stream%s, ", streams, streams == 1 ? "" : "s");
    if (p->sched.schedule_us > 0)
        printf("estimated %.1f us (its ops one after the other %.1f us), ", p->sched.schedule_us, p->sched.total_us);
    printf("%u of %u ops measured\n", known, ops);
    if (o->one_stream)
        puts("  everything is on one stream, as --one-stream asks");
    else if (pinned(p) && !o->ignore_pins)
        puts("  the file pins ops to streams; --streams=auto shows what the compiler would choose");
    else if (o->max_streams < 2)
        puts("  one stream is all that --max-streams allows");
    else if (!p->sched.forks.len)
        puts("  nothing can run beside the critical path");
}

static void print_program(const struct stem_program *p, const struct stem_options *o)
{
    struct stem_arena *a = stem_arena_new();
    STEM_VEC(struct row) rows = {0};
    print_head(p, o);
    for (uint32_t i = 0; i < p->sched.forks.len; i++) {
        const struct stem_fork *f = &p->sched.forks.at[i];
        const char *text = text_of(p, f, a);
        uint32_t k = 0;
        while (k < rows.len && strcmp(rows.at[k].text, text))
            k++;
        if (k == rows.len)
            stem_vec_push(&rows, (struct row){text, 0, f->stream.n != 0});
        rows.at[k].count++;
    }
    for (int taken = 1; taken >= 0; taken--)
        for (uint32_t k = 0; k < rows.len; k++)
            if (rows.at[k].taken == taken)
                printf("  %4u x %s\n", rows.at[k].count, rows.at[k].text);
    stem_vec_free(&rows);
    stem_arena_free(a);
}

void stem_cli_explain_streams(const struct stem_compiled *c, const struct stem_options *o)
{
    for (uint32_t i = 0; i < c->n_programs; i++)
        print_program(c->programs[i], o);
}
