/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of a buffer without keeping it: range, sum and a hash of its bits.
 */
#ifndef STEM_CLI_DIGEST_H
#define STEM_CLI_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/mainstem_rt.h"

enum { STEM_DIGEST_PIECE = 4 << 20 };

struct stem_digest {
    double low, high, sum; /* the sum in the order of the elements */
    uint64_t bad;          /* elements that are not finite */
    uint64_t hash;         /* XXH3 of all bytes */
    uint64_t *piece;       /* the hash of all bytes up to the end of each piece; NULL: of host memory */
};

struct stem_digest stem_digest_of(const struct stem_plan_buffer *b, const void *data);
/* Of n buffers on the device, in threads. d[].piece are malloc'd, also after a failure. */
bool stem_digest_device(struct stem_rt *rt, const struct stem_plan_buffer *const *b, const uint64_t *at, uint32_t n,
                        struct stem_digest *d, struct stem_rt_error *err);
/* The hash of a list of hashes, one at a time. */
uint64_t stem_digest_fold(uint64_t so_far, uint64_t hash);

#endif
