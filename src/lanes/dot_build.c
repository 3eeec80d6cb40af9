/* SPDX-License-Identifier: Apache-2.0
 *
 * From DOT statements to graphs: names to nodes, labels to kinds, nodes of each subgraph in creation order.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "lanes/lanes_internal.h"
#include "lanes/read_dot.h"

#define NONE UINT32_MAX
#define MAX_FIELDS 64 /* of a record of a conditional node: its bodies */

struct dot_node {
    struct stem_sym name;
    struct stem_span at;
    struct stem_dot_attrs attrs;
    uint32_t group, number; /* subgraph; creation number, NONE if the name has none */
    uint32_t index;         /* within its graph */
};

struct dot_edge {
    struct stem_span from, to;
    bool programmatic;
};

struct stem_dot_tables {
    const struct stem_source *s;
    struct stem_diags *q;
    struct stem_strtab *names;
    STEM_VEC(uint32_t) node_of; /* by symbol; NONE: not declared */
    STEM_VEC(struct dot_node) nodes;
    STEM_VEC(struct dot_edge) edges;
    STEM_VEC(struct stem_span) groups; /* names; 0: outside any subgraph */
    STEM_VEC(uint32_t) group_of;       /* by symbol of the name; NONE: no such group */
    STEM_VEC(struct stem_dot_hold) holds;
    uint32_t group;
};

struct stem_dot_tables *stem_dot_tables_new(const struct stem_source *s, struct stem_diags *q)
{
    struct stem_dot_tables *t = stem_xmalloc(sizeof *t);
    *t = (struct stem_dot_tables){.s = s, .q = q, .names = stem_strtab_new()};
    stem_vec_push(&t->groups, (struct stem_span){0, 0});
    return t;
}

void stem_dot_tables_free(struct stem_dot_tables *t)
{
    stem_strtab_free(t->names);
    stem_vec_free(&t->node_of);
    stem_vec_free(&t->nodes);
    stem_vec_free(&t->edges);
    stem_vec_free(&t->groups);
    stem_vec_free(&t->group_of);
    stem_vec_free(&t->holds);
    free(t);
}

static bool same(const struct stem_dot_tables *t, struct stem_span s, const char *word)
{
    size_t n = strlen(word);
    return s.end - s.begin == n && memcmp(t->s->text + s.begin, word, n) == 0;
}

static bool contains(const struct stem_dot_tables *t, struct stem_span s, const char *word)
{
    size_t n = strlen(word);
    for (uint32_t at = s.begin; at + n <= s.end; at++)
        if (memcmp(t->s->text + at, word, n) == 0)
            return true;
    return false;
}

void stem_dot_attr(struct stem_dot_tables *t, struct stem_dot_attrs *attrs, struct stem_span name,
                   struct stem_span value)
{
    if (same(t, name, "label"))
        attrs->label = value;
    else if (same(t, name, "shape"))
        attrs->shape = value;
    /* headlabel and taillabel number the edges of a node; they say nothing of ports. */
    if (contains(t, value, "PROGRAMMATIC") || contains(t, value, "programmatic"))
        attrs->programmatic = true;
}

static uint32_t *slot(struct stem_dot_tables *t, struct stem_sym name)
{
    while (t->node_of.len <= name.n)
        stem_vec_push(&t->node_of, NONE);
    return &t->node_of.at[name.n];
}

static struct stem_sym intern(struct stem_dot_tables *t, struct stem_span s)
{
    return stem_intern_n(t->names, t->s->text + s.begin, s.end - s.begin);
}

/* N of "..._node_N"; NONE if the name is not of that form. */
static uint32_t creation_number(const char *name)
{
    const char *p = NULL;
    for (const char *q = strstr(name, "_node_"); q; q = strstr(q + 1, "_node_"))
        p = q + 6;
    if (!p || !*p || strspn(p, "0123456789") != strlen(p) || strlen(p) > 9)
        return NONE;
    return (uint32_t)strtoul(p, NULL, 10);
}

