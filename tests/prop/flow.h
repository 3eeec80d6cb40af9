/* SPDX-License-Identifier: Apache-2.0
 *
 * A notation for small dataflow programs, so that tests of passes read as tables. Statements end with ';' or a
 * newline:
 *
 *     input h:1024           an external buffer of that many bytes (also weight, state, output)
 *     view v = x 0 512       512 bytes of x from byte 0
 *     g@M R{h} W{r:512}      an op: on main (M), a side stream (A, B, ...) or, without '@', where the compiler likes
 *     |                      ends the segment
 *
 * Fields of an op: R{a,b} reads; W{a:bytes} writes (1024 bytes unless said; a name declared as output is written in
 * place); inout{x>y} writes in place, y is the new version; consume{x}; release{x}; after{op}; res{name} resource;
 * us=5 its time when alone, without the launch; bytes=1000 what it moves. The values are of type u8. Ops are extern
 * ones.
 */
#ifndef STEM_TESTS_FLOW_H
#define STEM_TESTS_FLOW_H

#include "ir/ir.h"

struct flow {
    struct stem_strtab *strings;
    struct stem_dims *dims;
    struct stem_diags *diags;
    struct stem_program *program;
};

/* Aborts with a message on a notation that it cannot read: a bug of the test. */
struct flow flow_new(const char *text);
/* An empty program with the same parts around it. */
struct flow flow_empty(void);
void flow_free(struct flow *f);
/* The op of that name. */
struct stem_op_id flow_op(const struct flow *f, const char *name);

#endif
