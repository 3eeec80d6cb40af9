/* SPDX-License-Identifier: Apache-2.0
 *
 * Getters for values in JSON: type, range and words are checked, and faults are located.
 */
#include "plan_reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stem_read_fail(struct stem_reader *r, const char *fmt, ...)
{
    if (r->error)
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++) /* a name that is quoted may be anything, and an error is one line */
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    size_t n = strlen(r->path) + strlen(text) + 8;
    r->error = malloc(n);
    if (r->error)
        snprintf(r->error, n, "%s%s%s", r->path, r->path[0] ? ": " : "", text);
    else
        r->error = strdup("out of memory");
}

/* Descends into a member or element; returns the length to go back to. */
size_t stem_read_enter(struct stem_reader *r, const char *member, size_t index)
{
    size_t n = strlen(r->path);
    if (member)
        snprintf(r->path + n, sizeof r->path - n, "%s%s", n ? "." : "", member);
    else
        snprintf(r->path + n, sizeof r->path - n, "[%zu]", index);
    return n;
}

void stem_read_leave(struct stem_reader *r, size_t n)
{
    r->path[n] = '\0';
}

void stem_read_fail_at(struct stem_reader *r, const char *member, const char *text)
{
    size_t mark = stem_read_enter(r, member, 0);
    stem_read_fail(r, "%s", text);
    stem_read_leave(r, mark);
}

bool stem_read_open(struct stem_reader *r, struct stem_read_object *o, const json_t *json)
{
    *o = (struct stem_read_object){.json = json};
    if (!json_is_object(json))
        stem_read_fail(r, "expected an object");
    return !r->error;
}

void stem_read_close(struct stem_reader *r, const struct stem_read_object *o)
{
    const char *name;
    json_t *value;
    if (r->error)
        return;
    json_object_foreach((json_t *)o->json, name, value)
    {
        size_t i = 0;
        while (i < o->n && strcmp(o->seen[i], name))
            i++;
        if (i == o->n) {
            stem_read_fail(r, "unknown member \"%.40s\"", name);
            return;
        }
    }
}

const json_t *stem_read_member(struct stem_reader *r, struct stem_read_object *o, const char *name, bool required)
{
    if (r->error)
        return NULL;
    if (o->n < STEM_READ_MEMBERS)
        o->seen[o->n++] = name;
    const json_t *v = json_object_get(o->json, name);
    if (!v && required)
        stem_read_fail_at(r, name, "missing");
    return v;
}

int64_t stem_read_integer(struct stem_reader *r, const json_t *v, int64_t low, int64_t high)
{
    if (r->error)
        return low;
    if (!json_is_integer(v)) {
        stem_read_fail(r, "expected an integer");
        return low;
    }
    int64_t i = json_integer_value(v);
    if (i < low || i > high) {
        stem_read_fail(r, "%lld is not in %lld..%lld", (long long)i, (long long)low, (long long)high);
        return low;
    }
    return i;
}

int64_t stem_get_int(struct stem_reader *r, struct stem_read_object *o, const char *name, int64_t low, int64_t high)
{
    const json_t *v = stem_read_member(r, o, name, true);
    if (!v)
        return low;
    size_t mark = stem_read_enter(r, name, 0);
    int64_t i = stem_read_integer(r, v, low, high);
    stem_read_leave(r, mark);
    return i;
}

uint32_t stem_get_u32(struct stem_reader *r, struct stem_read_object *o, const char *name)
{
    return (uint32_t)stem_get_int(r, o, name, 0, UINT32_MAX - 1);
}

uint64_t stem_get_u64(struct stem_reader *r, struct stem_read_object *o, const char *name)
{
    return (uint64_t)stem_get_int(r, o, name, 0, INT64_MAX);
}

/* An index into a table of n entries. */
uint32_t stem_get_index(struct stem_reader *r, struct stem_read_object *o, const char *name, uint32_t n)
{
    const json_t *v = stem_read_member(r, o, name, true);
    if (!v)
        return 0;
    size_t mark = stem_read_enter(r, name, 0);
    if (n == 0)
        stem_read_fail(r, "an index into an empty table");
    uint32_t i = (uint32_t)stem_read_integer(r, v, 0, (int64_t)n - 1);
    stem_read_leave(r, mark);
    return i;
}

int64_t stem_get_int_or(struct stem_reader *r, struct stem_read_object *o, const char *name, int64_t low,
                        int64_t high, int64_t otherwise)
{
    const json_t *v = stem_read_member(r, o, name, false);
    if (!v)
        return otherwise;
    size_t mark = stem_read_enter(r, name, 0);
    int64_t i = stem_read_integer(r, v, low, high);
    stem_read_leave(r, mark);
    return i;
}

bool stem_get_flag(struct stem_reader *r, struct stem_read_object *o, const char *name)
{
    const json_t *v = stem_read_member(r, o, name, false);
    if (v && !json_is_boolean(v))
        stem_read_fail_at(r, name, "expected true or false");
    return v && json_is_true(v);
}

double stem_read_real(struct stem_reader *r, const json_t *v)
{
    const char *s = json_string_value(v);
    if (json_is_number(v))
        return json_number_value(v);
    if (s && strcmp(s, "inf") == 0)
        return INFINITY;
    if (s && strcmp(s, "-inf") == 0)
        return -INFINITY;
    if (!s || strcmp(s, "nan"))
        stem_read_fail(r, "expected a number, or \"inf\", \"-inf\" or \"nan\"");
    return NAN;
}