bool stem_dot_node(struct stem_dot_tables *t, struct stem_span name, struct stem_span at,
                   const struct stem_dot_attrs *attrs)
{
    struct stem_sym sym = intern(t, name);
    uint32_t *place = slot(t, sym);
    if (*place != NONE) {
        stem_error(t->q, STEM_E_DOT_TWICE, at, "node '%s' is there twice", stem_sym_str(t->names, sym));
        stem_diag_label(t->q, t->nodes.at[*place].at, "first here");
        return false;
    }
    *place = t->nodes.len;
    stem_vec_push(&t->nodes, (struct dot_node){.name = sym, .at = at, .attrs = *attrs, .group = t->group,
                                               .number = creation_number(stem_sym_str(t->names, sym))});
    return true;
}

void stem_dot_edge(struct stem_dot_tables *t, struct stem_span from, struct stem_span to,
                   const struct stem_dot_attrs *attrs)
{
    stem_vec_push(&t->edges, (struct dot_edge){from, to, attrs->programmatic});
}

uint32_t stem_dot_enter(struct stem_dot_tables *t, struct stem_span name)
{
    uint32_t outer = t->group;
    t->group = t->groups.len;
    stem_vec_push(&t->groups, name);
    return outer;
}

void stem_dot_leave(struct stem_dot_tables *t, uint32_t outer)
{
    t->group = outer;
}

void stem_dot_assign(struct stem_dot_tables *t, struct stem_span name, struct stem_span value)
{
    if (t->group && same(t, name, "label"))
        t->groups.at[t->group] = value;
}

/* ---- labels ---- */

struct fields {
    char *at[MAX_FIELDS];
    uint32_t len;
};

static void end_field(struct fields *f, char *text, size_t len)
{
    while (len && strchr(" \t\r", text[len - 1]))
        len--;
    text[len] = '\0';
    text += strspn(text, " \t\r");
    if (*text && f->len < MAX_FIELDS)
        f->at[f->len++] = text;
}

/* The first fields of a label: record labels are cut at | { } and lines, escaped characters stand for themselves. */
static struct fields split_label(const struct stem_dot_tables *t, struct stem_span label, struct stem_arena *a)
{
    struct fields f = {.len = 0};
    char *text = stem_arena_alloc(a, label.end - label.begin + 1u);
    size_t len = 0;
    for (uint32_t at = label.begin; at < label.end && f.len < MAX_FIELDS; at++) {
        char c = t->s->text[at];
        bool escaped = c == '\\' && at + 1 < label.end;
        if (escaped)
            c = t->s->text[++at];
        if (escaped ? c == 'n' || c == 'l' || c == 'r' : c == '\n' || c == '|' || c == '{' || c == '}') {
            end_field(&f, text, len);
            text += len + 1;
            len = 0;
        } else {
            text[len++] = c;
        }
    }
    end_field(&f, text, len);
    return f;
}

/* "KERNEL", or a kind followed by something ("MEMCPY (HtoD,1024)"). */
static uint32_t kind_of_word(const char *field)
{
    static const struct {
        const char *word;
        enum stem_lane_kind kind;
    } words[] = {
        {"KERNEL", STEM_LANE_KERNEL},        {"MEMCPY", STEM_LANE_MEMCPY},      {"MEMSET", STEM_LANE_MEMSET},
        {"HOST", STEM_LANE_HOST},            {"EMPTY", STEM_LANE_EMPTY},        {"GRAPH", STEM_LANE_CHILD},
        {"CHILD_GRAPH", STEM_LANE_CHILD},    {"EVENT_RECORD", STEM_LANE_EVENT}, {"WAIT_EVENT", STEM_LANE_WAIT},
        {"EVENT_WAIT", STEM_LANE_WAIT},     {"MEM_ALLOC", STEM_LANE_MEMORY},   {"MEM_FREE", STEM_LANE_FREE},
        {"CONDITIONAL", STEM_LANE_CONDITIONAL}, {"BATCH_MEM_OP", STEM_LANE_OTHER},
        {"EXT_SEMAS_SIGNAL", STEM_LANE_OTHER}, {"EXT_SEMAS_WAIT", STEM_LANE_OTHER},
    };
    size_t n = strspn(field, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].word) == n && strncmp(field, words[i].word, n) == 0 &&
            (field[n] == '\0' || strchr(" (,:", field[n])))
            return words[i].kind;
    return NONE;
}

