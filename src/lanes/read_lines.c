/* SPDX-License-Identifier: Apache-2.0
 *
 * The measured-format text lines: one graph a line. A faulty line is reported once, at its first fault, and left out.
 */
#include "lanes/read.h"

#include <string.h>

#include "base/vec.h"
#include "lanes/lanes_internal.h"

struct reader {
    const struct stem_source *s;
    struct stem_arena *a;
    struct stem_diags *q;
    uint32_t at, end; /* in the present line */
    uint32_t *within; /* of the present graph; NULL: no node is in another */
};

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (r->s->text[r->at] == ' ' || r->s->text[r->at] == '\t' || r->s->text[r->at] == '\r'))
        r->at++;
}

static struct stem_span word(struct reader *r)
{
    skip_blanks(r);
    struct stem_span w = {r->at, r->at};
    while (w.end < r->end && !strchr(" \t\r|", r->s->text[w.end]))
        w.end++;
    r->at = w.end;
    return w;
}

static bool at_bar(struct reader *r)
{
    skip_blanks(r);
    return r->at < r->end && r->s->text[r->at] == '|';
}

/* A decimal number that takes up to `end` or stops before another character; false if there is none, or above max. */
static bool number(const char *text, uint32_t *at, uint32_t end, uint32_t max, uint32_t *out)
{
    uint64_t v = 0;
    uint32_t begin = *at;
    while (*at < end && text[*at] >= '0' && text[*at] <= '9') {
        v = v * 10 + (uint64_t)(text[(*at)++] - '0');
        if (v > max)
            return false;
    }
    *out = (uint32_t)v;
    return *at > begin;
}

static struct stem_span here(const struct reader *r)
{
    return (struct stem_span){r->at, r->at < r->end ? r->at + 1 : r->at};
}

static bool read_header(struct reader *r, struct stem_lane_case *c)
{
    struct stem_span label = word(r), count = word(r);
    uint32_t at = count.begin;
    if (label.begin == label.end || !number(r->s->text, &at, count.end, STEM_LANE_MAX_NODES, &c->graph.n) ||
        at != count.end) {
        stem_error(r->q, STEM_E_LANE_LINE, count.begin < count.end ? count : here(r),
                   "a line begins with a label and the number of nodes (at most %u)", STEM_LANE_MAX_NODES);
        return false;
    }
    c->label = stem_arena_strndup(r->a, r->s->text + label.begin, label.end - label.begin);
    struct stem_span kinds = word(r);
    if (kinds.begin == kinds.end)
        return true;
    if (kinds.end - kinds.begin != c->graph.n) {
        stem_error(r->q, STEM_E_LANE_LINE, kinds, "%u kinds for %u nodes", kinds.end - kinds.begin, c->graph.n);
        return false;
    }
    uint8_t *kind = STEM_NEW_ARRAY(r->a, uint8_t, c->graph.n);
    for (uint32_t v = 0; v < c->graph.n; v++) {
        const char *k = strchr(STEM_LANE_KINDS, r->s->text[kinds.begin + v]);
        if (!k || !*k) {
            stem_error(r->q, STEM_E_LANE_LINE, (struct stem_span){kinds.begin + v, kinds.begin + v + 1},
                       "kinds of nodes are letters of '%s'", STEM_LANE_KINDS);
            return false;
        }
        kind[v] = (uint8_t)(k - STEM_LANE_KINDS);
    }
    c->graph.kind = kind;
    return true;
}

/* `v@w`: node v is in node w. */
static bool read_within(struct reader *r, struct stem_lane_case *c, struct stem_span word, uint32_t v, uint32_t w)
{
    uint32_t n = c->graph.n;
    const uint8_t *kind = c->graph.kind;
    if (v >= n || w >= n) {
        stem_error(r->q, STEM_E_LANE_NO_NODE, word, "node %u does not exist: the graph has %u nodes", v >= n ? v : w,
                   n);
        return false;
    }
    if (w >= v || !kind || (kind[w] != STEM_LANE_CHILD && kind[w] != STEM_LANE_CONDITIONAL)) {
        stem_error(r->q, STEM_E_LANE_LINE, word,
                   "node %u cannot be in node %u: that has to be a child graph (g) or a conditional node (i) with a "
                   "lower number",
                   v, w);
        return false;
    }
    if (!r->within) {
        r->within = STEM_NEW_ARRAY(r->a, uint32_t, n);
        for (uint32_t u = 0; u < n; u++)
            r->within[u] = STEM_NO_NODE;
        c->graph.within = r->within;
    }
    r->within[v] = w;
    return true;
}

/* Edges join nodes that are in the same one; which is known when all have been read. */
static bool siblings(struct reader *r, const struct stem_lane_case *c, struct stem_span all)
{
    for (uint32_t i = 0; c->graph.within && i < c->graph.n_edges; i++) {
        struct stem_lane_edge e = c->graph.edges[i];
        if (c->graph.within[e.from] == c->graph.within[e.to])
            continue;
        stem_error(r->q, STEM_E_LANE_LINE, all, "nodes %u and %u are not in the same graph: no edge can join them",
                   e.from, e.to);
        return false;
    }
    return true;
}

