/* SPDX-License-Identifier: Apache-2.0
 *
 * Cubins on disk, by content. Safe against crashes and concurrent writers: an entry appears by rename, whole, and is
 * believed only if its sizes, key and checksum fit. No failure here is an error of the caller's.
 */
#ifndef STEM_RUNTIME_CACHE_H
#define STEM_RUNTIME_CACHE_H

#include "mainstem_rt.h"

struct stem_cache_key {
    uint64_t high, low;
};

/* Of everything that a cubin depends on. */
struct stem_cache_key stem_cache_key(const char *source, uint32_t arch, const char *const *options,
                                     uint32_t n_options, int nvrtc_major, int nvrtc_minor);
/* Directory by the rule of struct stem_compiler_options; malloc'd, or NULL if there is none. */
char *stem_cache_dir(const char *chosen);
/* Removes the files of a directory whose names begin with `prefix` and that are older than an hour: what writers that were
 * killed left behind. */
void stem_cache_sweep(const char *dir, const char *prefix);
/* True if an intact entry was read into *out. */
bool stem_cache_read(const char *dir, struct stem_cache_key key, struct stem_cubin *out, const struct stem_log *log);
/* A line of text under a name, "" if there is none; malloc'd, or NULL when out of memory. */
char *stem_cache_note(const char *dir, const char *name);
void stem_cache_set_note(const char *dir, const char *name, const char *text, const struct stem_log *log);
void stem_cache_write(const char *dir, struct stem_cache_key key, const struct stem_cubin *cubin,
                      const struct stem_log *log);

#endif