static bool is_number(const char *s)
{
    return *s && s[strspn(s, "0123456789")] == '\0';
}

/* "3", or "3 (topoId: 5)" in verbose output. */
static bool is_node_number(const char *s)
{
    size_t n = strspn(s, "0123456789");
    return n && (!s[n] || !strncmp(s + n, " (topoId: ", 10));
}

/* The group of that name; NONE. */
static uint32_t group_named(struct stem_dot_tables *t, const char *name)
{
    if (strncmp(name, "graph_", 6) != 0 || !is_number(name + 6))
        return NONE;
    struct stem_sym sym = stem_intern_n(t->names, name, strlen(name));
    return sym.n < t->group_of.len ? t->group_of.at[sym.n] : NONE;
}

static void name_groups(struct stem_dot_tables *t)
{
    for (uint32_t g = 1; g < t->groups.len; g++) {
        struct stem_sym sym = intern(t, t->groups.at[g]);
        while (t->group_of.len <= sym.n)
            stem_vec_push(&t->group_of, NONE);
        if (t->group_of.at[sym.n] == NONE)
            t->group_of.at[sym.n] = g;
    }
}

/* A child graph's label, or a conditional node's, names what the node holds. */
static void note_held(struct stem_dot_tables *t, const struct dot_node *n, const struct fields *f)
{
    for (uint32_t i = 0; i < f->len; i++) {
        uint32_t held = group_named(t, f->at[i]);
        if (held != NONE)
            stem_vec_push(&t->holds, (struct stem_dot_hold){n->group, n->index, held});
    }
}

/* Bytes of a memset: "(value,bytes)" in plain output; in verbose output a row of names, the last of them "height", and
 * a row of values. 0 if the label does not tell. */
static uint64_t memset_bytes(const struct fields *f)
{
    for (uint32_t i = 0; i < f->len; i++) {
        const char *comma = strchr(f->at[i], ',');
        if (f->at[i][0] == '(' && comma)
            return strtoull(comma + 1, NULL, 10);
        if (!strcmp(f->at[i], "height") && i + 8 < f->len) /* ... elementSize, width, height */
            return strtoull(f->at[i + 6], NULL, 10) * strtoull(f->at[i + 7], NULL, 10) *
                   strtoull(f->at[i + 8], NULL, 10);
    }
    return 0;
}

/* From or to the host: "(HtoD,4)" in plain output, "HOST (HOST PINNED)" in verbose output. */
static bool is_transfer(const struct fields *f)
{
    for (uint32_t i = 0; i < f->len; i++)
        if (!strncmp(f->at[i], "(H", 2) || !strncmp(f->at[i], "(DtoH", 5) || !strncmp(f->at[i], "HOST (", 6) ||
            strstr(f->at[i], "MEMCPY (H") || strstr(f->at[i], "MEMCPY (DtoH"))
            return true;
    return false;
}

static const char *kernel_name(struct stem_arena *a, const char *field)
{
    const char *cut = strstr(field, "<<<");
    return cut && cut > field ? stem_arena_strndup(a, field, (size_t)(cut - field)) : stem_arena_strdup(a, field);
}

/* Verbose: the kind first, a kernel's name after its ID. Plain: the number, then the kind or the kernel's name, or
 * the name of a child graph. */
