/* SPDX-License-Identifier: Apache-2.0
 *
 * A source text. Locations are byte offsets; lines and columns exist only when something is printed.
 */
#ifndef STEM_BASE_SOURCE_H
#define STEM_BASE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Bytes [begin, end) of a source. {0,0} with begin == end == 0 and no source means "nowhere". */
struct stem_span {
    uint32_t begin, end;
};

struct stem_source {
    const char *path; /* as the user wrote it; for messages and #line */
    const char *text; /* `len` bytes, then a NUL that is not part of it; the text itself may contain NULs */
    uint32_t len;
    const uint32_t *line_begin; /* offset of each line's first byte, n_lines entries, at least one */
    uint32_t n_lines;
};

struct stem_place {
    uint32_t line, column; /* from 1; the column counts bytes */
};

/* Copies path and text into the arena. Texts of 2^31 bytes or more are refused: NULL. */
struct stem_source *stem_source_new(struct stem_arena *a, const char *path, const char *text, size_t len);
/* Reads a file. On failure NULL, with *why a message in the arena. */
struct stem_source *stem_source_read(struct stem_arena *a, const char *path, const char **why);
struct stem_place stem_source_place(const struct stem_source *s, uint32_t offset);
/* Text of a line (from 1) without its newline; *len bytes. */
const char *stem_source_line(const struct stem_source *s, uint32_t line, uint32_t *len);

static inline struct stem_span stem_span_join(struct stem_span a, struct stem_span b)
{
    return (struct stem_span){a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

#endif
