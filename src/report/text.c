/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule as text: a row for each stream, ops by name from left to right in issue order.
 *
 *     main ─ x ─┬─ gate ─ route ─ routed ─┬─ out ─
 *     side      └─ up ─ act ─ shared ─────┘
 *
 * A line goes down (or up) from behind an op to the first op of another stream that waits for it. Columns say what
 * comes before what, not how long anything takes.
 */
#include <string.h>

#include "report/grid.h"
#include "report/report.h"

enum { MAX_ROWS = 32, MAX_OPS = 1500, MAX_PARTS = 24, MAX_NAMED = 6 };

struct drawing {
    const struct stem_plan_variant *v;
    const struct stem_fold *fold;
    struct stem_arena *arena;
    struct stem_grid grid;
    uint32_t row_of[MAX_ROWS + 1]; /* by stream */
    uint32_t end[MAX_ROWS];        /* by row: first column behind what is there */
    bool closed[MAX_ROWS];         /* the row's line has turned into another row */
    uint32_t *behind;              /* by op of the fold: column of the cell behind its name */
    bool *forks;                   /* by op of the fold: an op of another row waits for it */
    uint32_t *latest;              /* by row: its last op so far, STEM_NONE: none */
    uint32_t edge;                 /* next of v->edges */
    struct stem_out *notes;        /* waits that could not be drawn */
    size_t prefix;                 /* bytes that all names begin with */
};

/* Of many repeats, without the number of this one: "moe[0].x" for "moe[0].x[2]". */
static const char *name_of(const struct drawing *d, uint32_t op)
{
    const char *name = d->v->ops[op].name, *number = strrchr(name, '[');
    bool numbered = number && number > name && number[1 + strspn(number + 1, "0123456789")] == ']' && !strchr(number, '.');
    return d->fold->count > 1 && numbered ? stem_arena_strndup(d->arena, name, (size_t)(number - name)) : name;
}

static const char *short_name(const struct drawing *d, uint32_t op)
{
    return name_of(d, op) + d->prefix;
}

static uint32_t row(const struct drawing *d, uint32_t op)
{
    return d->row_of[d->v->ops[op].stream % MAX_ROWS];
}

static void horizontal(struct drawing *d, uint32_t r, uint32_t from, uint32_t to)
{
    for (uint32_t c = from; c < to; c++)
        stem_grid_line(&d->grid, r, c, STEM_CELL_LEFT | STEM_CELL_RIGHT);
}

static bool free_between(const struct drawing *d, uint32_t a, uint32_t b, uint32_t column)
{
    for (uint32_t r = a < b ? a + 1 : b + 1; r < (a < b ? b : a); r++)
        if (stem_grid_is_name(&d->grid, r, column))
            return false;
    return true;
}

static void vertical(struct drawing *d, uint32_t from, uint32_t to, uint32_t column)
{
    bool down = to > from;
    stem_grid_line(&d->grid, from, column, STEM_CELL_LEFT | (down ? STEM_CELL_DOWN : STEM_CELL_UP));
    stem_grid_line(&d->grid, to, column, STEM_CELL_RIGHT | (down ? STEM_CELL_UP : STEM_CELL_DOWN));
    for (uint32_t r = down ? from + 1 : to + 1; r < (down ? to : from); r++)
        stem_grid_line(&d->grid, r, column, STEM_CELL_UP | STEM_CELL_DOWN);
}

/* The line of row r from where it ended to `to`, unless it had turned away. */
static void carry_on(struct drawing *d, uint32_t r, uint32_t to)
{
    if (!d->closed[r] && to > d->end[r])
        horizontal(d, r, d->end[r], to);
    if (to > d->end[r])
        d->end[r] = to;
}

static void note(struct drawing *d, uint32_t from, uint32_t to)
{
    stem_out_printf(d->notes, "  %s also waits for %s\n", short_name(d, to), short_name(d, from));
}

/* A wait of op `to` for op `from` of another row, right behind this or, where the row of `to` is
 * farther already, from `join` on. If something has been placed behind `from` on its row meanwhile, only the column
 * that was left for this right behind it will do. */
