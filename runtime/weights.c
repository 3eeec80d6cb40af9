/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights out of checkpoints. A weight is one tensor, or several whose rows follow each other in its buffer; each is held
 * against the weight's type before a byte is copied.
 */
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "internal.h"
#include "sources.h"

/* ---- what a tensor is, and what is wanted ---- */

static const char *format_name(enum stem_dtype t)
{
    static const char *const name[STEM_N_DTYPES] = {
        [STEM_F32] = "F32",  [STEM_F16] = "F16", [STEM_BF16] = "BF16", [STEM_F8E4M3] = "F8_E4M3",
        [STEM_I32] = "I32", [STEM_I64] = "I64", [STEM_U8] = "U8",  [STEM_INT4] = "I32",
    };
    return name[t] ? name[t] : "U8"; /* packed elements */
}

/* Packed elements have no dtype in the format: they are stored as bytes or words. Bytes may hold anything of 8 bits. */
static bool same_dtype(const struct stem_safetensor *t, enum stem_dtype want)
{
    static const char *const words[] = {"U8", "I8", "U16", "I16", "U32", "I32", "F4"};
    bool packed = stem_dtype_bits(want) < 8;
    for (size_t i = 0; packed && i < sizeof words / sizeof *words; i++)
        if (!strcmp(t->dtype, words[i]))
            return true;
    return !strcmp(t->dtype, format_name(want)) ||
           (want == STEM_U8 && stem_safetensors_bits(t->dtype) == 8);
}

static void describe(const char *dtype, const char *first, uint32_t rank, const int64_t *dim, char *text, size_t size)
{
    int n = snprintf(text, size, "%.16s[%s", dtype, first);
    for (uint32_t i = 0; i < rank && i < STEM_MAX_RANK && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld", i || first[0] ? ", " : "", (long long)dim[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, rank > STEM_MAX_RANK ? ", ...]" : "]");
}

/* One tensor of a weight: its first `skip` sizes are counted by names, and with `free` the next one is any. */
struct wanted {
    const struct stem_plan_buffer *b;
    uint32_t skip;
    bool free;
    uint32_t axis, part, parts; /* of each tensor only this part; parts 0 or 1: all of it */
};

/* "part 3 of 8 of ", or nothing. */
static const char *part_of(const struct wanted *w, char *text, size_t size)
{
    text[0] = '\0';
    if (w->parts > 1)
        snprintf(text, size, "part %u of %u of ", (unsigned)w->part, (unsigned)w->parts);
    return text;
}

static enum stem_status does_not_fit(const struct stem_safetensors *f, const struct stem_safetensor *t,
                                     const struct wanted *w, struct stem_rt_error *err)
{
    char have[256], want[256], part[64];
    const struct stem_plan_buffer *b = w->b;
    bool dtype = same_dtype(t, b->dtype);
    uint32_t from = w->skip + w->free;
    describe(t->dtype, "", t->rank, t->dim, have, sizeof have);
    if (stem_dtype_bits(b->dtype) < 8 && !w->skip && !w->free)
        snprintf(want, sizeof want, "%s with %llu bytes", format_name(b->dtype), (unsigned long long)b->bytes);
    else
        describe(stem_dtype_bits(b->dtype) < 8 ? stem_dtype_name(b->dtype) : format_name(b->dtype), w->free ? "rows" : "",
                 b->rank - from, b->dim + from, want, sizeof want);
    bool own = !strcmp(t->name, b->name);
    return stem_fail(err, dtype ? STEM_E_WRONG_SHAPE : STEM_E_WRONG_DTYPE,
                     "%.200s: %s'%.200s' is %s, the program wants %s%s%.200s%s", stem_safetensors_shard(f, t)->path,
                     part_of(w, part, sizeof part), t->name, have, want, own ? "" : " for its weight '",
                     own ? "" : b->name, own ? "" : "'");
}

/* Sizes other than 1. With `bits`, because elements are packed into larger ones, the last size is kept, and in bits. */
static uint32_t plain_shape(const int64_t *dim, uint32_t rank, uint64_t bits, uint64_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (dim[i] != 1 || (bits && i + 1 == rank))
            out[n++] = (uint64_t)dim[i] * (bits && i + 1 == rank ? bits : 1);
    return n;
}

