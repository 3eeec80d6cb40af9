/* SPDX-License-Identifier: Apache-2.0
 *
 * Conflicts over bytes. Memory is the slab and one space for each external buffer; every space is cut at the ends of
 * all operands' runs into *cells*, so that an op covers whole cells. Walking the ops in issue order, each cell keeps
 * its last writer and, for each stream, its last reader since then: an op that reads must come after the writer, one
 * that writes after the writer and those readers. An earlier reader on the same stream is implied by the later one.
 *
 * Cells of the slab also keep the buffer through which they were written last: reading them through another is
 * reading what that buffer never held.
 */
#include "verify/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* Bytes that a tensor covers: `len` bits at `base` bits, repeated over the outer dims. */
struct runs {
    uint64_t base, len;
    uint32_t n;
    uint64_t dim[STEM_MAX_RANK], stride[STEM_MAX_RANK]; /* stride in bits */
    bool empty;
};

/* A tensor with more separate runs than this is taken to cover the gaps between the innermost ones as well. */
#define MAX_RUNS UINT64_C(65536)

struct space {
    STEM_VEC(uint64_t) cut; /* ends of runs; sorted and unique once all are known */
    uint32_t first_cell;
};

struct stem_check_memory {
    struct space *spaces; /* 0: the slab; 1 + i: external buffer i */
    uint32_t n_spaces;
    uint32_t *writer; /* of each cell: 1 + op, 0: none */
    uint32_t *through; /* of each cell: the buffer it was written through */
    uint32_t *reader; /* of each cell and stream: 1 + op since the last write, 0: none */
    bool *written;    /* of each buffer: an op wrote to it */
};

/* ---- which bytes ---- */

static struct runs runs_of(const struct stem_tensor *t)
{
    struct runs r = {.base = t->offset * 8, .len = stem_dtype_bits(t->dtype)};
    for (uint32_t i = 0; i < t->rank; i++) {
        r.empty |= t->dim[i] == 0;
        if (t->dim[i] <= 1 || t->stride[i] == 0)
            continue;
        uint64_t stride = (uint64_t)t->stride[i] * stem_dtype_bits(t->dtype);
        uint32_t at = r.n++;
        for (; at && r.stride[at - 1] > stride; at--) {
            r.stride[at] = r.stride[at - 1];
            r.dim[at] = r.dim[at - 1];
        }
        r.stride[at] = stride;
        r.dim[at] = (uint64_t)t->dim[i];
    }
    uint64_t count = 1;
    for (uint32_t i = 0; i < r.n; i++)
        count = count > MAX_RUNS || r.dim[i] > MAX_RUNS ? MAX_RUNS + 1 : count * r.dim[i];
    uint32_t merged = 0;
    for (; merged < r.n && (r.stride[merged] <= r.len || count > MAX_RUNS); merged++) {
        r.len += (r.dim[merged] - 1) * r.stride[merged];
        count = 1;
        for (uint32_t i = merged + 1; i < r.n; i++)
            count = count > MAX_RUNS || r.dim[i] > MAX_RUNS ? MAX_RUNS + 1 : count * r.dim[i];
    }
    r.n -= merged;
    memmove(r.dim, r.dim + merged, sizeof *r.dim * r.n);
    memmove(r.stride, r.stride + merged, sizeof *r.stride * r.n);
    return r;
}

struct walk {
    struct runs runs;
    uint64_t index[STEM_MAX_RANK];
    bool done;
};

static struct walk walk_new(const struct stem_tensor *t)
{
    struct walk w = {.runs = runs_of(t)};
    w.done = w.runs.empty;
    return w;
}

/* The next run as bytes [*low, *high) of the tensor's buffer. */
static bool walk_next(struct walk *w, uint64_t *low, uint64_t *high)
{
    if (w->done)
        return false;
    uint64_t at = w->runs.base;
    for (uint32_t i = 0; i < w->runs.n; i++)
        at += w->index[i] * w->runs.stride[i];
    *low = at / 8;
    *high = (at + w->runs.len + 7) / 8;
    uint32_t i = 0;
    while (i < w->runs.n && ++w->index[i] == w->runs.dim[i])
        w->index[i++] = 0;
    w->done = i == w->runs.n;
    return true;
}