static bool read_edges(struct reader *r, struct stem_lane_case *c)
{
    struct stem_span all = {r->at, r->at};
    STEM_VEC(struct stem_lane_edge) edges = {0};
    bool good = true;
    for (struct stem_span w = word(r); good && w.begin < w.end; w = word(r)) {
        struct stem_lane_edge e = {0};
        uint32_t at = w.begin;
        good = number(r->s->text, &at, w.end, UINT32_MAX - 1, &e.from) && at < w.end;
        char how = good ? r->s->text[at++] : 0;
        good = good && (how == '>' || how == '@') && number(r->s->text, &at, w.end, UINT32_MAX - 1, &e.to);
        if (all.begin == all.end)
            all.begin = w.begin;
        all.end = w.end;
        if (good && how == '@' && at == w.end) {
            good = read_within(r, c, w, e.from, e.to);
            continue;
        }
        good = good && how != '@';
        if (good && at < w.end && r->s->text[at] == 'p') {
            e.programmatic = true;
            at++;
        }
        if (!good || at != w.end)
            stem_error(r->q, STEM_E_LANE_LINE, w,
                       "an edge is written 3>5, or 3>5p if it is programmatic; 5@3 says that node 5 is in node 3");
        else if (e.from >= c->graph.n || e.to >= c->graph.n)
            stem_error(r->q, STEM_E_LANE_NO_NODE, w, "node %u does not exist: the graph has %u nodes",
                       e.from >= c->graph.n ? e.from : e.to, c->graph.n);
        else if (e.from == e.to)
            stem_error(r->q, STEM_E_LANE_CYCLE, w, "node %u depends on itself", e.to);
        good = good && at == w.end && e.from < c->graph.n && e.to < c->graph.n && e.from != e.to;
        stem_vec_push(&edges, e);
    }
    c->graph.n_edges = edges.len;
    c->graph.edges = stem_arena_dup(r->a, edges.at, edges.len * sizeof *edges.at);
    stem_vec_free(&edges);
    return good && siblings(r, c, all);
}

static bool read_measured(struct reader *r, struct stem_lane_case *c)
{
    uint32_t *lane = STEM_NEW_ARRAY(r->a, uint32_t, c->graph.n), len = 0;
    for (struct stem_span w = word(r); w.begin < w.end; w = word(r)) {
        uint32_t at = w.begin, l = STEM_NO_LANE;
        if (w.end - w.begin == 1 && r->s->text[at] == '-')
            at++;
        else if (!number(r->s->text, &at, w.end, UINT32_MAX - 1, &l))
            at = w.begin;
        if (at != w.end || len == c->graph.n) {
            stem_error(r->q, STEM_E_LANE_LINE, w,
                       len == c->graph.n ? "more lanes than nodes" : "a lane is a number, or - for none");
            return false;
        }
        lane[len++] = l;
    }
    if (len != c->graph.n) {
        stem_error(r->q, STEM_E_LANE_LINE, here(r), "%u lanes for %u nodes", len, c->graph.n);
        return false;
    }
    c->measured = lane;
    return true;
}

/* False, reported, if the edges have a cycle; the error names a node of it. */
static bool acyclic(struct reader *r, const struct stem_lane_case *c)
{
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_adj adj;
    bool good = stem_lane_adj_build(&c->graph, scratch, &adj);
    uint32_t v = good ? stem_lane_cycle(&adj, scratch) : STEM_NO_NODE;
    if (v != STEM_NO_NODE)
        stem_error(r->q, STEM_E_LANE_CYCLE, c->span, "the edges have a cycle through node %u", v);
    stem_arena_free(scratch);
    return good && v == STEM_NO_NODE;
}

static bool read_line(struct reader *r, struct stem_lane_case *c)
{
    c->span = (struct stem_span){r->at, r->end};
    if (!read_header(r, c))
        return false;
    if (at_bar(r)) {
        r->at++;
        if (!read_edges(r, c))
            return false;
    }
    if (at_bar(r)) {
        r->at++;
        if (!read_measured(r, c))
            return false;
    }
    skip_blanks(r);
    if (r->at != r->end) {
        stem_error(r->q, STEM_E_LANE_LINE, here(r), "the line should end here");
        return false;
    }
    return acyclic(r, c);
}

bool stem_lane_read_lines(const struct stem_source *s, struct stem_arena *a, struct stem_diags *q,
                          struct stem_lane_cases *out)
{
    STEM_VEC(struct stem_lane_case) cases = {0};
    bool good = true;
    for (uint32_t line = 1; line <= s->n_lines; line++) {
        uint32_t len, begin = s->line_begin[line - 1];
        stem_source_line(s, line, &len);
        struct reader r = {.s = s, .a = a, .q = q, .at = begin, .end = begin + len};
        skip_blanks(&r);
        if (r.at == r.end || s->text[r.at] == '#')
            continue;
        struct stem_lane_case c = {0};
        if (read_line(&r, &c))
            stem_vec_push(&cases, c);
        else
            good = false;
    }
    out->len = cases.len;
    out->at = stem_arena_dup(a, cases.at, cases.len * sizeof *cases.at);
    stem_vec_free(&cases);
    return good;
}

void stem_lane_write_line(struct stem_out *o, const char *label, const struct stem_lane_graph *g,
                          const uint32_t *lane)
{
    stem_out_printf(o, "%s %u ", label, g->n);
    for (uint32_t v = 0; g->kind && v < g->n; v++)
        stem_out_char(o, STEM_LANE_KINDS[g->kind[v]]);
    if (g->kind && g->n)
        stem_out_char(o, ' ');
    stem_out_char(o, '|');
    for (uint32_t i = 0; i < g->n_edges; i++)
        stem_out_printf(o, " %u>%u%s", g->edges[i].from, g->edges[i].to, g->edges[i].programmatic ? "p" : "");
    for (uint32_t v = 0; g->within && v < g->n; v++)
        if (g->within[v] != STEM_NO_NODE)
            stem_out_printf(o, " %u@%u", v, g->within[v]);
    if (lane)
        stem_out_str(o, " |");
    for (uint32_t v = 0; lane && v < g->n; v++)
        if (lane[v] == STEM_NO_LANE)
            stem_out_str(o, " -");
        else
            stem_out_printf(o, " %u", lane[v]);
    stem_out_char(o, '\n');
}