static void wait(struct drawing *d, uint32_t from, uint32_t to, uint32_t join)
{
    uint32_t a = row(d, from), b = row(d, to), column = d->behind[from - d->fold->first];
    bool last = d->latest[a] == from, fork = d->end[b] <= column;
    if (last && (!fork || !free_between(d, a, b, column)))
        for (column = join; !free_between(d, a, b, column); column++)
            continue;
    if ((!last && !fork) || !free_between(d, a, b, column) || column + 1 >= d->grid.cap) {
        note(d, from, to);
        return;
    }
    if (last)
        carry_on(d, a, column);
    if (d->end[a] <= column)
        d->end[a] = column + 1;
    carry_on(d, b, column);
    if (!d->closed[b])
        stem_grid_line(&d->grid, b, column, STEM_CELL_LEFT);
    vertical(d, a, b, column);
    d->closed[b] = false;
    d->end[b] = column + 1;
    if (last && a)
        d->closed[a] = true; /* main's line always goes on */
}

static bool in_fold(const struct drawing *d, uint32_t op)
{
    return op >= d->fold->first && op < d->fold->first + d->fold->period;
}

static bool drawn(const struct drawing *d, const struct stem_plan_edge *e)
{
    return in_fold(d, e->from) && row(d, e->from) != row(d, e->to);
}

static void waits(struct drawing *d, uint32_t op)
{
    const struct stem_plan_edge *edges = d->v->edges;
    uint32_t end, join = d->end[row(d, op)] + 1;
    while (d->edge < d->v->n_edges && edges[d->edge].to < op)
        d->edge++;
    for (end = d->edge; end < d->v->n_edges && edges[end].to == op; end++)
        if (drawn(d, &edges[end]) && d->latest[row(d, edges[end].from)] == edges[end].from &&
            d->end[row(d, edges[end].from)] > join)
            join = d->end[row(d, edges[end].from)];
    for (; d->edge < end; d->edge++)
        if (drawn(d, &edges[d->edge]))
            wait(d, edges[d->edge].from, op, join);
}

static void wall(struct drawing *d)
{
    uint32_t column = 0;
    for (uint32_t r = 0; r < d->grid.rows; r++)
        column = d->end[r] > column ? d->end[r] : column;
    for (uint32_t r = 0; r < d->grid.rows; r++) {
        if (d->latest[r] != STEM_NONE)
            carry_on(d, r, column);
        stem_grid_line(&d->grid, r, column, STEM_CELL_WALL);
        d->end[r] = column + 1;
        d->closed[r] = r > 0;
    }
}

static void place(struct drawing *d, uint32_t op)
{
    uint32_t r = row(d, op), n = stem_name_columns(short_name(d, op)), k = op - d->fold->first;
    uint32_t at = d->end[r] + 1, before = d->latest[r] - d->fold->first;
    if (d->latest[r] != STEM_NONE && d->forks[before] && at < d->behind[before] + 2)
        at = d->behind[before] + 2;
    if (d->end[r] && d->latest[r] != STEM_NONE && !stem_grid_empty(&d->grid, r, d->end[r] - 1, d->end[r]))
        stem_grid_line(&d->grid, r, d->end[r] - 1, STEM_CELL_RIGHT);
    d->closed[r] = false;
    while (at + n + 2 < d->grid.cap && !stem_grid_empty(&d->grid, r, at, at + n + 2))
        at++;
    carry_on(d, r, at);
    stem_grid_name(&d->grid, r, at + 1, short_name(d, op));
    d->end[r] = at + n + 2;
    d->behind[k] = d->end[r];
    d->latest[r] = op;
    if (d->forks[k]) { /* the next op leaves room for a line to another row */
        horizontal(d, r, d->end[r], d->end[r] + 1);
        d->behind[k] = ++d->end[r];
    }
}

/* Bytes up to the last dot that all names of the fold share. */
static size_t common_prefix(const struct stem_plan_variant *v, const struct stem_fold *f)
{
    const char *first = v->ops[f->first].name;
    size_t n = strlen(first);
    for (uint32_t i = f->first; i < f->first + f->period; i++) {
        size_t k = 0;
        while (k < n && v->ops[i].name[k] == first[k])
            k++;
        n = k;
    }
    while (n && first[n - 1] != '.')
        n--;
    return n;
}

