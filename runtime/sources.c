/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensors of a checkpoint make up a weight: the weight's own name, or those that its `from` lists.
 *
 *     from  = { text | "{*}" | "{*+N}" | "{" text { "," text } "}" } [ "[" [ ":," ] R "/" N "]" ]
 *
 * {*} stands for 0, 1, ... (from N on), one for each index of the weight's first size; {a,b} for a, then b, whose rows
 * follow each other along the next size. Each at most once. Other braces there are none. [R/N] takes part R of N equal ones
 * of each tensor's rows, [:, R/N] of its columns: what one rank of N holds.
 */
#include "sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 1 << 16 };

/* "{*}" or "{*+12}", `len` with the braces. */
static bool parse_star(const char *at, size_t len, struct stem_sources *s)
{
    uint64_t n = 0;
    if (len == 3)
        return true;
    if (at[2] != '+' || len < 5 || len > 14)
        return false;
    for (size_t i = 3; i + 1 < len; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(at[i] - '0');
    }
    s->first = n;
    return true;
}

static const char *parse_group(const char *at, struct stem_sources *s)
{
    size_t len = strcspn(at, "}") + 1;
    if (at[len - 1] != '}')
        return "a '{' without a '}'";
    if (memchr(at + 1, '{', len - 1))
        return "a '{' inside of braces";
    if (at[1] == '*') {
        if (s->star)
            return "two {*}";
        s->star = at;
        return parse_star(at, len, s) ? NULL : "what begins with {* is {*} or {*+N}";
    }
    if (s->list)
        return "two lists in braces";
    s->list = at;
    s->n_list = 1;
    for (size_t i = 1; i + 1 < len; i++) {
        s->n_list += at[i] == ',';
        if (at[i] == ',' && (at[i - 1] == '{' || at[i + 1] == ',' || at[i + 1] == '}'))
            return "a list in braces has a name that is empty";
    }
    return s->n_list > 1 ? NULL : "a list in braces has two names or more";
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " ");
}

static bool small_number(const char **at, uint32_t *n)
{
    size_t digits = strspn(*at, "0123456789");
    if (!digits || digits > 6)
        return false;
    *n = (uint32_t)strtoul(*at, NULL, 10);
    *at = skip_blanks(*at + digits);
    return true;
}

/* Brackets with a '/' in them, closed or not; NULL: there are none. Others belong to the name: "moe[3]". */
static const char *find_part(const char *from)
{
    for (const char *open = strchr(from, '['); open; open = strchr(open + 1, '['))
        if (memchr(open, '/', strcspn(open, "]")))
            return open;
    return NULL;
}

static const char *parse_part(struct stem_sources *s)
{
    static const char wrong[] =
        "a part ends the names, and is [R/N] of the rows or [:, R/N] of the columns, R below N and N at most 65536";
    const char *open = find_part(s->from), *at = open;
    s->len = strlen(s->from);
    s->parts = 1;
    if (!open)
        return NULL;
    at = skip_blanks(at + 1);
    if (*at == ':') {
        at = skip_blanks(at + 1);
        if (*at != ',')
            return wrong;
        s->axis = 1;
        at = skip_blanks(at + 1);
    }
    if (!small_number(&at, &s->part) || *at != '/')
        return wrong;
    at = skip_blanks(at + 1);
    if (!small_number(&at, &s->parts) || *at != ']' || at[1] || s->part >= s->parts || s->parts > MAX_PARTS)
        return wrong;
    s->len = (size_t)(open - s->from);
    return s->len ? NULL : "a part of no tensor";
}

const char *stem_sources_parse(const char *from, uint32_t rank, const int64_t *dim, struct stem_sources *s)
{
    *s = (struct stem_sources){.from = from, .n_list = 1, .n_star = 1};
    if (!from[0])
        return "it is empty";
    const char *bad = parse_part(s);
    if (bad)
        return bad;
    for (const char *at = from; at < from + s->len; at++) {
        if ((unsigned char)*at < ' ')
            return "it has a control character";
        if (*at == '}')
            return "a '}' without a '{'";
        if (*at != '{')
            continue;
        const char *wrong = parse_group(at, s);
        if (wrong)
            return wrong;
        at += strcspn(at, "}");
    }
    if (strlen(from) > STEM_MAX_SOURCE)
        return "it is too long";
    if (s->star && (rank < 1 || dim[0] < 1 || dim[0] > 1 << 20))
        return "{*} counts the first size, and there is none";
    if (s->list && rank < (s->star ? 2u : 1u))
        return "a list in braces joins tensors along a size, and there is none";
    s->n_star = s->star ? (uint32_t)dim[0] : 1;
    return NULL;
}

bool stem_sources_name(const struct stem_sources *s, uint32_t i, char *name, size_t size)
{
    size_t n = 0;
    for (const char *at = s->from; at < s->from + s->len && n < size; at++) {
        if (*at != '{') {
            name[n++] = *at;
            continue;
        }
        const char *text = at + 1;
        char number[24];
        size_t len;
        if (at == s->star) {
            len = (size_t)snprintf(number, sizeof number, "%" PRIu64, s->first + i / s->n_list);
            text = number;
        } else {
            for (uint32_t k = i % s->n_list; k; k--)
                text += strcspn(text, ",") + 1;
            len = strcspn(text, ",}");
        }
        if (len >= size - n)
            return false;
        memcpy(name + n, text, len);
        n += len;
        at += strcspn(at, "}");
    }
    if (n >= size)
        return false;
    name[n] = '\0';
    return true;
}

const char *stem_weight_fault(const struct stem_plan_buffer *b)
{
    struct stem_sources s;
    if (!b || !b->from)
        return "it is NULL";
    return stem_sources_parse(b->from, b->rank, b->dim, &s);
}

uint32_t stem_weight_n_sources(const struct stem_plan_buffer *b)
{
    struct stem_sources s;
    if (!b || !b->from || stem_sources_parse(b->from, b->rank, b->dim, &s))
        return 0;
    return s.n_star * s.n_list;
}

bool stem_weight_part(const struct stem_plan_buffer *b, uint32_t *axis, uint32_t *part, uint32_t *parts)
{
    struct stem_sources s;
    if (!b || !axis || !part || !parts || !b->from || stem_sources_parse(b->from, b->rank, b->dim, &s) || s.parts == 1)
        return false;
    *axis = s.axis;
    *part = s.part;
    *parts = s.parts;
    return true;
}

bool stem_weight_source(const struct stem_plan_buffer *b, uint32_t i, char *name, size_t size)
{
    struct stem_sources s;
    return b && name && b->from && !stem_sources_parse(b->from, b->rank, b->dim, &s) && i < s.n_star * s.n_list &&
           stem_sources_name(&s, i, name, size);
}
