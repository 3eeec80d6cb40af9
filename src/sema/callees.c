/* SPDX-License-Identifier: Apache-2.0
 *
 * Who calls whom, without recursion from layer to layer: bodies are checked callees first, and how deep calls nest is
 * known before anything is expanded.
 */
#include "sema/callees.h"

struct edge {
    uint32_t to;
    uint32_t depth; /* of nesting at the call */
    struct stem_span span;
};

struct walk {
    struct stem_module *m;
    STEM_VEC(struct edge) edges; /* grouped by caller */
    STEM_VEC(uint32_t) begin;    /* callables + 1 entries */
    STEM_VEC(uint32_t) next;     /* per callable: edge to look at next */
};

static void expr(struct walk *w, const struct stem_x *x, uint32_t depth)
{
    for (; x; x = x->next) {
        if (x->kind == STEM_X_CALL) {
            struct stem_global g = stem_global_find(w->m, x->id.name);
            if (g.kind == STEM_G_CALLABLE)
                stem_vec_push(&w->edges, (struct edge){g.index, depth, x->id.span});
            for (const struct stem_arg *a = x->args; a; a = a->next)
                expr(w, a->value, depth + 1);
        }
        if (x->a)
            expr(w, x->a, depth + 1);
        if (x->b)
            expr(w, x->b, depth + 1);
    }
}

static void add_stream(struct stem_module *m, struct stem_ident id)
{
    if (!id.name.n)
        return;
    for (uint32_t i = 0; i < m->streams.len; i++)
        if (stem_sym_eq(m->streams.at[i].name, id.name))
            return;
    if (m->streams.len == STEM_MAX_STREAMS) {
        if (!m->many_streams)
            stem_error(m->diags, STEM_E_TOO_MANY_STREAMS, id.span, "more than %d streams", STEM_MAX_STREAMS);
        m->many_streams = true;
        return;
    }
    stem_vec_push(&m->streams, (struct stem_stream_decl){.name = id.name});
}

static void stmts(struct walk *w, const struct stem_stmt *s, uint32_t depth)
{
    for (; s; s = s->next) {
        add_stream(w->m, s->mods.on);
        if (s->expr)
            expr(w, s->expr, depth + 1);
        stmts(w, s->body, depth + 1);
        stmts(w, s->other, depth + 1);
    }
}

static void visit(struct walk *w, uint32_t root, void (*body)(struct stem_module *m, uint32_t callable))
{
    struct stem_module *m = w->m;
    STEM_VEC(uint32_t) stack = {0};
    stem_vec_push(&stack, root);
    m->callables.at[root].state = STEM_DOING;
    while (stack.len) {
        uint32_t f = stem_vec_last(&stack);
        if (w->next.at[f] < w->begin.at[f + 1]) {
            struct edge e = w->edges.at[w->next.at[f]++];
            struct stem_callable *to = &m->callables.at[e.to];
            if (to->state == STEM_DOING) {
                stem_error(m->diags, STEM_E_RECURSION, e.span, "'%s' is called from within itself",
                           stem_name(m, to->item->id.name));
                stem_diag_label(m->diags, to->item->id.span, "defined here");
            } else if (to->state == STEM_TODO) {
                to->state = STEM_DOING;
                stem_vec_push(&stack, e.to);
            }
            continue;
        }
        struct stem_callable *own = &m->callables.at[f];
        struct stem_span deepest = own->item->id.span;
        for (uint32_t i = w->begin.at[f]; i < w->begin.at[f + 1]; i++) {
            struct edge e = w->edges.at[i];
            uint32_t depth = e.depth + m->callables.at[e.to].depth;
            if (depth > own->depth) {
                own->depth = depth;
                deepest = e.span;
            }
        }
        if (own->depth > STEM_MAX_CALL_DEPTH) {
            stem_error(m->diags, STEM_E_TOO_MANY_CALLS, deepest,
                       "calls and blocks nest %u deep here, with what is called", own->depth);
            own->depth = 0; /* once is enough */
        }
        if (own->item->body || own->item->kind == STEM_I_LAYER || own->item->kind == STEM_I_MODEL)
            body(m, f);
        m->callables.at[f].state = STEM_DONE;
        stack.len--;
    }
    stem_vec_free(&stack);
}

void stem_visit_callees_first(struct stem_module *m, void (*body)(struct stem_module *m, uint32_t callable))
{
    struct walk w = {.m = m};
    for (uint32_t i = 0; i < m->callables.len; i++) {
        stem_vec_push(&w.begin, w.edges.len);
        stem_vec_push(&w.next, w.edges.len);
        stmts(&w, m->callables.at[i].item->body, 0);
    }
    stem_vec_push(&w.begin, w.edges.len);
    for (uint32_t i = 0; i < m->callables.len; i++)
        if (m->callables.at[i].state == STEM_TODO)
            visit(&w, i, body);
    stem_vec_free(&w.edges);
    stem_vec_free(&w.begin);
    stem_vec_free(&w.next);
}
