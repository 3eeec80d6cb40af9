/* SPDX-License-Identifier: Apache-2.0
 *
 * A cursor over JSON that knows where it is. Getters return a harmless value once something went wrong, so that
 * readers need not check after each; the first fault is kept with its place.
 */
#ifndef STEM_RUNTIME_PLAN_READER_H
#define STEM_RUNTIME_PLAN_READER_H

#include <jansson.h>

#include "plan.h"

enum { STEM_READ_MEMBERS = 32 };

struct stem_reader {
    struct stem_plan *plan;
    char path[512]; /* of the value being read */
    char *error;    /* the first fault; once set, every getter returns a harmless value */
};

/* An object being read, with the names asked for, so that a member nobody asked for is an error. */
struct stem_read_object {
    const json_t *json;
    const char *seen[STEM_READ_MEMBERS];
    size_t n;
};

/* ---- place and faults ---- */

void stem_read_fail(struct stem_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Descends into a member, or into element `index` if it is NULL; returns the length to go back to. */
size_t stem_read_enter(struct stem_reader *r, const char *member, size_t index);
void stem_read_leave(struct stem_reader *r, size_t n);
void stem_read_fail_at(struct stem_reader *r, const char *member, const char *text);

/* ---- values: of type stem_read_*, of members stem_get_* ---- */

bool stem_read_open(struct stem_reader *r, struct stem_read_object *o, const json_t *json);
void stem_read_close(struct stem_reader *r, const struct stem_read_object *o);
const json_t *stem_read_member(struct stem_reader *r, struct stem_read_object *o, const char *name, bool required);
int64_t stem_read_integer(struct stem_reader *r, const json_t *v, int64_t low, int64_t high);
int64_t stem_get_int(struct stem_reader *r, struct stem_read_object *o, const char *name, int64_t low, int64_t high);
uint32_t stem_get_u32(struct stem_reader *r, struct stem_read_object *o, const char *name);
uint64_t stem_get_u64(struct stem_reader *r, struct stem_read_object *o, const char *name);
/* An index into a table of n entries. */
uint32_t stem_get_index(struct stem_reader *r, struct stem_read_object *o, const char *name, uint32_t n);
int64_t stem_get_int_or(struct stem_reader *r, struct stem_read_object *o, const char *name, int64_t low,
                        int64_t high, int64_t otherwise);
bool stem_get_flag(struct stem_reader *r, struct stem_read_object *o, const char *name);
double stem_read_real(struct stem_reader *r, const json_t *v);
double stem_get_real(struct stem_reader *r, struct stem_read_object *o, const char *name);
const char *stem_read_string(struct stem_reader *r, const json_t *v);
const char *stem_get_string(struct stem_reader *r, struct stem_read_object *o, const char *name);
/* A C identifier: it becomes a symbol. */
const char *stem_get_symbol(struct stem_reader *r, struct stem_read_object *o, const char *name);
uint32_t stem_read_word(struct stem_reader *r, const json_t *v, const char *const *names, size_t n);
uint32_t stem_get_word(struct stem_reader *r, struct stem_read_object *o, const char *name, const char *const *names,
                       size_t n);
enum stem_dtype stem_get_dtype(struct stem_reader *r, struct stem_read_object *o);
/* Opens a list and allocates its records in the plan, zeroed. */
void *stem_read_list(struct stem_reader *r, struct stem_read_object *o, const char *name, bool required, size_t size,
                     const json_t **elements, uint32_t *n);
const int64_t *stem_read_ints(struct stem_reader *r, struct stem_read_object *o, const char *name, int64_t high,
                              uint32_t *n);
void stem_read_three(struct stem_reader *r, struct stem_read_object *o, const char *name, const int64_t high[3],
                     uint32_t out[3]);
void stem_read_dims(struct stem_reader *r, struct stem_read_object *o, const char *name, uint32_t *rank,
                    int64_t dim[STEM_MAX_RANK]);
const char *const *stem_read_strings(struct stem_reader *r, struct stem_read_object *o, const char *name,
                                     uint32_t *n);

/* Runs `body` for each element of a list with `i` and the element `e`, the path set, until the first fault. */
#define STEM_READ_EACH(r, name, elements, n, body)                                                                   \
    do {                                                                                                             \
        size_t outer_ = stem_read_enter(r, name, 0);                                                                 \
        for (uint32_t i = 0; i < (n) && !(r)->error; i++) {                                                          \
            const json_t *e = json_array_get(elements, i);                                                           \
            size_t inner_ = stem_read_enter(r, NULL, i);                                                             \
            body;                                                                                                    \
            stem_read_leave(r, inner_);                                                                              \
        }                                                                                                            \
        stem_read_leave(r, outer_);                                                                                  \
    } while (0)

#endif
