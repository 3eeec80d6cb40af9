/* SPDX-License-Identifier: Apache-2.0
 *
 * References of attention_part and attention_combine: scores and sums in double, p rounded as the device does. Pages
 * outside of the cache count as page 0, lengths are clamped, indices outside of the sequence are left out.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attention/attention.h"
#include "ops/linear/linear.h"
#include "ops/ref.h"

static int64_t clamp(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n > most ? most : n;
}

struct stem_attention_share stem_attention_share_out(const struct stem_attention_sizes *s, const int32_t *lens)
{
    int64_t items = s->tokens * s->groups;
    struct stem_attention_share r = {stem_ref_alloc((size_t)(items + 1) * sizeof *r.start),
                                     stem_ref_alloc((size_t)(s->parts + 1) * sizeof *r.first)};
    r.start[0] = 0;
    for (int64_t i = 0; i < items; i++) {
        int64_t n = s->indices ? s->indices : clamp(lens[i / s->groups], s->most);
        r.start[i + 1] = r.start[i] + (n + s->unit - 1) / s->unit;
    }
    int64_t all = r.start[items], item = 0;
    for (int64_t b = 0; b <= s->parts; b++) {
        while (b > 0 && item + 1 < items && r.start[item + 1] <= all * b / s->parts)
            item++;
        r.first[b] = item;
    }
    r.first[s->parts] = items - 1;
    return r;
}

void stem_attention_share_free(struct stem_attention_share *share)
{
    free(share->start);
    free(share->first);
}

struct reader {
    const struct stem_attention_sizes *s;
    enum stem_dtype type;
    void *const *data;
    int64_t token, kv_head;
};

/* Row of the cache, in rows of `width` elements, at a position of the token's sequence; -1: none. */
static int64_t row_of(const struct reader *r, int64_t position)
{
    const struct stem_attention_sizes *s = r->s;
    if (s->indices) {
        const int32_t *chosen = r->data[5], *lens = r->data[4];
        position = chosen[r->token * s->indices + position];
        if (position < 0 || position >= clamp(lens[r->token], s->max_pages * s->page))
            return -1;
    }
    int64_t page = ((const int32_t *)r->data[3])[r->token * s->max_pages + position / s->page];
    if (page < 0 || page >= s->pages)
        page = 0;
    return (page * s->page + position % s->page) * s->kv_heads + r->kv_head;
}

struct sums {
    double *score;    /* of one row of q: for each position of the share */
    float *q, *k, *v; /* rows, positions */
    bool *present;    /* positions */
};

static void part_row(const struct reader *r, struct sums *t, int64_t row, int64_t n, double scale, float *acc,
                     float *ml)
{
    const struct stem_attention_sizes *s = r->s;
    double m = -INFINITY, l = 0, *sum = stem_ref_alloc((size_t)s->latent * sizeof *sum);
    memset(sum, 0, (size_t)s->latent * sizeof *sum);
    for (int64_t i = 0; i < n; i++) {
        if (!t->present[i])
            continue;
        double dot = 0;
        for (int64_t d = 0; d < s->width; d++)
            dot += (double)t->q[row * s->width + d] * (double)t->k[i * s->width + d];
        t->score[i] = (double)((float)dot * (float)(scale * 1.4426950408889634));
        m = fmax(m, t->score[i]);
    }
    m = ceil(m);
    for (int64_t i = 0; i < n; i++) {
        if (!t->present[i])
            continue;
        double p = stem_ref_round(r->type, (float)exp2(t->score[i] - m));
        l += p;
        for (int64_t d = 0; d < s->latent; d++)
            sum[d] += p * (double)t->v[i * s->width + d];
    }
    for (int64_t d = 0; d < s->latent; d++)
        acc[d] = (float)sum[d];
    ml[0] = m > -INFINITY ? (float)m : 0;
    ml[1] = (float)l;
    free(sum);
}

