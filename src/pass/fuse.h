/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the fuse pass share: fuse.c (pointwise ops into one another), fuse_epilogue.c (into the op that
 * makes what they read), fuse_norm.c (a sum and the normalisation of it), fuse_heads.c (the end of an attention and
 * the product behind it), fuse_store.c (a cache's new rows and the attention over them), fuse_quantize.c (a
 * normalisation and the quantisation of it for products in f8e4m3).
 */
#ifndef STEM_PASS_FUSE_H
#define STEM_PASS_FUSE_H

#include <string.h>

#include "pass/graph.h"

struct stem_fuse {
    struct stem_program *p;
    struct stem_pass_ctx *ctx;
    uint32_t *reads;   /* by buffer: input operands of live ops */
    uint32_t *version; /* by buffer: newest version */
    bool *consumed;    /* by buffer */
    bool *waited_for;  /* by op: named by an `after` */
    bool early;        /* before streams are chosen: only what no choice of them could make worse */
    bool *put_off;     /* by op: goes into what makes its operand unless streams say otherwise */
};

/* A live op of this kind that nothing but data orders, with one result. */
static inline bool stem_fuse_is(const struct stem_op *op, const char *name)
{
    return !op->dead && op->class == STEM_OP_BUILTIN && !strcmp(op->def->name, name) && !op->resource.n &&
           !op->n_after && op->n_out == 1;
}

/* The op that makes this value, if it is a whole temporary that `reader` alone reads, and the two are on one stream,
 * in one segment and ordered by data only; else NO_OP. */
struct stem_op_id stem_fuse_only_for(const struct stem_fuse *s, const struct stem_op *reader, struct stem_value_id id);
/* These values are not overwritten by anybody. */
bool stem_fuse_stay(const struct stem_fuse *s, const struct stem_operand *in, uint32_t n);
bool stem_fuse_same_shape(const struct stem_tensor *a, const struct stem_tensor *b);
/* Adds an operand unless the value is there already, from place `from` on; its place. */
uint32_t stem_fuse_operand(struct stem_operand *o, uint32_t from, uint32_t *n, struct stem_operand x);
/* The op at `op` is now this one: its operands are inputs, then results. Counts readers anew. */
void stem_fuse_replace(struct stem_fuse *s, uint32_t op, const struct stem_op_def *def, const struct stem_attr *attrs,
                       const struct stem_operand *operands, uint32_t n_in, uint32_t n_out);
void stem_fuse_kill(struct stem_fuse *s, uint32_t op);
/* Before `from` goes into `op`: what a layer ends with keeps that name, "moe[3].out", when the sum around the layer's call
 * becomes part of it. */
void stem_fuse_name(struct stem_program *p, uint32_t op, uint32_t from);
const char *stem_fuse_text(const struct stem_fuse *s, const char *text); /* interned */

/* Fuses what is going to be fused whatever the streams, so that they are chosen by what will be launched; all ops are
 * on main still. */
void stem_fuse_early(struct stem_program *p, struct stem_pass_ctx *ctx);

/* fuse_epilogue.c, fuse_norm.c, fuse_heads.c, fuse_store.c, fuse_query.c, fuse_quantize.c */
void stem_fuse_epilogues(struct stem_fuse *s);
void stem_fuse_norms(struct stem_fuse *s);
void stem_fuse_heads(struct stem_fuse *s);
void stem_fuse_stores(struct stem_fuse *s);
void stem_fuse_queries(struct stem_fuse *s);
void stem_fuse_quantised(struct stem_fuse *s);

#endif
