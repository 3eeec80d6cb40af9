/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule as text. Each line is an op in issue order: its number, stream, name, what it waits for on other
 * streams, and whether an event is recorded after it. Segments start with `segment N` and end with main's joins.
 *
 *     segment 0: record
 *     0 main x
 *     2 side z  waits 0
 *     3 main y  waits 2
 *     join 4
 */
#include "pass/graph.h"

struct waits {
    const struct stem_program *p;
    bool *recorded; /* by op */
    bool *start;    /* by segment */
    uint32_t next;
};

static struct waits waits_new(struct stem_arena *a, const struct stem_program *p)
{
    struct waits w = {p, STEM_NEW_ARRAY(a, bool, p->ops.len), STEM_NEW_ARRAY(a, bool, p->segments.len), 0};
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *x = &p->sched.waits.at[i];
        *(x->from.n == STEM_NONE ? &w.start[x->segment] : &w.recorded[x->from.n]) = true;
    }
    return w;
}

static void print_waits(struct waits *w, struct stem_op_id to, uint32_t segment, const char *word, struct stem_out *o)
{
    bool first = true;
    for (; w->next < w->p->sched.waits.len; w->next++) {
        const struct stem_wait *x = &w->p->sched.waits.at[w->next];
        if (x->to.n != to.n || x->segment != segment)
            break;
        stem_out_str(o, first ? word : ",");
        first = false;
        if (x->from.n == STEM_NONE)
            stem_out_str(o, " start");
        else
            stem_out_printf(o, " %u", x->from.n);
    }
}

static void print_join(struct waits *w, uint32_t segment, struct stem_out *o)
{
    size_t before = o->len;
    print_waits(w, STEM_NO_OP, segment, "join", o);
    if (o->len > before)
        stem_out_char(o, '\n');
}

static void print_order(struct waits *w, struct stem_out *o)
{
    const struct stem_program *p = w->p;
    uint32_t segment = STEM_NONE;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op_id id = p->sched.order.at[i];
        const struct stem_op *op = stem_op_at(p, id);
        if (op->segment != segment) {
            if (segment != STEM_NONE)
                print_join(w, segment, o);
            segment = op->segment;
            stem_out_printf(o, "segment %u%s\n", segment, w->start[segment] ? ": record" : "");
        }
        stem_out_printf(o, "%u %s %s", id.n, stem_sym_str(p->strings, p->streams.at[op->stream.n].name),
                        stem_op_label(p, id));
        print_waits(w, id, segment, "  waits", o);
        stem_out_str(o, op->programmatic ? "  early" : "");
        stem_out_str(o, w->recorded[id.n] ? "  record\n" : "\n");
    }
    if (segment != STEM_NONE)
        print_join(w, segment, o);
}

static void print_buffers(const struct stem_program *p, struct stem_out *o)
{
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        const struct stem_buffer *buffer = &p->buffers.at[b];
        if (buffer->kind != STEM_BUFFER_TEMP || p->sched.first_use.at[b].n == STEM_NONE)
            continue;
        stem_out_printf(o, "buffer %u %s: %llu bytes", b, stem_sym_str(p->strings, buffer->name),
                        (unsigned long long)buffer->bytes);
        if (p->state & STEM_FACT_MEMORY)
            stem_out_printf(o, " at %llu", (unsigned long long)buffer->offset);
        stem_out_printf(o, ", first %u, last", p->sched.first_use.at[b].n);
        for (uint32_t i = p->sched.last_use_begin.at[b]; i < p->sched.last_use_begin.at[b + 1]; i++)
            stem_out_printf(o, " %u", p->sched.last_use.at[i].n);
        if (p->sched.free_after.at[b].n == STEM_NONE)
            stem_out_str(o, ", freed at the end\n");
        else
            stem_out_printf(o, ", freed after %u\n", p->sched.free_after.at[b].n);
    }
}

static void print_deps(const struct stem_program *p, struct stem_out *o)
{
    static const char *const kind[] = {"data", "anti", "output", "after", "resource", "memory"};
    for (uint32_t i = 0; i < p->sched.deps.len; i++) {
        const struct stem_dep *d = &p->sched.deps.at[i];
        stem_out_printf(o, "%u -> %u %s\n", d->from.n, d->to.n, kind[d->kind]);
    }
}

void stem_schedule_print(const struct stem_program *p, struct stem_out *o)
{
    struct stem_arena *a = stem_arena_new();
    if (p->state & STEM_FACT_WAITS) {
        struct waits w = waits_new(a, p);
        print_order(&w, o);
        stem_out_printf(o, "events %u, bound %u\n", p->sched.n_events, p->sched.events_bound);
    } else if (p->state & STEM_FACT_DEPS) {
        print_deps(p, o);
    }
    if (p->state & STEM_FACT_LIFETIME)
        print_buffers(p, o);
    if (p->state & STEM_FACT_MEMORY)
        stem_out_printf(o, "slab %llu bytes, bound %llu\n", (unsigned long long)p->sched.slab_bytes,
                        (unsigned long long)p->sched.slab_bound);
    stem_arena_free(a);
}