/* Positions from..to-1 of an item into slot `slot`. */
static void part_slot(const struct reader *r, struct sums *t, int64_t group, int64_t from, int64_t to, double scale,
                      float *acc, float *ml)
{
    const struct stem_attention_sizes *s = r->s;
    for (int64_t i = 0; i < to - from; i++) {
        int64_t row = row_of(r, from + i);
        t->present[i] = row >= 0;
        if (row < 0)
            continue;
        stem_ref_load_row(r->type, r->data[1], row * s->width, 1, (uint32_t)s->width, t->k + i * s->width);
        stem_ref_load_row(r->type, r->data[r->data[2] ? 2 : 1], row * s->width, 1, (uint32_t)s->width,
                          t->v + i * s->width);
    }
    for (int64_t j = 0; j < s->rows && group * s->rows + j < s->heads; j++) {
        int64_t head = r->token * s->heads + group * s->rows + j;
        stem_ref_load_row(r->type, r->data[0], head * s->width, 1, (uint32_t)s->width, t->q + j * s->width);
        part_row(r, t, j, to > from ? to - from : 0, scale, acc + j * s->latent, ml + j * 2);
    }
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void stem_attention_part_reference(const struct stem_concrete *c, void *const *given)
{
    struct stem_attention_sizes s = stem_attention_sizes_of(c);
    void *data[6] = {given[0], given[1], given[2], given[3], given[4], s.indices ? given[5] : NULL};
    float *acc = given[c->n_in], *ml = given[c->n_in + 1];
    const int32_t *lens = data[4];
    struct stem_attention_share share = stem_attention_share_out(&s, lens);
    int64_t items = s.tokens * s.groups, all = share.start[items], slots = s.parts + items - 1;
    double scale = stem_op_attr(c->def, c->attrs, "scale")->f;
    size_t room = (size_t)min64(s.most, (all / s.parts + 2) * s.unit);
    struct sums t = {stem_ref_alloc(room * 8), stem_ref_alloc((size_t)(s.rows * s.width) * 4),
                     stem_ref_alloc(room * (size_t)s.width * 4), stem_ref_alloc(room * (size_t)s.width * 4),
                     stem_ref_alloc(room)};
    memset(acc, 0, (size_t)(slots * s.rows * s.latent) * 4);
    memset(ml, 0, (size_t)(slots * s.rows * 2) * 4);
    for (int64_t b = 0; b < s.parts; b++)
        for (int64_t i = share.first[b]; i <= share.first[b + 1]; i++) {
            int64_t n = s.indices ? s.indices : clamp(lens[i / s.groups], s.most), group = i % s.groups;
            int64_t from = max64(all * b / s.parts, share.start[i]) - share.start[i];
            int64_t to = min64(all * (b + 1) / s.parts, share.start[i + 1]) - share.start[i];
            struct reader r = {&s, c->operand[0].dtype, data, i / s.groups, s.kv_heads > 1 ? group : 0};
            part_slot(&r, &t, group, from * s.unit, min64(to * s.unit, n), scale, acc + (b + i) * s.rows * s.latent,
                      ml + (b + i) * s.rows * 2);
        }
    stem_attention_share_free(&share);
    free(t.score);
    free(t.q);
    free(t.k);
    free(t.v);
    free(t.present);
}

void stem_attention_combine_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *a = &c->operand[0], *y = &c->operand[3];
    const struct stem_attr *attrs = c->attrs;
    int64_t rows = a->dim[1], width = a->dim[2], heads = y->dim[1];
    struct stem_attention_sizes s = {.tokens = y->dim[0],
                                     .groups = stem_op_attr(c->def, attrs, "groups")->i,
                                     .unit = stem_op_attr(c->def, attrs, "unit")->i,
                                     .parts = stem_op_attr(c->def, attrs, "parts")->i,
                                     .most = stem_op_attr(c->def, attrs, "most")->i};
    s.indices = stem_op_attr(c->def, attrs, "sparse")->i ? s.most : 0;
    struct stem_attention_share share = stem_attention_share_out(&s, data[2]);
    const float *acc = data[0], *ml = data[1];
    for (int64_t o = 0; o < s.tokens * heads; o++) {
        int64_t row = o % heads % rows, item = o / heads * s.groups + o % heads / rows;
        double top = -INFINITY, sum = 0;
        for (int64_t b = 0; b < s.parts; b++) {
            const float *p = ml + ((b + item) * rows + row) * 2;
            if (share.first[b] <= item && item <= share.first[b + 1] && p[1] != 0)
                top = fmax(top, (double)p[0]);
        }
        double *v = stem_ref_alloc((size_t)width * sizeof *v);
        memset(v, 0, (size_t)width * sizeof *v);
        for (int64_t b = 0; b < s.parts; b++) {
            int64_t slot = (b + item) * rows + row;
            if (share.first[b] > item || item > share.first[b + 1] || ml[slot * 2 + 1] == 0)
                continue;
            double f = exp2((double)ml[slot * 2] - top);
            sum += f * (double)ml[slot * 2 + 1];
            for (int64_t d = 0; d < width; d++)
                v[d] += f * (double)acc[slot * width + d];
        }
        for (int64_t d = 0; d < width; d++)
            stem_ref_store(y->dtype, data[3], o * width + d, sum != 0 ? (float)(v[d] / sum) : 0);
        free(v);
    }
    stem_attention_share_free(&share);
}