/* A matrix whose rows the weight splits: [H * N, L] is [H, N, L]. */
static bool is_matrix_of(const uint64_t *have, uint32_t n, const uint64_t *want, uint32_t m)
{
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < m; i++)
        rows *= want[i];
    return n == 2 && m > 2 && have[0] == rows && have[1] == want[m - 1];
}

/* Sizes of 1 may be left out or added: a scale of [1] is one of [], and [128, 1] is [128]. */
static bool fits(const struct stem_safetensor *t, const struct wanted *w)
{
    uint64_t have[STEM_MAX_RANK + 1], want[STEM_MAX_RANK + 1];
    const struct stem_plan_buffer *b = w->b;
    uint32_t from = w->skip + w->free, n, m;
    uint64_t bits = stem_safetensors_bits(t->dtype), of = stem_dtype_bits(b->dtype);
    if (!same_dtype(t, b->dtype) || t->rank > STEM_MAX_RANK)
        return false;
    /* Packed: any shape of as many bytes. */
    if (of < 8 && !w->skip && !w->free)
        return t->bytes == b->bytes;
    n = plain_shape(t->dim, t->rank, bits == of ? 0 : bits, have);
    m = plain_shape(b->dim + from, b->rank - from, bits == of ? 0 : of, want);
    if (!w->free || n == m)
        return (n == m && !memcmp(have, want, n * sizeof *have)) || (!w->free && is_matrix_of(have, n, want, m));
    return n == m + 1 && !memcmp(have + 1, want, m * sizeof *have);
}

/* ---- names that are not there ---- */

/* Edits from a to b, or `most` if there are as many. */
static uint32_t distance(const char *a, const char *b, uint32_t most)
{
    uint32_t row[256];
    size_t n = strlen(a), m = strlen(b);
    if (m >= 255 || n >= 255 || (n > m ? n - m : m - n) >= most)
        return most;
    for (uint32_t k = 0; k <= m; k++)
        row[k] = k;
    for (size_t i = 1; i <= n; i++) {
        uint32_t diagonal = row[0], best = row[0] = (uint32_t)i;
        for (size_t k = 1; k <= m; k++) {
            uint32_t change = diagonal + (a[i - 1] != b[k - 1]), edit = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            diagonal = row[k];
            row[k] = change < edit ? change : edit;
            best = row[k] < best ? row[k] : best;
        }
        if (best >= most)
            return most;
    }
    return row[m] < most ? row[m] : most;
}

static enum stem_status missing(const struct stem_safetensors *f, const struct stem_plan_buffer *b, const char *name,
                                struct stem_rt_error *err)
{
    uint32_t most = (uint32_t)strlen(name) / 3 + 2;
    const char *nearest = NULL;
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t d = distance(name, f->tensors[i].name, most);
        if (d < most) {
            most = d;
            nearest = f->tensors[i].name;
        }
    }
    bool own = !strcmp(name, b->name);
    return stem_fail(err, STEM_E_MISSING, "%.200s has no tensor '%.200s'%s%.200s%s%s%.200s%s", f->path, name,
                     own ? "" : ", which is wanted for weight '", own ? "" : b->name, own ? "" : "'",
                     nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
}

/* ---- parts of tensors ---- */

uint64_t stem_weight_piece_bytes(const struct stem_weight_piece *p)
{
    return p->bytes * p->rows;
}

void stem_weight_piece_copy(const struct stem_weight_piece *p, void *to)
{
    for (uint64_t i = 0; i < p->rows; i++)
        memcpy((char *)to + i * p->bytes, (const char *)p->from + i * p->pitch, p->bytes);
}