static enum stem_lane_kind read_label(struct stem_dot_tables *t, const struct dot_node *n, struct stem_arena *a,
                                      const char **name)
{
    struct stem_arena *scratch = stem_arena_new();
    struct fields f = split_label(t, n->attrs.label, scratch);
    uint32_t first = f.len > 1 && is_node_number(f.at[0]) ? 1 : 0, kind = NONE;
    *name = NULL;
    if (first < f.len)
        kind = kind_of_word(f.at[first]);
    if (kind == STEM_LANE_KERNEL && first + 3 < f.len && strcmp(f.at[first + 1], "ID") == 0)
        *name = kernel_name(a, f.at[first + 3]);
    bool box = same(t, n->attrs.shape, "rectangle") || same(t, n->attrs.shape, "box");
    if (kind == NONE && first < f.len && box && strncmp(f.at[first], "graph_", 6) == 0 && is_number(f.at[first] + 6))
        kind = STEM_LANE_CHILD;
    if (kind == STEM_LANE_MEMCPY && is_transfer(&f))
        kind = STEM_LANE_TRANSFER;
    if (kind == STEM_LANE_MEMSET)
        kind = stem_lane_memset_kind(memset_bytes(&f));
    if (kind == STEM_LANE_CHILD || kind == STEM_LANE_CONDITIONAL)
        note_held(t, n, &f);
    if (kind == NONE && first < f.len && !is_number(f.at[first])) {
        kind = STEM_LANE_KERNEL;
        *name = kernel_name(a, f.at[first]);
    }
    if (!f.len) { /* drawn by hand, or by another program: what the lanes are about is meant */
        stem_warning(t->q, STEM_E_DOT_KIND, n->at, "'%s' has no label: taken for a kernel",
                     stem_sym_str(t->names, n->name));
        kind = STEM_LANE_KERNEL;
    }
    if (kind == NONE) {
        stem_warning(t->q, STEM_E_DOT_KIND, n->at, "the label of '%s' says no kind that is known",
                     stem_sym_str(t->names, n->name));
        kind = STEM_LANE_OTHER;
    }
    if (!*name)
        *name = stem_arena_strdup(a, stem_sym_str(t->names, n->name));
    stem_arena_free(scratch);
    return (enum stem_lane_kind)kind;
}

/* ---- graphs ---- */

struct numbered {
    uint32_t group, number, place;
};

static int by_number(const void *x, const void *y)
{
    const struct numbered *a = x, *b = y;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* All nodes, group by group, by number if every node of the group has one, else as they stand. */
static struct numbered *sort_nodes(const struct stem_dot_tables *t, struct stem_arena *a)
{
    bool *some_without = STEM_NEW_ARRAY(a, bool, t->groups.len);
    struct numbered *list = STEM_NEW_ARRAY(a, struct numbered, t->nodes.len);
    for (uint32_t i = 0; i < t->nodes.len; i++)
        some_without[t->nodes.at[i].group] |= t->nodes.at[i].number == NONE;
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        const struct dot_node *n = &t->nodes.at[i];
        list[i] = (struct numbered){n->group, some_without[n->group] ? 0 : n->number, i};
    }
    qsort(list, t->nodes.len, sizeof *list, by_number);
    return list;
}

/* The n nodes of one group, which get their index. */
static struct stem_lane_case build_nodes(struct stem_dot_tables *t, const struct numbered *list, uint32_t n,
                                         struct stem_arena *a)
{
    uint8_t *kind = STEM_NEW_ARRAY(a, uint8_t, n);
    const char **name = STEM_NEW_ARRAY(a, const char *, n);
    struct stem_span span = {UINT32_MAX, 0};
    for (uint32_t i = 0; i < n; i++) {
        struct dot_node *node = &t->nodes.at[list[i].place];
        node->index = i;
        kind[i] = (uint8_t)read_label(t, node, a, &name[i]);
        span = stem_span_join(span, node->at);
    }
    struct stem_span g = t->groups.at[n ? list[0].group : 0];
    return (struct stem_lane_case){
        .label = g.begin < g.end ? stem_arena_strndup(a, t->s->text + g.begin, g.end - g.begin) : "graph",
        .graph = {.n = n, .kind = kind, .name = name},
        .span = span,
    };
}