/* Rows are the streams with ops in the fold, and main. */
static uint32_t rows_of(const struct stem_plan *p, struct drawing *d, const char **labels)
{
    bool used[MAX_ROWS] = {true};
    uint32_t n = 0;
    for (uint32_t i = d->fold->first; i < d->fold->first + d->fold->period; i++)
        used[d->v->ops[i].stream % MAX_ROWS] = true;
    for (uint32_t s = 0; s < p->n_streams && s < MAX_ROWS; s++)
        if (used[s]) {
            d->row_of[s] = n;
            labels[n++] = p->streams[s];
        }
    return n;
}

static void draw(struct drawing *d, uint32_t n)
{
    size_t columns = 64;
    for (uint32_t i = d->fold->first; i < d->fold->first + n; i++)
        columns += 2 * (size_t)stem_name_columns(short_name(d, i)) + 24;
    stem_grid_new(&d->grid, d->grid.rows, (uint32_t)columns, d->arena);
    d->behind = STEM_NEW_ARRAY(d->arena, uint32_t, n + 1);
    d->forks = STEM_NEW_ARRAY(d->arena, bool, n + 1);
    d->latest = STEM_NEW_ARRAY(d->arena, uint32_t, d->grid.rows);
    for (uint32_t e = 0; e < d->v->n_edges; e++)
        if (in_fold(d, d->v->edges[e].to) && drawn(d, &d->v->edges[e]) && d->v->edges[e].from - d->fold->first < n)
            d->forks[d->v->edges[e].from - d->fold->first] = true;
    for (uint32_t r = 0; r < d->grid.rows; r++) {
        d->latest[r] = STEM_NONE;
        d->end[r] = 0;
        d->closed[r] = r > 0;
    }
    for (uint32_t i = d->fold->first; i < d->fold->first + n; i++) {
        if (i > d->fold->first && d->v->ops[i].segment != d->v->ops[i - 1].segment)
            wall(d);
        waits(d, i);
        place(d, i);
    }
    /* What goes on to the right. */
    uint32_t end = 0;
    for (uint32_t r = 0; r < d->grid.rows; r++)
        end = d->end[r] + 1 > end ? d->end[r] + 1 : end;
    for (uint32_t r = 0; r < d->grid.rows; r++)
        if (d->latest[r] != STEM_NONE)
            carry_on(d, r, end);
}

/* Where repeats interleave: what the second one waits for in the first, on another row. */
static void note_repeats(struct drawing *d)
{
    const struct stem_fold *f = d->fold;
    uint32_t next = f->first + f->period;
    for (uint32_t e = 0; f->count > 1 && e < d->v->n_edges && d->v->edges[e].to < next + f->period; e++) {
        const struct stem_plan_edge *x = &d->v->edges[e];
        if (x->to >= next && drawn(d, x) && !x->continuation)
            stem_out_printf(d->notes, "  from repeat to repeat: %s waits for %s\n", name_of(d, x->to), name_of(d, x->from));
    }
}

/* Bytes of `name` before as many dots as `first` has in its prefix. */
static size_t same_dots(const char *first, size_t prefix, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < prefix; i++)
        if (first[i] == '.')
            n += strcspn(name + n, ".") + 1;
    return n + strcspn(name + n, ".");
}

static const char *repeat_name(const struct stem_plan_variant *v, const struct stem_fold *f, uint32_t k,
                               size_t prefix, struct stem_arena *a)
{
    const char *name = v->ops[f->first + k * f->period].name;
    return stem_arena_printf(a, "%.*s", (int)same_dots(v->ops[f->first].name, prefix, name), name);
}

/* Repeats until names come again, as those of layers that share weights in turn do; all repeats if none does. */
static uint32_t names_in_turn(const struct stem_plan_variant *v, const struct stem_fold *f, size_t prefix,
                              struct stem_arena *a)
{
    uint32_t turn = 0;
    const char **name = STEM_NEW_ARRAY(a, const char *, f->count);
    for (uint32_t k = 0; k < f->count; k++) {
        name[k] = repeat_name(v, f, k, prefix, a);
        if (!turn && k && !strcmp(name[k], name[0]))
            turn = k;
        if (turn && strcmp(name[k], name[k % turn]))
            return f->count;
    }
    return turn ? turn : f->count;
}