/* t and its bytes become the part that is wanted. */
static enum stem_status narrow(const struct stem_safetensors *f, const struct wanted *w, struct stem_safetensor *t,
                               struct stem_weight_piece *p, struct stem_rt_error *err)
{
    uint64_t rows = 1, all = t->bytes;
    *p = (struct stem_weight_piece){.from = t->data, .bytes = all, .rows = 1};
    if (w->parts < 2)
        return STEM_OK;
    if (w->axis >= t->rank || t->rank > STEM_MAX_RANK)
        return stem_fail(err, STEM_E_WRONG_SHAPE, "%.200s: '%.200s' has %u sizes, and weight '%.200s' wants a part of its %s",
                         stem_safetensors_shard(f, t)->path, t->name, (unsigned)t->rank, w->b->name,
                         w->axis ? "columns" : "rows");
    for (uint32_t i = 0; i < w->axis; i++)
        rows *= (uint64_t)t->dim[i];
    if (t->dim[w->axis] % w->parts || !rows || all % (rows * w->parts))
        return stem_fail(err, STEM_E_WRONG_SHAPE,
                         "%.200s: '%.200s' has %lld %s, which are no %u equal parts, as weight '%.200s' wants",
                         stem_safetensors_shard(f, t)->path, t->name, (long long)t->dim[w->axis],
                         w->axis ? "columns" : "rows", (unsigned)w->parts, w->b->name);
    t->dim[w->axis] /= w->parts;
    t->bytes /= w->parts;
    *p = (struct stem_weight_piece){.bytes = all / rows / w->parts, .rows = rows, .pitch = all / rows};
    p->from = t->data = (const char *)t->data + p->bytes * w->part;
    return STEM_OK;
}

/* ---- which tensors ---- */

static enum stem_status one_tensor(const struct stem_safetensors *f, const struct stem_safetensor *t,
                                   const struct stem_plan_buffer *b, struct stem_weight *w, struct stem_rt_error *err)
{
    const struct wanted want = {.b = b};
    if (!fits(t, &want) || t->bytes != b->bytes)
        return does_not_fit(f, t, &want, err);
    w->pieces[w->n++] = (struct stem_weight_piece){.from = t->data, .bytes = t->bytes, .rows = 1};
    return STEM_OK;
}

/* Tensors of one index of {*}: together they fill `size` bytes from `at` on. */
static enum stem_status one_slot(const struct stem_safetensors *f, const struct stem_safetensor *const *t, uint32_t n,
                                 const struct wanted *want, uint64_t at, uint64_t size, struct stem_weight *w,
                                 struct stem_rt_error *err)
{
    struct stem_safetensor part;
    struct stem_weight_piece p;
    uint64_t end = at;
    for (uint32_t i = 0; i < n; i++) {
        part = *t[i];
        enum stem_status s = narrow(f, want, &part, &p, err);
        if (s || !fits(&part, want))
            return s ? s : does_not_fit(f, &part, want, err);
        p.to = end;
        w->pieces[w->n++] = p;
        end += part.bytes;
    }
    if (end - at == size)
        return STEM_OK;
    if (n == 1)
        return does_not_fit(f, &part, want, err);
    return stem_fail(err, STEM_E_WRONG_SHAPE,
                     "%.200s: '%.200s' and what follows it up to '%.200s' have %llu bytes, the program wants %llu for its "
                     "weight '%.200s': the numbers of their rows do not add up to %lld",
                     f->path, t[0]->name, t[n - 1]->name, (unsigned long long)(end - at), (unsigned long long)size,
                     want->b->name, (long long)want->b->dim[want->skip]);
}

static enum stem_status several(const struct stem_safetensors *f, const struct stem_plan_buffer *b, struct stem_sources *s,
                                const struct stem_safetensor *const *t, struct stem_weight *w, struct stem_rt_error *err)
{
    const struct wanted want = {b, s->star != NULL, s->list != NULL, s->axis, s->part, s->parts};
    enum stem_status status = STEM_OK;
    if (b->bytes % s->n_star)
        return stem_fail(err, STEM_E_WRONG_SHAPE, "weight '%.200s': its %llu bytes are no %u parts", b->name,
                         (unsigned long long)b->bytes, (unsigned)s->n_star);
    for (uint32_t i = 0; i < s->n_star && !status; i++)
        status = one_slot(f, t + (size_t)i * s->n_list, s->n_list, &want, b->bytes / s->n_star * i, b->bytes / s->n_star, w,
                          err);
    return status;
}

