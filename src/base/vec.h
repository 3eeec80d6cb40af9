/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable array, as a macro so that the element type shows in the declaration:
 *
 *     STEM_VEC(struct stem_op) ops = {0};
 *     stem_vec_push(&ops, op);
 *     for (uint32_t i = 0; i < ops.len; i++) use(&ops.at[i]);
 *     stem_vec_free(&ops);
 *
 * Pushing moves elements: keep indices, not pointers.
 */
#ifndef STEM_BASE_VEC_H
#define STEM_BASE_VEC_H

#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"

#define STEM_VEC(T)        \
    struct {               \
        T *at;             \
        uint32_t len, cap; \
    }

/* `at` has type T *, so the cast through void * loses nothing that a caller sees. */
#define stem_vec_reserve(v, n)                                                              \
    ((n) > (v)->cap ? (void)((v)->cap = (n) > 2 * (v)->cap ? (uint32_t)(n) : 2 * (v)->cap,  \
                             (v)->at = stem_xrealloc((v)->at, (v)->cap * sizeof *(v)->at)) \
                    : (void)0)
#define stem_vec_push(v, ...) (stem_vec_reserve((v), (v)->len + 1), (v)->at[(v)->len++] = (__VA_ARGS__))
#define stem_vec_pop(v) ((v)->at[--(v)->len])
#define stem_vec_last(v) ((v)->at[(v)->len - 1])
#define stem_vec_clear(v) ((v)->len = 0)
#define stem_vec_free(v) (free((v)->at), (v)->at = NULL, (v)->len = (v)->cap = 0)

#endif