/* ---- cells ---- */

/* The space that a buffer lies in and where it starts there; false if its bytes need no watching. */
static bool locate(const struct stem_check *c, uint32_t buffer, uint32_t *space, uint64_t *start)
{
    const struct stem_plan_buffer *b = &c->v->buffers[buffer];
    *space = b->kind == STEM_BUFFER_TEMP ? 0 : 1 + buffer;
    *start = b->kind == STEM_BUFFER_TEMP ? b->offset : 0;
    return b->kind != STEM_BUFFER_WEIGHT; /* never written: structure.c saw to it */
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void cut_operand(struct stem_check *c, const struct stem_tensor *t)
{
    uint32_t space;
    uint64_t start, low, high;
    if (t->buffer == STEM_NONE || !locate(c, t->buffer, &space, &start))
        return;
    struct walk w = walk_new(t);
    while (walk_next(&w, &low, &high)) {
        stem_vec_push(&c->memory->spaces[space].cut, start + low);
        stem_vec_push(&c->memory->spaces[space].cut, start + high);
    }
}

static uint32_t sort_cuts(struct space *s, uint32_t first_cell)
{
    uint32_t n = 0;
    if (s->cut.len)
        qsort(s->cut.at, s->cut.len, sizeof *s->cut.at, by_value);
    for (uint32_t i = 0; i < s->cut.len; i++)
        if (!n || s->cut.at[n - 1] != s->cut.at[i])
            s->cut.at[n++] = s->cut.at[i];
    s->cut.len = n;
    s->first_cell = first_cell;
    return first_cell + (n ? n - 1 : 0);
}

void stem_check_memory_new(struct stem_check *c)
{
    struct stem_check_memory *m = c->memory = STEM_NEW(c->arena, struct stem_check_memory);
    m->n_spaces = 1 + c->plan->n_external;
    m->spaces = STEM_NEW_ARRAY(c->arena, struct space, m->n_spaces);
    m->written = STEM_NEW_ARRAY(c->arena, bool, c->v->n_buffers);
    for (uint32_t i = 0; i < c->v->n_ops; i++)
        for (uint32_t k = 0; k < c->v->ops[i].n_operands; k++)
            cut_operand(c, &c->v->ops[i].operands[k].tensor);
    for (uint32_t i = 0; i < c->plan->n_external; i++)
        if (c->v->buffers[i].kind == STEM_BUFFER_OUTPUT && c->v->buffers[i].bytes) {
            stem_vec_push(&m->spaces[1 + i].cut, 0);
            stem_vec_push(&m->spaces[1 + i].cut, c->v->buffers[i].bytes);
        }
    uint32_t cells = 0;
    for (uint32_t i = 0; i < m->n_spaces; i++)
        cells = sort_cuts(&m->spaces[i], cells);
    m->writer = calloc(cells + 1, sizeof *m->writer);
    m->through = calloc(cells + 1, sizeof *m->through);
    m->reader = calloc((size_t)cells * c->plan->n_streams + 1, sizeof *m->reader);
    if (!m->writer || !m->through || !m->reader)
        stem_out_of_memory();
}

void stem_check_memory_free(struct stem_check *c)
{
    for (uint32_t i = 0; i < c->memory->n_spaces; i++)
        stem_vec_free(&c->memory->spaces[i].cut);
    free(c->memory->writer);
    free(c->memory->through);
    free(c->memory->reader);
}

static uint32_t find_cut(const struct space *s, uint64_t at)
{
    uint32_t low = 0, high = s->cut.len;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (s->cut.at[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- conflicts ---- */

static const char *buffer_text(struct stem_check *c, uint32_t buffer)
{
    return c->v->buffers[buffer].name ? c->v->buffers[buffer].name : "?";
}

/* `first` and `second` touch common bytes and nothing orders them. */
static void race(struct stem_check *c, enum stem_diag_id id, uint32_t first, uint32_t second, const char *what,
                 uint32_t buffer)
{
    const char *a = c->plan->streams[c->v->ops[first].stream], *b = c->plan->streams[c->v->ops[second].stream];
    uint32_t before = c->faults;
    stem_check_fault(c, id, second, first, "%s %s %s in buffer '%s', and nothing orders them",
                     stem_check_op_text(c, second), what, stem_check_op_text(c, first), buffer_text(c, buffer));
    if (c->faults != before)
        stem_diag_help(c->diags, "missing: a wait of stream %s, before op %u, for an event of stream %s after op %u",
                       b, second, a, first);
}

static void read_cell(struct stem_check *c, uint32_t op, uint32_t cell, uint32_t buffer)
{
    struct stem_check_memory *m = c->memory;
    uint32_t w = m->writer[cell], stream = c->v->ops[op].stream;
    bool temp = c->v->buffers[buffer].kind == STEM_BUFFER_TEMP;
    if (w == op + 1) {
        stem_check_fault(c, STEM_E_VERIFY_OVERLAP, op, op, "%s reads bytes of buffer '%s' that it also writes",
                         stem_check_op_text(c, op), buffer_text(c, buffer));
    } else if (temp && (!w || (m->through[cell] != buffer && !m->written[buffer]))) {
        stem_check_fault(c, STEM_E_VERIFY_UNWRITTEN, op, op, "%s reads bytes of buffer '%s' that no op has written",
                         stem_check_op_text(c, op), buffer_text(c, buffer));
    } else if (temp && m->through[cell] != buffer) {
        stem_check_fault(c, STEM_E_VERIFY_REUSE, op, w - 1,
                         "%s reads bytes of buffer '%s' after %s has overwritten them through buffer '%s'",
                         stem_check_op_text(c, op), buffer_text(c, buffer), stem_check_op_text(c, w - 1),
                         buffer_text(c, m->through[cell]));
    } else if (w && !stem_check_before(c, w - 1, stream)) {
        race(c, STEM_E_VERIFY_RAW, w - 1, op, "reads what is written by", buffer);
    }
    m->reader[cell * (size_t)c->plan->n_streams + stream] = op + 1;
}

static void write_cell(struct stem_check *c, uint32_t op, uint32_t cell, uint32_t buffer, bool also_reads)
{
    struct stem_check_memory *m = c->memory;
    uint32_t w = m->writer[cell], stream = c->v->ops[op].stream;
    uint32_t *reader = &m->reader[cell * (size_t)c->plan->n_streams];
    bool reuse = w && m->through[cell] != buffer;
    if (w == op + 1)
        stem_check_fault(c, STEM_E_VERIFY_OVERLAP, op, op, "%s writes the same bytes of buffer '%s' twice",
                         stem_check_op_text(c, op), buffer_text(c, buffer));
    else if (w && !stem_check_before(c, w - 1, stream))
        race(c, reuse ? STEM_E_VERIFY_REUSE : STEM_E_VERIFY_WAW, w - 1, op,
             reuse ? "takes the bytes written by" : "overwrites what is written by", m->through[cell]);
    for (uint32_t s = 0; s < c->plan->n_streams; s++) {
        uint32_t r = reader[s];
        reader[s] = 0;
        if (!r || (r == op + 1 && also_reads))
            continue;
        if (r == op + 1)
            stem_check_fault(c, STEM_E_VERIFY_OVERLAP, op, op, "%s writes bytes of buffer '%s' that it also reads",
                             stem_check_op_text(c, op), buffer_text(c, buffer));
        else if (!stem_check_before(c, r - 1, stream))
            race(c, reuse ? STEM_E_VERIFY_REUSE : STEM_E_VERIFY_WAR, r - 1, op,
                 reuse ? "takes the bytes read by" : "overwrites what is read by", reuse ? m->through[cell] : buffer);
    }
    m->writer[cell] = op + 1;
    m->through[cell] = buffer;
}

/* Does the op already read bytes of an operand that it is about to update in place? */
static void check_alone(struct stem_check *c, uint32_t op, const struct stem_plan_operand *x)
{
    uint32_t space, buffer = x->tensor.buffer, stream = c->v->ops[op].stream;
    uint64_t start, low, high;
    if (!locate(c, buffer, &space, &start))
        return;
    const struct space *s = &c->memory->spaces[space];
    struct walk w = walk_new(&x->tensor);
    while (walk_next(&w, &low, &high))
        for (uint32_t i = find_cut(s, start + low); s->cut.at[i] != start + high; i++)
            if (c->memory->reader[(s->first_cell + i) * (size_t)c->plan->n_streams + stream] == op + 1)
                stem_check_fault(c, STEM_E_VERIFY_OVERLAP, op, op,
                                 "%s updates bytes of buffer '%s' that it also reads through another operand",
                                 stem_check_op_text(c, op), buffer_text(c, buffer));
}

static void access_operand(struct stem_check *c, uint32_t op, const struct stem_plan_operand *x, bool writes)
{
    uint32_t space, buffer = x->tensor.buffer;
    uint64_t start, low, high;
    if (buffer == STEM_NONE || !locate(c, buffer, &space, &start))
        return;
    const struct space *s = &c->memory->spaces[space];
    struct walk w = walk_new(&x->tensor);
    while (walk_next(&w, &low, &high))
        for (uint32_t i = find_cut(s, start + low); s->cut.at[i] != start + high; i++) {
            if (!writes)
                read_cell(c, op, s->first_cell + i, buffer);
            else
                write_cell(c, op, s->first_cell + i, buffer, x->access & STEM_READ);
        }
}

/* An operand updated in place may be given a second time as the very same tensor (x = x + x), not as another part. */
static bool given_twice(const struct stem_plan_op *o, uint32_t k)
{
    const struct stem_tensor *a = &o->operands[k].tensor;
    for (uint32_t i = 0; i < o->n_operands; i++) {
        const struct stem_tensor *b = &o->operands[i].tensor;
        bool same = i != k && a->buffer == b->buffer && a->offset == b->offset && a->dtype == b->dtype &&
                    a->rank == b->rank;
        for (uint32_t d = 0; same && d < a->rank; d++)
            same = a->dim[d] == b->dim[d] && a->stride[d] == b->stride[d];
        if (same)
            return true;
    }
    return false;
}

void stem_check_memory_op(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    for (uint32_t i = 0; i < o->n_operands; i++)
        if (o->operands[i].access == STEM_READ)
            access_operand(c, op, &o->operands[i], false);
    for (uint32_t i = 0; i < o->n_operands; i++)
        if (o->operands[i].access == STEM_READ_WRITE) {
            if (!given_twice(o, i))
                check_alone(c, op, &o->operands[i]);
            access_operand(c, op, &o->operands[i], false);
        }
    for (uint32_t i = 0; i < o->n_operands; i++)
        if (o->operands[i].access & STEM_WRITE) {
            access_operand(c, op, &o->operands[i], true);
            c->memory->written[o->operands[i].tensor.buffer] = true;
        }
}

void stem_check_memory_end(struct stem_check *c)
{
    for (uint32_t i = 0; i < c->plan->n_external && c->faults < STEM_VERIFY_MAX_FAULTS; i++) {
        if (c->v->buffers[i].kind != STEM_BUFFER_OUTPUT)
            continue;
        const struct space *s = &c->memory->spaces[1 + i];
        uint32_t k = 0;
        while (k + 1 < s->cut.len && c->memory->writer[s->first_cell + k])
            k++;
        if (k + 1 < s->cut.len)
            stem_check_fault(c, STEM_E_VERIFY_OUTPUT, STEM_NONE, STEM_NONE,
                             "bytes %llu to %llu of the output '%s' are never written",
                             (unsigned long long)s->cut.at[k], (unsigned long long)s->cut.at[k + 1] - 1,
                             buffer_text(c, i));
    }
}
