/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/digest.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arena.h"
#include "cli/device.h"
#include "ops/ref.h"
#include "runtime/staging.h"

double stem_element(enum stem_dtype dtype, const void *data, uint64_t i)
{
    switch (dtype) {
    case STEM_I32:
    case STEM_I64:
    case STEM_U8: return (double)stem_ref_load_int(dtype, data, (int64_t)i);
    case STEM_NVFP4:
    case STEM_INT4: return ((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15; /* the code: it has no value of its own */
    default: return stem_ref_load(dtype, data, (int64_t)i);
    }
}

static void add_one(struct stem_digest *d, double x)
{
    d->bad += !isfinite(x);
    d->low = x < d->low ? x : d->low;
    d->high = x > d->high ? x : d->high;
    d->sum += x;
}

/* A cache has thousands of millions of elements: floats are decoded in rows, by loops that vectorise. */
static void add(struct stem_digest *d, enum stem_dtype dtype, const void *data, uint64_t bytes)
{
    enum { ROW = 256 };
    float row[ROW];
    uint64_t n = bytes * 8 / stem_dtype_bits(dtype);
    bool floats = dtype == STEM_BF16 || dtype == STEM_F16 || dtype == STEM_F32 || dtype == STEM_F8E4M3;
    for (uint64_t i = 0; i < n && floats; i += ROW) {
        uint32_t count = n - i < ROW ? (uint32_t)(n - i) : ROW;
        stem_ref_load_row(dtype, data, (int64_t)i, 1, count, row);
        for (uint32_t k = 0; k < count; k++)
            add_one(d, row[k]);
    }
    for (uint64_t i = 0; i < n && !floats; i++)
        add_one(d, stem_element(dtype, data, i));
}

struct stem_digest stem_digest_of(const struct stem_plan_buffer *b, const void *data)
{
    struct stem_digest d = {.low = INFINITY, .high = -INFINITY, .hash = XXH3_64bits(data, b->bytes)};
    add(&d, b->dtype, data, b->bytes);
    return d;
}

uint64_t stem_digest_fold(uint64_t so_far, uint64_t hash)
{
    uint64_t both[2] = {so_far, hash};
    return XXH3_64bits(both, sizeof both);
}

/* ---- on the device ---- */

enum { MOST_THREADS = 32 };

struct work {
    struct stem_rt *rt;
    const struct stem_plan_buffer *const *b;
    const uint64_t *at;
    uint32_t n;
    struct stem_digest *d;
    atomic_uint next;
    atomic_bool failed;
    pthread_mutex_t lock; /* of err */
    struct stem_rt_error *err;
};

static void fail(struct work *w, const struct stem_rt_error *err)
{
    pthread_mutex_lock(&w->lock);
    if (!atomic_exchange(&w->failed, true))
        *w->err = *err;
    pthread_mutex_unlock(&w->lock);
}

static bool digest_one(struct work *w, uint32_t i, struct stem_staging *s, XXH3_state_t *hash, struct stem_rt_error *err)
{
    const struct stem_plan_buffer *b = w->b[i];
    struct stem_digest *d = &w->d[i];
    XXH3_64bits_reset(hash);
    for (uint64_t from = 0; from < b->bytes; from += STEM_DIGEST_PIECE) {
        uint64_t bytes = b->bytes - from < STEM_DIGEST_PIECE ? b->bytes - from : STEM_DIGEST_PIECE;
        const void *data;
        if (stem_staging_read(s, w->at[i] + from, bytes, &data, err) != STEM_OK)
            return false;
        XXH3_64bits_update(hash, data, bytes);
        d->piece[from / STEM_DIGEST_PIECE] = XXH3_64bits_digest(hash);
        add(d, b->dtype, data, bytes);
    }
    d->hash = XXH3_64bits_digest(hash);
    return true;
}

static void *digest_some(void *user)
{
    struct work *w = user;
    struct stem_staging *s = NULL;
    struct stem_rt_error err = {.status = STEM_E_MEMORY, .message = "out of memory"};
    XXH3_state_t *hash = XXH3_createState();
    bool fine = hash && stem_staging_new(w->rt, STEM_DIGEST_PIECE, &s, &err) == STEM_OK;
    for (uint32_t i; fine && !atomic_load(&w->failed) && (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        fine = digest_one(w, i, s, hash, &err);
    if (!fine)
        fail(w, &err);
    stem_staging_free(s);
    XXH3_freeState(hash);
    return NULL;
}

bool stem_digest_device(struct stem_rt *rt, const struct stem_plan_buffer *const *b, const uint64_t *at, uint32_t n,
                        struct stem_digest *d, struct stem_rt_error *err)
{
    struct work w = {.rt = rt, .b = b, .at = at, .n = n, .d = d, .lock = PTHREAD_MUTEX_INITIALIZER, .err = err};
    pthread_t thread[MOST_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = cores < 1 ? 1 : cores < MOST_THREADS ? (uint32_t)cores : MOST_THREADS, started = 0;
    for (uint32_t i = 0; i < n; i++)
        d[i] = (struct stem_digest){
            .low = INFINITY, .high = -INFINITY, .piece = stem_xmalloc((b[i]->bytes / STEM_DIGEST_PIECE + 1) * sizeof *d->piece)};
    while (started + 1 < most && started + 1 < n && !pthread_create(&thread[started], NULL, digest_some, &w))
        started++;
    digest_some(&w);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return !atomic_load(&w.failed);
}
