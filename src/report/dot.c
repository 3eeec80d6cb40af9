/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA graph as DOT: segments as clusters, colours are streams, programmatic edges dashed, continuation edges
 * dotted.
 */
#include "report/report.h"

static void put_quoted(const char *s, struct stem_out *o)
{
    stem_out_char(o, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            stem_out_char(o, '\\');
        stem_out_char(o, (unsigned char)*s < 32 ? ' ' : *s);
    }
    stem_out_char(o, '"');
}

static void put_node(const struct stem_plan *p, const struct stem_plan_variant *v, const struct stem_timeline *t,
                     uint32_t i, struct stem_arena *a, struct stem_out *o)
{
    static const char *const color[] = {"#cfe0f7", "#fbdcb8", "#cdeccd", "#f3cfe3",
                                        "#e3d8f5", "#f6eeb0", "#c9ecec", "#e0e0e0"};
    const struct stem_plan_op *op = &v->ops[i];
    stem_out_printf(o, "    n%u [label=", i);
    put_quoted(op->name, o);
    stem_out_printf(o, ", fillcolor=\"%s\"%s, tooltip=", color[op->stream % 8],
                    t->critical[i] ? ", penwidth=2.5" : "");
    put_quoted(stem_arena_printf(a, "op %u, %s, stream %s, %.2f us, line %u", i, op->kind, p->streams[op->stream],
                                 op->est_us, op->line),
               o);
    stem_out_str(o, "];\n");
}

static void put_variant(const struct stem_plan *p, uint32_t k, struct stem_out *o)
{
    const struct stem_plan_variant *v = &p->variants[k];
    struct stem_arena *a = stem_arena_new();
    struct stem_timeline t;
    stem_timeline_estimate(v, p->n_streams, a, &t);
    const char *name = p->name;
    for (uint32_t d = 0; d < p->n_dims; d++)
        name = stem_arena_printf(a, "%s %s=%lld", name, p->dims[d], (long long)v->dim[d]);
    stem_out_str(o, "digraph ");
    put_quoted(name, o);
    stem_out_str(
        o,
        " {\n  rankdir=TB;\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=11];\n");
    for (uint32_t i = 0; i < v->n_ops; i++) {
        bool opens = !i || v->ops[i].segment != v->ops[i - 1].segment;
        if (opens && i)
            stem_out_str(o, "  }\n");
        if (opens) {
            stem_out_printf(o, "  subgraph cluster_%u {\n    label=", v->ops[i].segment);
            put_quoted(v->n_segments > 1 ? stem_arena_printf(a, "%s, segment %u", name, v->ops[i].segment) : name, o);
            stem_out_str(o, ";\n");
        }
        put_node(p, v, &t, i, a, o);
    }
    stem_out_str(o, v->n_ops ? "  }\n" : "");
    for (uint32_t i = 0; i < v->n_edges; i++) {
        const struct stem_plan_edge *e = &v->edges[i];
        stem_out_printf(o, "  n%u -> n%u", e->from, e->to);
        if (e->kind == STEM_EDGE_PROGRAMMATIC)
            stem_out_str(o, " [style=dashed, label=\"programmatic\"]");
        else if (e->continuation)
            stem_out_str(o, " [style=dotted, label=\"continuation\"]");
        else if (v->ops[e->from].stream != v->ops[e->to].stream)
            stem_out_str(o, " [penwidth=2]");
        stem_out_str(o, ";\n");
    }
    stem_out_str(o, "}\n");
    stem_arena_free(a);
}

void stem_schedule_dot(const struct stem_plan *p, struct stem_out *o)
{
    for (uint32_t k = 0; k < p->n_variants; k++)
        put_variant(p, k, o);
}
