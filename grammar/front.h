/* SPDX-License-Identifier: Apache-2.0
 *
 * The only door to the scanner and the parser.
 */
#ifndef STEM_GRAMMAR_FRONT_H
#define STEM_GRAMMAR_FRONT_H

#include "ast/ast.h"
#include "base/diag.h"

#define STEM_MAX_SOURCE (16u << 20) /* bytes; larger texts are refused with STEM1006 */

/* Text to tree. Reports what is wrong on `diags` (10xx, 11xx) and goes on behind it, so the tree is never NULL; use
 * it only if stem_diags_errors() did not grow. Any byte sequence is fine as input. The tree lives in `arena`, its
 * names in `strings`, and it refers to `source`. Reentrant. */
struct stem_ast *stem_parse(struct stem_arena *arena, struct stem_strtab *strings, const struct stem_source *source,
                            struct stem_diags *diags);

#endif