/* "moe[0] to moe[3]", or "moe[0] to moe[3] in turn" where there are more repeats than names. */
static void heading_names(const struct stem_plan_variant *v, const struct stem_fold *f, size_t prefix,
                          struct stem_arena *a, struct stem_out *o)
{
    uint32_t names = prefix ? names_in_turn(v, f, prefix, a) : 1;
    stem_out_str(o, prefix ? repeat_name(v, f, 0, prefix, a) : "ops");
    if (names > 1)
        stem_out_printf(o, " to %s%s", repeat_name(v, f, names - 1, prefix, a), names < f->count ? " in turn" : "");
}

static void heading(const struct stem_plan_variant *v, const struct stem_fold *f, const struct stem_timeline *t,
                    size_t prefix, struct stem_arena *a, struct stem_out *o)
{
    const struct stem_plan_op *first = &v->ops[f->first], *last = &v->ops[f->first + f->period * f->count - 1];
    double begin = t->start[f->first], end = 0;
    for (uint32_t i = f->first; i < f->first + f->period * f->count; i++) {
        begin = t->start[i] < begin ? t->start[i] : begin;
        end = t->end[i] > end ? t->end[i] : end;
    }
    heading_names(v, f, prefix, a, o);
    if (f->count > 1)
        stem_out_printf(o, ", %u times %u op%s", f->count, f->period, f->period > 1 ? "s" : "");
    else
        stem_out_printf(o, ", %u op%s", f->period, f->period > 1 ? "s" : "");
    stem_out_printf(o, ", %.1f us", (end - begin) / f->count);
    stem_out_str(o, f->count > 1 ? " each" : "");
    if (last->segment != first->segment)
        stem_out_printf(o, ", segments %u to %u", first->segment, last->segment);
    else if (v->n_segments > 1)
        stem_out_printf(o, ", segment %u", first->segment);
    stem_out_char(o, '\n');
}

void stem_schedule_text(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_text_style style,
                        struct stem_out *o)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_alike alike;
    struct stem_folds folds;
    struct stem_timeline t;
    struct stem_out notes = {0};
    const char *labels[MAX_ROWS];
    style.width = style.width < 40 ? 40 : style.width;
    stem_alike_find(v, a, &alike);
    stem_folds_find(v, &alike, a, &folds);
    stem_timeline_estimate(v, p->n_streams, a, &t);
    struct drawing d = {.v = v, .arena = a, .notes = &notes};
    for (uint32_t i = 0; i < folds.len && i < MAX_NAMED; i++) {
        d.fold = &folds.at[i];
        d.grid.rows = rows_of(p, &d, labels);
        d.edge = 0;
        d.prefix = common_prefix(v, d.fold);
        heading(v, d.fold, &t, d.prefix, a, o);
        draw(&d, d.fold->period < MAX_OPS ? d.fold->period : MAX_OPS);
        note_repeats(&d);
        stem_grid_print(&d.grid, labels, style, MAX_PARTS, o);
        stem_out_bytes(o, stem_out_text(&notes), notes.len);
        stem_out_free(&notes);
    }
    if (folds.len > MAX_NAMED)
        stem_out_printf(o, "%u ops more: mainstem report draws all of them\n", v->n_ops - folds.at[MAX_NAMED].first);
    stem_arena_free(a);
}

bool stem_schedule_same(const struct stem_plan_variant *a, const struct stem_plan_variant *b)
{
    bool same = a->n_ops == b->n_ops && a->n_edges == b->n_edges;
    for (uint32_t i = 0; same && i < a->n_ops; i++)
        same = a->ops[i].stream == b->ops[i].stream && a->ops[i].segment == b->ops[i].segment &&
               !strcmp(a->ops[i].name, b->ops[i].name);
    for (uint32_t i = 0; same && i < a->n_edges; i++)
        same = a->edges[i].from == b->edges[i].from && a->edges[i].to == b->edges[i].to;
    return same;
}
