/* SPDX-License-Identifier: Apache-2.0
 *
 * DOT: as much of the language as programs that print CUDA graphs use. Scanner and a parser by recursive descent that
 * stops at the first fault; what is found goes to dot_build.c's tables.
 */
#include "lanes/read_dot.h"

#include <string.h>

#define MAX_DEPTH 64

enum token { T_END, T_ID, T_PUNCT, T_ARROW, T_BAD };

struct dot {
    const struct stem_source *s;
    struct stem_diags *q;
    struct stem_dot_tables *tables;
    uint32_t at;
    enum token token;
    struct stem_span span; /* of the token; quotes included */
    struct stem_span text; /* T_ID: without quotes */
    bool quoted;
    uint32_t depth;
};

static bool word_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == ':' || c >= 0x80;
}

static void skip_space(struct dot *d)
{
    const char *t = d->s->text;
    uint32_t len = d->s->len;
    while (d->at < len) {
        char c = t[d->at];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            d->at++;
        } else if (c == '#' || (c == '/' && d->at + 1 < len && t[d->at + 1] == '/')) {
            while (d->at < len && t[d->at] != '\n')
                d->at++;
        } else if (c == '/' && d->at + 1 < len && t[d->at + 1] == '*') {
            d->at += 2;
            while (d->at + 1 < len && !(t[d->at] == '*' && t[d->at + 1] == '/'))
                d->at++;
            d->at = d->at + 1 < len ? d->at + 2 : len;
        } else {
            return;
        }
    }
}

/* A quoted text, or one in angle brackets (HTML), which may nest. */
static enum token scan_long(struct dot *d, char open, char close)
{
    uint32_t depth = 1, at = d->at + 1;
    while (at < d->s->len && depth) {
        char c = d->s->text[at++];
        if (c == '\\' && open == '"' && at < d->s->len)
            at++;
        else if (c == close)
            depth--;
        else if (c == open)
            depth++;
    }
    if (depth) {
        d->span = (struct stem_span){d->at, d->at + 1};
        d->at = d->s->len;
        return T_BAD;
    }
    d->span = (struct stem_span){d->at, at};
    d->text = (struct stem_span){d->at + 1, at - 1};
    d->quoted = true;
    d->at = at;
    return T_ID;
}

static void next(struct dot *d)
{
    skip_space(d);
    const char *t = d->s->text;
    uint32_t begin = d->at;
    d->quoted = false;
    d->span = d->text = (struct stem_span){begin, begin < d->s->len ? begin + 1 : begin};
    if (begin >= d->s->len) {
        d->token = T_END;
    } else if (t[begin] == '"' || t[begin] == '<') {
        d->token = scan_long(d, t[begin], t[begin] == '"' ? '"' : '>');
    } else if (t[begin] == '-' && begin + 1 < d->s->len && (t[begin + 1] == '>' || t[begin + 1] == '-')) {
        d->at += 2;
        d->span.end = d->at;
        d->token = t[begin + 1] == '>' ? T_ARROW : T_BAD;
    } else if (word_byte((unsigned char)t[begin]) || t[begin] == '-') {
        do
            d->at++;
        while (d->at < d->s->len && word_byte((unsigned char)t[d->at]));
        d->span.end = d->text.end = d->at;
        d->token = T_ID;
    } else {
        d->at++;
        d->token = t[begin] && strchr("{}[]=;,", t[begin]) ? T_PUNCT : T_BAD;
    }
}

static bool is(const struct dot *d, char c)
{
    return d->token == T_PUNCT && d->s->text[d->span.begin] == c;
}

static bool is_word(const struct dot *d, const char *word)
{
    uint32_t n = d->text.end - d->text.begin;
    return d->token == T_ID && !d->quoted && strlen(word) == n && strncmp(d->s->text + d->text.begin, word, n) == 0;
}

static bool fail(struct dot *d, const char *expected)
{
    const char *t = d->s->text + d->span.begin;
    if (d->token == T_END)
        stem_error(d->q, STEM_E_DOT_SYNTAX, d->span, "the text ends, but %s is expected", expected);
    else if (d->token == T_BAD && (*t == '"' || *t == '<'))
        stem_error(d->q, STEM_E_DOT_SYNTAX, d->span, "this text has no end");
    else if (d->token == T_BAD && *t == '-')
        stem_error(d->q, STEM_E_DOT_SYNTAX, d->span, "an edge without direction: CUDA graphs are directed");
    else
        stem_error(d->q, STEM_E_DOT_SYNTAX, d->span, "expected %s", expected);
    return false;
}

static bool expect(struct dot *d, char c, const char *expected)
{
    if (!is(d, c))
        return fail(d, expected);
    next(d);
    return true;
}

/* [a=b c="d", ...] any number of times. */
static bool attributes(struct dot *d, struct stem_dot_attrs *attrs)
{
    while (is(d, '[')) {
        next(d);
        while (!is(d, ']')) {
            if (d->token != T_ID)
                return fail(d, "an attribute or ']'");
            struct stem_span name = d->text, value = {0, 0};
            next(d);
            if (is(d, '=')) {
                next(d);
                if (d->token != T_ID)
                    return fail(d, "a value");
                value = d->text;
                next(d);
            }
            stem_dot_attr(d->tables, attrs, name, value);
            if (is(d, ',') || is(d, ';'))
                next(d);
        }
        next(d);
    }
    return true;
}

