/* SPDX-License-Identifier: Apache-2.0
 *
 * The templates of emitted host code (src/emit/host), built into the library as text. `@word@` is replaced, and
 * `@if word@ ... @else@ ... @end@` kept or dropped, by host_text.c; `@@` is an @.
 */
#ifndef STEM_EMIT_HOST_TEXT_H
#define STEM_EMIT_HOST_TEXT_H

#include "base/out.h"

extern const char stem_host_api[], stem_host_types[], stem_host_base[], stem_host_order[], stem_host_memory[], stem_host_image[], stem_host_matmul[],
    stem_host_create[], stem_host_launch[], stem_host_graph[], stem_host_make[], stem_host_cmake[], stem_host_cmakelists[];

struct stem_host_word {
    const char *word, *text; /* text NULL: a condition that does not hold */
};

/* Expands a template into `o`. A word that is not in the list is a bug and aborts; `words` ends with a NULL word. */
void stem_host_expand(struct stem_out *o, const char *text, const struct stem_host_word *words);

/* A C string literal, quotes included; and a text that may stand in a comment. */
void stem_host_string(struct stem_out *o, const char *s);
void stem_host_comment(struct stem_out *o, const char *s);

#endif