/* The tensors that `from` lists into t; *found: how many there are. */
static enum stem_status look_up(const struct stem_safetensors *f, const struct stem_plan_buffer *b,
                                const struct stem_sources *s, const struct stem_safetensor **t, uint32_t *found,
                                struct stem_rt_error *err)
{
    char name[2 * STEM_MAX_SOURCE], first[2 * STEM_MAX_SOURCE] = "";
    uint32_t n = s->n_star * s->n_list;
    *found = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!stem_sources_name(s, i, name, sizeof name))
            return stem_fail(err, STEM_E_PLAN, "weight '%.200s': the name of its tensor is too long", b->name);
        t[i] = stem_safetensors_find(f, name);
        *found += t[i] != NULL;
        if (!t[i] && !first[0])
            memcpy(first, name, sizeof first);
    }
    return *found == n ? STEM_OK : missing(f, b, first, err);
}

/* "down[:, 0/8]" of a weight `down`: the text, not the name, says how much of the tensor it is. */
static bool takes_part_of_itself(const struct stem_plan_buffer *b)
{
    struct stem_sources s;
    char name[2 * STEM_MAX_SOURCE];
    return b->from && !stem_sources_parse(b->from, b->rank, b->dim, &s) && s.parts > 1 && s.n_star * s.n_list == 1 &&
           stem_sources_name(&s, 0, name, sizeof name) && !strcmp(name, b->name);
}

void stem_weight_free(struct stem_weight *w)
{
    free(w->pieces);
    memset(w, 0, sizeof *w);
}

enum stem_status stem_weight_find(const struct stem_safetensors *f, const struct stem_plan_buffer *b, bool strict,
                                  struct stem_weight *w, struct stem_rt_error *err)
{
    struct stem_sources s = {0};
    const struct stem_safetensor *own = takes_part_of_itself(b) ? NULL : stem_safetensors_find(f, b->name), **t = NULL;
    enum stem_status status = STEM_OK;
    memset(w, 0, sizeof *w);
    stem_error_clear(err);
    if (!own && !b->from)
        return strict ? missing(f, b, b->name, err) : STEM_OK;
    if (!own && stem_sources_parse(b->from, b->rank, b->dim, &s))
        return stem_fail(err, STEM_E_PLAN, "weight '%.200s': '%.200s' is no list of tensors", b->name, b->from);
    uint32_t n = own ? 1 : s.n_star * s.n_list, found = 0;
    w->pieces = stem_zalloc(n, sizeof *w->pieces);
    t = stem_zalloc(n, sizeof *t);
    if (!w->pieces || !t)
        status = stem_fail(err, STEM_E_MEMORY, "out of memory");
    else if (own)
        status = one_tensor(f, own, b, w, err);
    else if ((status = look_up(f, b, &s, t, &found, err)) == STEM_OK)
        status = several(f, b, &s, t, w, err);
    free(t);
    if (status == STEM_E_MISSING && !found && !strict) {
        status = STEM_OK; /* none of it is here */
        stem_error_clear(err);
    }
    if (status || !w->n)
        stem_weight_free(w);
    return status;
}

/* ---- for callers ---- */

enum stem_status stem_safetensors_check(const struct stem_safetensors *f, const struct stem_safetensor *t,
                                        const struct stem_plan_buffer *b, struct stem_rt_error *err)
{
    const struct wanted want = {.b = b};
    stem_error_clear(err);
    STEM_NEED(f, "f");
    STEM_NEED(t, "t");
    STEM_NEED(b, "b");
    return fits(t, &want) && t->bytes == b->bytes ? STEM_OK : does_not_fit(f, t, &want, err);
}

enum stem_status stem_safetensors_read(const struct stem_safetensors *f, const struct stem_plan_buffer *b, bool strict,
                                       void *to, bool *found, struct stem_rt_error *err)
{
    struct stem_weight w;
    STEM_NEED(found, "found");
    *found = false;
    STEM_NEED(f, "f");
    STEM_NEED(b, "b");
    enum stem_status s = stem_weight_find(f, b, strict, &w, err);
    *found = !s && w.n;
    for (uint32_t i = 0; !s && to && i < w.n; i++)
        stem_weight_piece_copy(&w.pieces[i], (char *)to + w.pieces[i].to);
    stem_weight_free(&w);
    return s;
}
