/* SPDX-License-Identifier: Apache-2.0
 *
 * The preprocessor's directives in a piece of C++: a lexer that knows comments, strings (raw ones, too), character constants,
 * numbers and continued lines, and evaluates nothing. What a condition leaves out is found as well.
 */
#ifndef STEM_BASE_DIRECTIVE_H
#define STEM_BASE_DIRECTIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/out.h"

struct stem_directives {
    const char *at, *end; /* what is still to be read */
    bool middle;          /* the line has something already: a # is no directive */
    /* the last one found */
    const char *begin;         /* its # */
    struct stem_out word, name; /* "define", and for define, undef and ifdef the name behind it; without continuations */
};

struct stem_directives stem_directives_of(const char *text, size_t len);
/* False: there is no other one. */
bool stem_directive_next(struct stem_directives *d);
void stem_directives_free(struct stem_directives *d);

#endif
