/* SPDX-License-Identifier: Apache-2.0
 *
 * The expression of a pointwise op: postfix text, tokens separated by single blanks. It says how one element of the
 * result is computed from one element of each operand.
 *
 *     i0 i1 ..       operand 0, 1, .. converted to f32 (exactly, but i32 and i64 round to nearest even)
 *     c:0.5          an f32 constant, written with %.9g so that it reads back the same
 *     neg abs relu sqrt rsqrt exp log tanh sigmoid silu gelu gelu_tanh      one argument
 *     add sub mul div min max                                               two: "i0 i1 sub" is i0 - i1
 *     as:bf16        rounds to the element type and back to f32
 *
 * Casts from one integer type to another at the end of an expression never pass through f32 (stem_expr_whole): they are
 * exact, and clamp what does not fit. In the middle of one f32 is enough: rounding to f32 is monotonic, and each end of
 * an integer type's range goes to the f32 that is clamped to that end, so f32 -> the type -> f32 gives what rounding
 * the exact cast gives.
 *
 * All arithmetic is f32, each operation rounded by itself (never contracted to a fused multiply-add), so an
 * expression has one value however it is cut into kernels. Fusing a producer into a consumer puts an `as:` of the
 * producer's element type where it used to be stored, so fusion never changes a bit.
 */
#ifndef STEM_OPS_POINTWISE_EXPR_H
#define STEM_OPS_POINTWISE_EXPR_H

#include "base/arena.h"
#include "base/out.h"
#include "runtime/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#define STEM_EXPR_MAX_NODES 96
#define STEM_EXPR_MAX_INPUTS 15

enum stem_expr_kind { STEM_EXPR_INPUT, STEM_EXPR_CONST, STEM_EXPR_UNARY, STEM_EXPR_BINARY, STEM_EXPR_AS };

/* The order is that of the names in expr.c. */
enum stem_expr_fn {
    STEM_FN_NEG, STEM_FN_ABS, STEM_FN_RELU, STEM_FN_SQRT, STEM_FN_RSQRT, STEM_FN_EXP, STEM_FN_LOG, STEM_FN_TANH,
    STEM_FN_SIGMOID, STEM_FN_SILU, STEM_FN_GELU, STEM_FN_GELU_TANH,
    STEM_FN_ADD, STEM_FN_SUB, STEM_FN_MUL, STEM_FN_DIV, STEM_FN_MIN, STEM_FN_MAX, /* from here on binary */
    STEM_N_FN
};

struct stem_expr_node {
    enum stem_expr_kind kind;
    enum stem_expr_fn fn; /* UNARY, BINARY */
    uint32_t input;       /* INPUT */
    float constant;       /* CONST */
    enum stem_dtype as;   /* AS */
    uint32_t a, b;        /* arguments: earlier nodes */
};

/* Postfix: arguments come before what uses them; the last node is the result. */
struct stem_expr {
    struct stem_expr_node node[STEM_EXPR_MAX_NODES];
    uint32_t n;
    uint32_t n_inputs; /* 1 + the highest input */
};

const char *stem_expr_fn_name(enum stem_expr_fn fn);
/* STEM_N_FN for an unknown name. */
enum stem_expr_fn stem_expr_fn_find(const char *name);
static inline bool stem_expr_fn_binary(enum stem_expr_fn fn)
{
    return fn >= STEM_FN_ADD;
}

/* False if the text is no expression, with *why a static text. */
bool stem_expr_parse(struct stem_expr *e, const char *text, const char **why);
void stem_expr_print(const struct stem_expr *e, struct stem_out *o);

/* Appends a node; for building an expression from its leaves. Each returns the node's number, UINT32_MAX when there
 * are too many nodes. Start from a zeroed struct stem_expr; finish with the root. Not postfix if an argument is used
 * twice: stem_expr_print writes it out twice. */
uint32_t stem_expr_input(struct stem_expr *e, uint32_t input);
uint32_t stem_expr_const(struct stem_expr *e, float value);
/* f32: just a, unless that may be an integer, which a cast behind it would take as it is and not as the f32. */
uint32_t stem_expr_as(struct stem_expr *e, enum stem_dtype as, uint32_t a);
uint32_t stem_expr_call(struct stem_expr *e, enum stem_expr_fn fn, uint32_t a, uint32_t b);

/* Fuses into `both`: in `consumer`, input `which` becomes `producer` rounded to `stored` (its result's element type),
 * the producer's input j becomes producer_map[j], and the consumer's input i (other than `which`) consumer_map[i].
 * False if the result would be too large when written out. Not postfix: a value that the consumer uses twice is one
 * node. */
bool stem_expr_fuse(struct stem_expr *both, const struct stem_expr *consumer, const uint32_t *consumer_map,
                    uint32_t which, const struct stem_expr *producer, const uint32_t *producer_map,
                    enum stem_dtype stored);
/* The text in the arena; NULL if it does not fit into an expression. */
const char *stem_expr_text(struct stem_arena *a, const struct stem_expr *e);
/* Both for texts. */
const char *stem_expr_compose(struct stem_arena *a, const char *consumer, const uint32_t *consumer_map,
                              uint32_t which, const char *producer, const uint32_t *producer_map,
                              enum stem_dtype stored);
/* Renames inputs: i becomes map[i]. */
const char *stem_expr_rename(struct stem_arena *a, const char *text, const uint32_t *map);

/* The node whose value is cast in integers, by the casts behind it and to the result's type; UINT32_MAX where f32 gives the
 * same, as for every result that is a float. `in` are the element types of the inputs, NULL: floats all of them. */
uint32_t stem_expr_whole(const struct stem_expr *e, const enum stem_dtype *in, enum stem_dtype result);
/* Whether that node is an integer input, to be taken as it lies; if not it is an f32. */
bool stem_expr_whole_input(const struct stem_expr *e, const enum stem_dtype *in, uint32_t whole);

/* Values of the expression at `count` places: in[i] points at the elements of input i as f32. `scratch` holds
 * e->n * count floats. The result is in out. */
void stem_expr_eval(const struct stem_expr *e, const float *const *in, uint32_t count, float *scratch, float *out);

#endif