double stem_get_real(struct stem_reader *r, struct stem_read_object *o, const char *name)
{
    const json_t *v = stem_read_member(r, o, name, true);
    if (!v)
        return 0;
    size_t mark = stem_read_enter(r, name, 0);
    double f = stem_read_real(r, v);
    stem_read_leave(r, mark);
    return f;
}

const char *stem_read_string(struct stem_reader *r, const json_t *v)
{
    const char *s = json_string_value(v);
    if (r->error)
        return "";
    if (!s) {
        stem_read_fail(r, "expected a string");
        return "";
    }
    char *copy = stem_plan_strdup(r->plan, s);
    if (!copy)
        stem_read_fail(r, "out of memory");
    return copy ? copy : "";
}

const char *stem_get_string(struct stem_reader *r, struct stem_read_object *o, const char *name)
{
    const json_t *v = stem_read_member(r, o, name, true);
    if (!v)
        return "";
    size_t mark = stem_read_enter(r, name, 0);
    const char *s = stem_read_string(r, v);
    stem_read_leave(r, mark);
    return s;
}

/* A C identifier: it becomes a symbol. */
const char *stem_get_symbol(struct stem_reader *r, struct stem_read_object *o, const char *name)
{
    const char *s = stem_get_string(r, o, name);
    for (const char *c = s; !r->error && (*c || c == s); c++)
        if (!(*c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (c > s && *c >= '0' && *c <= '9')))
            stem_read_fail_at(r, name, "not a C identifier");
    return s;
}

uint32_t stem_read_word(struct stem_reader *r, const json_t *v, const char *const *names, size_t n)
{
    const char *s = json_string_value(v);
    for (size_t i = 0; s && i < n; i++)
        if (names[i][0] && strcmp(names[i], s) == 0)
            return (uint32_t)i;
    char known[160] = "";
    for (size_t i = 0, len = 0; i < n && len < sizeof known; i++)
        if (names[i][0])
            len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", len ? ", " : "", names[i]);
    if (s)
        stem_read_fail(r, "unknown word \"%.40s\"; it is one of %s", s, known);
    else
        stem_read_fail(r, "expected a word: one of %s", known);
    return 0;
}

uint32_t stem_get_word(struct stem_reader *r, struct stem_read_object *o, const char *name, const char *const *names,
                       size_t n)
{
    const json_t *v = stem_read_member(r, o, name, true);
    if (!v)
        return 0;
    size_t mark = stem_read_enter(r, name, 0);
    uint32_t i = stem_read_word(r, v, names, n);
    stem_read_leave(r, mark);
    return i;
}

enum stem_dtype stem_get_dtype(struct stem_reader *r, struct stem_read_object *o)
{
    const char *s = stem_get_string(r, o, "dtype");
    enum stem_dtype t = stem_dtype_from_name(s);
    if (t == STEM_N_DTYPES) {
        if (!r->error)
            stem_read_fail_at(r, "dtype", "unknown element type");
        t = STEM_F32;
    }
    return t;
}

/* Lists: `list` opens one and allocates its records; each element is read between enter and leave. */
void *stem_read_list(struct stem_reader *r, struct stem_read_object *o, const char *name, bool required, size_t size,
                     const json_t **elements, uint32_t *n)
{
    *n = 0;
    *elements = stem_read_member(r, o, name, required);
    if (!*elements)
        return NULL;
    if (!json_is_array(*elements)) {
        stem_read_fail_at(r, name, "expected a list");
        return NULL;
    }
    size_t count = json_array_size(*elements);
    void *at = count < STEM_NONE ? stem_plan_alloc(r->plan, count * size) : NULL;
    if (!at)
        stem_read_fail_at(r, name, "out of memory");
    else
        *n = (uint32_t)count;
    return at;
}

const int64_t *stem_read_ints(struct stem_reader *r, struct stem_read_object *o, const char *name, int64_t high,
                              uint32_t *n)
{
    const json_t *elements;
    int64_t *at = stem_read_list(r, o, name, true, sizeof *at, &elements, n);
    STEM_READ_EACH(r, name, elements, *n, at[i] = stem_read_integer(r, e, 0, high));
    return at;
}

void stem_read_three(struct stem_reader *r, struct stem_read_object *o, const char *name, const int64_t high[3],
                     uint32_t out[3])
{
    uint32_t n;
    const int64_t *at = stem_read_ints(r, o, name, INT64_MAX, &n);
    if (!r->error && n != 3)
        stem_read_fail_at(r, name, "expected three integers");
    for (uint32_t i = 0; i < 3 && !r->error; i++) {
        if (at[i] < 1 || at[i] > high[i])
            stem_read_fail_at(r, name, "out of range");
        out[i] = (uint32_t)at[i];
    }
}

void stem_read_dims(struct stem_reader *r, struct stem_read_object *o, const char *name, uint32_t *rank,
                    int64_t dim[STEM_MAX_RANK])
{
    uint32_t n;
    const int64_t *at = stem_read_ints(r, o, name, INT64_MAX, &n);
    if (n > STEM_MAX_RANK) {
        stem_read_fail_at(r, name, "too many dimensions");
        return;
    }
    *rank = n;
    for (uint32_t i = 0; i < n && !r->error; i++)
        dim[i] = at[i];
}

const char *const *stem_read_strings(struct stem_reader *r, struct stem_read_object *o, const char *name, uint32_t *n)
{
    const json_t *elements;
    const char **at = stem_read_list(r, o, name, true, sizeof *at, &elements, n);
    STEM_READ_EACH(r, name, elements, *n, at[i] = stem_read_string(r, e));
    return at;
}
