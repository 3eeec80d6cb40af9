/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of the textual IR, shared by print.c and read.c; each table is in the order of its enum and ends with NULL.
 */
#ifndef STEM_IR_TEXT_H
#define STEM_IR_TEXT_H

#include "ir/build.h"

extern const char *const stem_ir_buffer_kind[]; /* enum stem_buffer_kind */
extern const char *const stem_ir_mode[];        /* enum stem_mode */
extern const char *const stem_ir_dep[];         /* enum stem_dep_kind */
extern const char *const stem_ir_scalar[];      /* enum stem_scalar_kind */
extern const char *const stem_ir_fact[];        /* enum stem_fact, by bit */

#endif
