/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells, and how they are printed: as box drawing characters, or as + - |.
 */
#include "report/grid.h"

#include <string.h>

#include "base/width.h"

enum { INDENT = 2 };

void stem_grid_new(struct stem_grid *g, uint32_t rows, uint32_t columns, struct stem_arena *a)
{
    *g =
        (struct stem_grid){.rows = rows, .cap = columns, .cell = STEM_NEW_ARRAY(a, uint32_t, (size_t)rows * columns)};
}

static uint32_t *at(const struct stem_grid *g, uint32_t row, uint32_t column)
{
    return &g->cell[(size_t)row * g->cap + column];
}

bool stem_grid_is_name(const struct stem_grid *g, uint32_t row, uint32_t column)
{
    return column < g->cap && *at(g, row, column) >= 32;
}

bool stem_grid_empty(const struct stem_grid *g, uint32_t row, uint32_t from, uint32_t to)
{
    for (uint32_t c = from; c < to && c < g->cap; c++)
        if (*at(g, row, c))
            return false;
    return true;
}

static void used(struct stem_grid *g, uint32_t column)
{
    if (column >= g->columns)
        g->columns = column + 1;
}

void stem_grid_line(struct stem_grid *g, uint32_t row, uint32_t column, uint32_t directions)
{
    if (column >= g->cap || stem_grid_is_name(g, row, column))
        return;
    *at(g, row, column) |= directions;
    used(g, column);
}

/* The code point at *s, which moves on; '?' for what is no text. */
static uint32_t next(const char **s)
{
    const char *at = *s;
    uint32_t n = stem_character(at, (uint32_t)strnlen(at, 4)), c = n ? stem_code_point(at, n) : 0;
    *s += n ? n : 1;
    return c < 33 ? '?' : c;
}

uint32_t stem_name_columns(const char *name)
{
    uint32_t n = 0;
    while (*name) {
        next(&name);
        n++;
    }
    return n;
}

void stem_grid_name(struct stem_grid *g, uint32_t row, uint32_t column, const char *name)
{
    for (; *name && column < g->cap; column++) {
        *at(g, row, column) = next(&name);
        used(g, column);
    }
}

static void put_code(uint32_t c, bool ascii, struct stem_out *o)
{
    if (c < 0x80)
        stem_out_char(o, (char)c);
    else if (ascii)
        stem_out_char(o, '?');
    else if (c < 0x800)
        stem_out_printf(o, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
    else if (c < 0x10000)
        stem_out_printf(o, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)), (int)(0x80 | (c & 0x3f)));
    else
        stem_out_printf(o, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 0x3f)),
                        (int)(0x80 | (c >> 6 & 0x3f)), (int)(0x80 | (c & 0x3f)));
}

static void put_cell(uint32_t c, bool ascii, struct stem_out *o)
{
    /* By UP 1, DOWN 2, LEFT 4, RIGHT 8. */
    static const char *const box[16] = {" ", "╵", "╷", "│", "╴", "┘", "┐", "┤",
                                        "╶", "└", "┌", "├", "─", "┴", "┬", "┼"};
    if (c >= 32)
        put_code(c, ascii, o);
    else if (c & STEM_CELL_WALL)
        stem_out_str(o, ascii ? "#" : "║");
    else if (!ascii)
        stem_out_str(o, box[c]);
    else
        stem_out_char(o, c == 0 ? ' ' : !(c & 3) ? '-' : !(c & 12) ? '|' : '+');
}

/* Between a name and the blank beside it: a part would begin or end without its line. */
static bool splits_blank(const struct stem_grid *g, uint32_t row, uint32_t c)
{
    return (!*at(g, row, c) && c + 1 < g->columns && stem_grid_is_name(g, row, c + 1)) ||
           (!*at(g, row, c - 1) && c > 1 && stem_grid_is_name(g, row, c - 2));
}

/* Where the part that begins at `from` ends: before the last column at which no row has a name, nor the blank beside
 * one if that can be had. */
static uint32_t cut(const struct stem_grid *g, uint32_t from, uint32_t width)
{
    if (g->columns - from <= width)
        return g->columns;
    uint32_t second = 0;
    for (uint32_t c = from + width; c > from + width / 3; c--) {
        bool name = false, line = false, blank = false;
        for (uint32_t r = 0; r < g->rows; r++) {
            name |= stem_grid_is_name(g, r, c) || stem_grid_is_name(g, r, c - 1);
            line |= *at(g, r, c) != 0;
            blank |= splits_blank(g, r, c);
        }
        if (line && !name && !blank)
            return c;
        second = line && !name && !second ? c : second;
    }
    return second ? second : from + width;
}

/* A part that would begin at the blank before a name begins with the line that the part above ended with, instead. */
static bool line_again(const struct stem_grid *g, uint32_t c)
{
    bool blank = false;
    for (uint32_t r = 0; c < g->columns && r < g->rows; r++) {
        uint32_t before = *at(g, r, c - 1);
        if (before && before != (STEM_CELL_LEFT | STEM_CELL_RIGHT))
            return false;
        blank |= before && !*at(g, r, c) && c + 1 < g->columns && stem_grid_is_name(g, r, c + 1);
    }
    return blank;
}

static void put_row(const struct stem_grid *g, uint32_t row, uint32_t from, uint32_t to, bool ascii,
                    struct stem_out *o)
{
    while (to > from && !*at(g, row, to - 1))
        to--;
    for (uint32_t c = from; c < to; c++)
        put_cell(*at(g, row, c), ascii, o);
}

void stem_grid_print(const struct stem_grid *g, const char *const *labels, struct stem_text_style style,
                     uint32_t max_parts, struct stem_out *o)
{
    uint32_t margin = 0, parts = 0;
    for (uint32_t r = 0; r < g->rows; r++)
        margin = stem_name_columns(labels[r]) > margin ? stem_name_columns(labels[r]) : margin;
    margin = margin > style.width / 3 ? style.width / 3 : margin;
    uint32_t width = style.width - INDENT - margin - 1;
    for (uint32_t from = 0, to; from < g->columns; from = to - line_again(g, to)) {
        if (max_parts && parts == max_parts) {
            stem_out_printf(o, "  (goes on for %u more columns: mainstem report draws all of it)\n",
                            g->columns - from);
            return;
        }
        to = cut(g, from, width);
        if (parts++)
            stem_out_char(o, '\n');
        for (uint32_t r = 0; r < g->rows; r++) {
            uint32_t n = 0;
            if (parts > 1 && stem_grid_empty(g, r, from, to))
                continue; /* its ops are all in the parts above */
            stem_out_printf(o, "%*s", INDENT, "");
            for (const char *s = labels[r]; *s && n < margin; n++)
                put_code(next(&s), style.ascii, o);
            if (!stem_grid_empty(g, r, from, to)) {
                stem_out_printf(o, "%*s", (int)(margin - n + 1), "");
                put_row(g, r, from, to, style.ascii, o);
            }
            stem_out_char(o, '\n');
        }
    }
}
