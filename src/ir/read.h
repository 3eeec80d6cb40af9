/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of the textual IR: read.c (pieces, head, values) and read_op.c (ops, schedule). Nobody else includes
 * this. Each stem_ir_* reads a piece from the token in hand on; after a fault it does nothing and gives something
 * harmless.
 */
#ifndef STEM_IR_READ_H
#define STEM_IR_READ_H

#include "ir/lex.h"
#include "ir/text.h"

/* One `use` statement: lifetimes of a buffer. */
struct stem_ir_use {
    struct stem_op_id first, free_after;
    uint32_t begin, end; /* in sched.last_use */
};

struct stem_ir_reader {
    struct stem_ir_lexer l;
    struct stem_program *p;
    uint32_t n_streams, n_segments; /* statements read */
    STEM_VEC(struct stem_ir_use) uses;
};

bool stem_ir_is(const struct stem_ir_reader *r, const char *text);
bool stem_ir_accept(struct stem_ir_reader *r, const char *text);
void stem_ir_expect(struct stem_ir_reader *r, const char *text);
const char *stem_ir_string(struct stem_ir_reader *r); /* lives as long as reading */
struct stem_sym stem_ir_sym(struct stem_ir_reader *r);
int64_t stem_ir_int(struct stem_ir_reader *r, int64_t low, int64_t high);
double stem_ir_float(struct stem_ir_reader *r);
uint32_t stem_ir_word(struct stem_ir_reader *r, const char *const *words, const char *what);
/* "v12": the number behind `letter`, below `limit`; one that must be the next; whether there is one. */
uint32_t stem_ir_id(struct stem_ir_reader *r, char letter, uint32_t limit);
void stem_ir_new_id(struct stem_ir_reader *r, char letter, uint32_t next);
bool stem_ir_at_id(const struct stem_ir_reader *r, char letter);

void stem_ir_read_op(struct stem_ir_reader *r);
/* The statement that begins with `word`, which has been read. */
void stem_ir_read_schedule(struct stem_ir_reader *r, const char *word);
void stem_ir_finish_schedule(struct stem_ir_reader *r);

#endif