/* NODE, or NODE -> NODE -> ... with the attributes of all. */
static bool node_or_edges(struct dot *d)
{
    STEM_VEC(struct stem_span) chain = {0};
    bool good = true;
    struct stem_span first = d->span;
    stem_vec_push(&chain, d->text);
    next(d);
    while (good && d->token == T_ARROW) {
        next(d);
        if (d->token != T_ID) {
            good = fail(d, "the node that the edge goes to");
            break;
        }
        stem_vec_push(&chain, d->text);
        next(d);
    }
    struct stem_dot_attrs attrs = {0};
    good = good && attributes(d, &attrs);
    if (good && chain.len == 1)
        good = stem_dot_node(d->tables, chain.at[0], first, &attrs);
    for (uint32_t i = 1; good && i < chain.len; i++)
        stem_dot_edge(d->tables, chain.at[i - 1], chain.at[i], &attrs);
    stem_vec_free(&chain);
    return good;
}

static bool statements(struct dot *d);

static bool subgraph(struct dot *d)
{
    if (++d->depth > MAX_DEPTH)
        return fail(d, "fewer subgraphs in each other");
    struct stem_span name = d->span;
    if (is_word(d, "subgraph")) {
        next(d);
        if (d->token == T_ID) {
            name = d->text;
            next(d);
        }
    }
    if (!expect(d, '{', "'{'"))
        return false;
    uint32_t outer = stem_dot_enter(d->tables, name);
    bool good = statements(d) && expect(d, '}', "'}'");
    stem_dot_leave(d->tables, outer);
    d->depth--;
    return good;
}

static bool statement(struct dot *d)
{
    if (is(d, '{') || is_word(d, "subgraph"))
        return subgraph(d);
    if (d->token != T_ID)
        return fail(d, "a node, an edge, a subgraph or '}'");
    struct stem_dot_attrs ignored = {0};
    if (is_word(d, "graph") || is_word(d, "node") || is_word(d, "edge")) {
        next(d);
        return is(d, '[') ? attributes(d, &ignored) : fail(d, "'['");
    }
    struct dot ahead = *d;
    next(&ahead);
    if (!is(&ahead, '='))
        return node_or_edges(d);
    struct stem_span name = d->text;
    *d = ahead;
    next(d);
    if (d->token != T_ID)
        return fail(d, "a value");
    stem_dot_assign(d->tables, name, d->text);
    next(d);
    return true;
}

static bool statements(struct dot *d)
{
    while (!is(d, '}') && d->token != T_END) {
        if (is(d, ';') || is(d, ',')) {
            next(d);
            continue;
        }
        if (!statement(d))
            return false;
    }
    return true;
}

static bool whole_text(struct dot *d)
{
    next(d);
    bool any = false;
    while (d->token != T_END) {
        if (is_word(d, "strict"))
            next(d);
        if (is_word(d, "graph"))
            return stem_error(d->q, STEM_E_DOT_SYNTAX, d->span, "an undirected graph: CUDA graphs are digraphs"),
                   false;
        if (!is_word(d, "digraph"))
            return fail(d, any ? "the end of the text or 'digraph'" : "'digraph'");
        next(d);
        if (d->token == T_ID)
            next(d);
        if (!expect(d, '{', "'{'") || !statements(d) || !expect(d, '}', "'}'"))
            return false;
        any = true;
    }
    return any || fail(d, "'digraph'");
}

bool stem_lane_read_dot(const struct stem_source *s, struct stem_arena *a, struct stem_diags *q,
                        struct stem_lane_cases *out)
{
    *out = (struct stem_lane_cases){0};
    struct stem_dot_tables *tables = stem_dot_tables_new(s, q);
    struct dot d = {.s = s, .q = q, .tables = tables};
    bool good = whole_text(&d) && stem_dot_finish(tables, a, out);
    stem_dot_tables_free(tables);
    return good;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

bool stem_lane_read(const struct stem_source *s, struct stem_arena *a, struct stem_diags *q,
                    struct stem_lane_cases *out)
{
    struct dot d = {.s = s};
    const char *nul = memchr(s->text, '\0', s->len);
    if (nul) {
        uint32_t at = (uint32_t)(nul - s->text);
        stem_error(q, STEM_E_LANE_LINE, (struct stem_span){at, at + 1}, "this file is not text: byte %u is zero", at);
        return false;
    }
    skip_space(&d);
    if (ends_in(s->path, ".stem")) {
        stem_error(q, STEM_E_LANE_PROGRAM, (struct stem_span){d.at, d.at < s->len ? d.at + 1 : d.at},
                   "this is a program, not a graph: compile it, then give its plan");
        return false;
    }
    static const char *const words[] = {"digraph", "graph", "strict"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);
        if (s->len - d.at > n && strncmp(s->text + d.at, words[i], n) == 0 &&
            strchr(" \t\r\n{\"", s->text[d.at + n])) {
            /* "graph 4 | 0>1" is a line. */
            uint32_t at = d.at + (uint32_t)n;
            while (at < s->len && (s->text[at] == ' ' || s->text[at] == '\t'))
                at++;
            if (at == s->len || s->text[at] < '0' || s->text[at] > '9')
                return stem_lane_read_dot(s, a, q, out);
        }
    }
    if (!stem_lane_read_lines(s, a, q, out))
        return false;
    if (!out->len)
        stem_error(q, STEM_E_DOT_EMPTY, (struct stem_span){0, 0}, "there are no graphs in this text");
    return out->len != 0;
}
