/* SPDX-License-Identifier: Apache-2.0
 *
 * A drawing in character cells: names, and lines that know in which directions they leave their cell.
 */
#ifndef STEM_REPORT_GRID_H
#define STEM_REPORT_GRID_H

#include "report/report.h"

enum stem_cell { STEM_CELL_UP = 1, STEM_CELL_DOWN = 2, STEM_CELL_LEFT = 4, STEM_CELL_RIGHT = 8, STEM_CELL_WALL = 16 };

struct stem_grid {
    uint32_t rows, columns; /* columns in use */
    uint32_t cap;
    uint32_t *cell; /* rows * cap: 0 empty, below 32 a set of directions, else a code point of a name */
};

void stem_grid_new(struct stem_grid *g, uint32_t rows, uint32_t columns, struct stem_arena *a);
bool stem_grid_empty(const struct stem_grid *g, uint32_t row, uint32_t from, uint32_t to);
bool stem_grid_is_name(const struct stem_grid *g, uint32_t row, uint32_t column);
/* Adds directions to a cell that holds no name. */
void stem_grid_line(struct stem_grid *g, uint32_t row, uint32_t column, uint32_t directions);
/* Columns of a name: UTF-8, control characters as '?'. */
uint32_t stem_name_columns(const char *name);
void stem_grid_name(struct stem_grid *g, uint32_t row, uint32_t column, const char *name);
/* Rows with their labels; wider drawings go on below, cut where no name stands if that is possible. At most
 * `max_parts` such parts are printed (0: all). */
void stem_grid_print(const struct stem_grid *g, const char *const *labels, struct stem_text_style style,
                     uint32_t max_parts, struct stem_out *o);

#endif
