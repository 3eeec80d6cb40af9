/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading device memory in pieces through page-locked host memory: for what is too large to be kept on the host. Each
 * thread has a staging of its own.
 */
#ifndef STEM_RUNTIME_STAGING_H
#define STEM_RUNTIME_STAGING_H

#include "mainstem_rt.h"

struct stem_staging;

/* For pieces of at most `bytes`. */
enum stem_status stem_staging_new(struct stem_rt *rt, size_t bytes, struct stem_staging **out, struct stem_rt_error *err);
void stem_staging_free(struct stem_staging *s); /* NULL is fine */
/* Waits for the copy. *data is valid until the next one. */
enum stem_status stem_staging_read(struct stem_staging *s, uint64_t from, size_t bytes, const void **data,
                                   struct stem_rt_error *err);

#endif