/* Ends of an edge, or false, reported. */
static bool find_ends(struct stem_dot_tables *t, const struct dot_edge *e, uint32_t *from, uint32_t *to, bool warn)
{
    const struct stem_span end[2] = {e->from, e->to};
    uint32_t *node[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        struct stem_sym sym = intern(t, end[i]);
        *node[i] = *slot(t, sym);
        if (*node[i] == NONE) {
            stem_error(t->q, STEM_E_LANE_NO_NODE, end[i], "node '%s' does not exist", stem_sym_str(t->names, sym));
            return false;
        }
    }
    if (*from == *to) {
        stem_error(t->q, STEM_E_LANE_CYCLE, e->to, "a node depends on itself");
        return false;
    }
    if (warn && t->nodes.at[*from].group != t->nodes.at[*to].group)
        stem_warning(t->q, STEM_E_DOT_ACROSS, stem_span_join(e->from, e->to),
                     "an edge between two graphs is left out");
    return true;
}

/* Edges sorted by group, each with indices within its graph; at[g] .. at[g + 1] are those of group g. */
static bool sort_edges(struct stem_dot_tables *t, uint32_t *at, struct stem_lane_edge *out)
{
    bool good = true;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < t->edges.len && good; i++) {
            uint32_t from, to;
            if (!find_ends(t, &t->edges.at[i], &from, &to, pass == 0)) {
                good = false;
                break;
            }
            uint32_t g = t->nodes.at[from].group;
            if (g != t->nodes.at[to].group)
                continue;
            if (pass == 0)
                at[g + 1]++;
            else
                out[at[g]++] = (struct stem_lane_edge){t->nodes.at[from].index, t->nodes.at[to].index,
                                                       t->edges.at[i].programmatic};
        }
        if (pass == 0)
            for (uint32_t g = 0; g < t->groups.len; g++)
                at[g + 1] += at[g];
    }
    memmove(at + 1, at, t->groups.len * sizeof *at);
    at[0] = 0;
    return good;
}

static bool without_cycle(struct stem_dot_tables *t, const struct stem_lane_case *c)
{
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_adj adj;
    stem_lane_adj_build(&c->graph, scratch, &adj);
    uint32_t v = stem_lane_cycle(&adj, scratch);
    if (v != STEM_NO_NODE)
        stem_error(t->q, STEM_E_LANE_CYCLE, c->span, "the edges of %s have a cycle through node %u (%s)", c->label, v,
                   c->graph.name[v]);
    stem_arena_free(scratch);
    return v == STEM_NO_NODE;
}

bool stem_dot_finish(struct stem_dot_tables *t, struct stem_arena *a, struct stem_lane_cases *out)
{
    if (!t->nodes.len || t->nodes.len > STEM_LANE_MAX_NODES) {
        if (!t->nodes.len && t->edges.len) {
            stem_error(t->q, STEM_E_DOT_EMPTY, stem_span_join(t->edges.at[0].from, t->edges.at[0].to),
                       "there are edges in this text, but no node is declared");
            stem_diag_help(t->q, "each node has a statement of its own, \"graph_G_node_N\"[label=\"...\"]: "
                                 "cudaGraphDebugDotPrint writes them");
            return false;
        }
        stem_error(t->q, STEM_E_DOT_EMPTY, (struct stem_span){0, 0}, "there are %u nodes in this text", t->nodes.len);
        return false;
    }
    struct stem_lane_case *cases = STEM_NEW_ARRAY(a, struct stem_lane_case, t->groups.len);
    const struct numbered *list = sort_nodes(t, a);
    name_groups(t);
    for (uint32_t i = 0, n; i < t->nodes.len; i += n) {
        for (n = 1; i + n < t->nodes.len && list[i + n].group == list[i].group; n++)
            continue;
        cases[list[i].group] = build_nodes(t, list + i, n, a);
    }
    uint32_t *at = STEM_NEW_ARRAY(a, uint32_t, (size_t)t->groups.len + 1);
    struct stem_lane_edge *edges = STEM_NEW_ARRAY(a, struct stem_lane_edge, t->edges.len);
    if (!sort_edges(t, at, edges))
        return false;
    bool good = true;
    for (uint32_t g = 0; g < t->groups.len; g++) {
        if (!cases[g].graph.n)
            continue;
        cases[g].graph.edges = edges + at[g];
        cases[g].graph.n_edges = at[g + 1] - at[g];
        good &= without_cycle(t, &cases[g]);
    }
    stem_dot_nest(cases, t->groups.len, t->holds.at, t->holds.len, a, out);
    return good;
}
