/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a program: the front end's expand, composite ops and tests all go through here. The builder keeps the
 * context (layer, stream pin, segment, resource, source span) that each new op takes on.
 */
#ifndef STEM_IR_BUILD_H
#define STEM_IR_BUILD_H

#include "ir/ir.h"

struct stem_builder {
    struct stem_program *program;
    struct stem_dims *dims; /* for type rules; shapes are constants */
    struct stem_diags *diags;
    /* context of the next op */
    struct stem_sym name; /* path of the value being defined, "moe[3].x"; parts made by expand get ".1", ".2" */
    uint32_t layer, segment;
    struct stem_stream_id pin;
    int32_t priority;
    struct stem_sym resource;
    const struct stem_op_id *after;
    uint32_t n_after;
    struct stem_span span;
    uint32_t parts; /* within a composite's expand: number of the next part; else 0 */
};

struct stem_builder stem_builder_new(struct stem_program *p, struct stem_dims *dims, struct stem_diags *diags);

/* A new external or temporary buffer and its first value. Contiguous. External buffers must be added before any
 * TEMP one. align 0: 256. */
struct stem_value_id stem_build_buffer(struct stem_builder *b, enum stem_buffer_kind kind, struct stem_sym name,
                                       enum stem_dtype dtype, uint32_t rank, const int64_t *dim);
/* A view: same buffer and version, `offset` in bytes from the base value's offset. The view of a view is a view of
 * what lies below. */
struct stem_value_id stem_build_view(struct stem_builder *b, struct stem_value_id base, struct stem_sym name,
                                     uint64_t offset, uint32_t rank, const int64_t *dim, const int64_t *stride);

/* Makes `value` live in the buffer of `into`, an external buffer's first value that nothing reads yet: the op that
 * computed it then writes there, with no copy. `into` becomes a view of it, and the old temporary buffer stays behind
 * unused. For `return`: first ask whether it can (the newest version of a whole temporary
 * buffer that an op wrote and none consumes, of the same size); if
 * not, copy with the op `copy`. Takes time in proportion to the program. */
bool stem_build_can_move(const struct stem_builder *b, struct stem_value_id value, struct stem_value_id into);
void stem_build_move(struct stem_builder *b, struct stem_value_id value, struct stem_value_id into);

/* Whether an op may write this value in place, or consume it: only the newest version of a buffer that no op
 * consumes, since the others' bytes are gone or going. Of an external buffer several ops may write parts of one
 * version that do not overlap; asking that takes time in proportion to the program.
 * stem_build_op and stem_build_call copy a temporary buffer's old version first (stem_build_copy_old) and write to
 * the copy; for an external buffer, whose last contents would be a matter of luck, they abort: ask before. */
bool stem_build_can_write(const struct stem_builder *b, struct stem_value_id value);
bool stem_tensor_overlap(const struct stem_tensor *a, const struct stem_tensor *b); /* of one buffer, with bytes in common */
/* Whether two values have bytes in common, whatever their versions; and whether an op before `op` wrote common bytes in a version after that of the value. Time as for stem_build_can_write. */
bool stem_build_overlap(const struct stem_program *p, struct stem_value_id v, struct stem_value_id w);
bool stem_build_written_since(const struct stem_builder *b, struct stem_value_id value, uint32_t op);
/* The bytes of `value` in the newest version, which has them as they were: only other parts were written since, and none is
 * consumed. What is written to it is ordered behind those. NO_VALUE: that is not so. */
struct stem_value_id stem_build_newest(struct stem_builder *b, struct stem_value_id value);
/* A copy of an old version, made before that is overwritten: in the writer's segment, after nothing. And a builder
 * with that context, for other readers of it. */
struct stem_value_id stem_build_copy_old(struct stem_builder *b, struct stem_value_id value);
struct stem_builder stem_build_before_writer(const struct stem_builder *b, struct stem_value_id value);

struct stem_input {
    struct stem_value_id value; /* NO_VALUE: absent */
    enum stem_mode mode;
    struct stem_span span;
};
/* Adds an op (a composite is expanded at once). Runs the type rule; on a fault reports it and returns false. Results:
 * new TEMP buffers, or next versions for INOUT inputs (first, in input order), or the values given in `into`
 * (NULL, or one for each plain result; NO_VALUE: a new buffer): written in place of a new buffer, used for outputs.
 * Strided inputs that the op does not take are copied first. attrs NULL: the defaults. results: room for
 * STEM_MAX_OPERANDS. Results are named like the op; where there are several, "name.result". */
bool stem_build_op(struct stem_builder *b, const struct stem_op_def *def, const struct stem_input *in, uint32_t n_in,
                   const struct stem_attr *attrs, const struct stem_value_id *into, struct stem_value_id *results);
/* Short form for composites and tests: inputs borrowed, attributes by name from a NULL-terminated list of
 * struct stem_attr; aborts on a fault. Returns the first result. */
struct stem_value_id stem_build_simple(struct stem_builder *b, const char *op, const struct stem_value_id *in,
                                       uint32_t n_in, const struct stem_attr *given, uint32_t n_given);
/* KERNEL or EXTERN op: operands with their modes (IN, OUT, INOUT, CONSUME, RELEASE) in parameter order; OUT operands
 * name values of buffers made beforehand by stem_build_buffer and get a defining op; INOUT ones yield new versions.
 * Note: operand order in the op is then inputs first, results after; decl.params follows that order. results[i] is
 * set for each OUT operand i to its value, for each INOUT one to the new version. grid and block NULL: EXTERN.
 * Strided inputs are copied first: kernels see contiguous memory. */
struct stem_op_id stem_build_call(struct stem_builder *b, uint32_t decl, const struct stem_input *operands,
                                  uint32_t n, const struct stem_scalar *scalars, uint32_t n_scalars,
                                  const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                                  struct stem_value_id *results);
/* The op that will be added next has this id; used for `after`. */
struct stem_op_id stem_build_mark(const struct stem_builder *b);

/* ---- for those who change a program or read one ---- */

/* A contiguous tensor without a buffer. False if the shape is impossible: a size below 1, 2^48 elements or more, too
 * many dims. */
bool stem_tensor_init(struct stem_tensor *t, enum stem_dtype dtype, uint32_t rank, const int64_t *dim);
struct stem_type stem_tensor_type(struct stem_dims *dims, const struct stem_tensor *t);
/* Sets op->cost from its operands and attributes. */
void stem_op_set_cost(const struct stem_program *p, struct stem_op *op);

#endif
