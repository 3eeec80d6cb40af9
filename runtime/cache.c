/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of cubins. An entry is a header, the cubin and NVRTC's log. Writers make a file of their own beside it,
 * sync it and rename it over the entry; the last one wins, and all write the same bytes.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "internal.h"

static const char magic[8] = {'S', 'T', 'E', 'M', 'C', 'U', 'B', '1'};

struct header {
    char magic[8];
    uint64_t key_high, key_low;
    uint64_t cubin_bytes, log_bytes;
    uint64_t sum_high, sum_low; /* XXH3 of what follows */
    uint64_t unused;
};

enum { MAX_ENTRY = 1 << 30, STALE_SECONDS = 3600 /* no write and no compiler takes that long */ };

#define TEMPORARY ".new-"

static void hash_text(XXH3_state_t *h, const char *s)
{
    XXH3_128bits_update(h, s, strlen(s) + 1);
}

struct stem_cache_key stem_cache_key(const char *source, uint32_t arch, const char *const *options,
                                     uint32_t n_options, int nvrtc_major, int nvrtc_minor)
{
    XXH3_state_t h;
    XXH3_128bits_reset(&h);
    char text[96];
    snprintf(text, sizeof text, "1 sm_%u nvrtc %d.%d options %u", (unsigned)arch, nvrtc_major, nvrtc_minor,
             (unsigned)n_options);
    hash_text(&h, text);
    for (uint32_t i = 0; i < n_options; i++)
        hash_text(&h, options[i]);
    hash_text(&h, source);
    XXH128_hash_t d = XXH3_128bits_digest(&h);
    return (struct stem_cache_key){d.high64, d.low64};
}

char *stem_cache_dir(const char *chosen)
{
    const char *set = chosen ? chosen : getenv("MAINSTEM_CACHE"), *base;
    if (set)
        return set[0] ? strdup(set) : NULL;
    if ((base = getenv("XDG_CACHE_HOME")) && base[0] == '/')
        return stem_format("%s/mainstem", base);
    if ((base = getenv("HOME")) && base[0])
        return stem_format("%s/.cache/mainstem", base);
    return NULL;
}

static char *entry_path(const char *dir, struct stem_cache_key key)
{
    return stem_format("%s/%016llx%016llx.cubin", dir, (unsigned long long)key.high, (unsigned long long)key.low);
}

static bool read_all(int fd, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read(fd, (char *)to + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)from + done, n - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

static XXH128_hash_t checksum(const void *cubin, size_t cubin_bytes, const void *log, size_t log_bytes)
{
    XXH3_state_t h;
    XXH3_128bits_reset(&h);
    XXH3_128bits_update(&h, cubin, cubin_bytes);
    XXH3_128bits_update(&h, log, log_bytes);
    return XXH3_128bits_digest(&h);
}

/* True if the header belongs to this key and to a file of this size. */
static bool plausible(const struct header *h, struct stem_cache_key key, uint64_t file_bytes)
{
    return memcmp(h->magic, magic, sizeof magic) == 0 && h->key_high == key.high && h->key_low == key.low &&
           h->cubin_bytes > 0 && h->cubin_bytes <= MAX_ENTRY && h->log_bytes <= MAX_ENTRY &&
           file_bytes == sizeof *h + h->cubin_bytes + h->log_bytes;
}

static bool read_entry(int fd, struct stem_cache_key key, struct stem_cubin *out)
{
    struct stat st;
    struct header h;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !read_all(fd, &h, sizeof h) ||
        !plausible(&h, key, (uint64_t)st.st_size))
        return false;
    void *data = malloc(h.cubin_bytes);
    char *text = malloc(h.log_bytes + 1);
    if (data && text && read_all(fd, data, h.cubin_bytes) && read_all(fd, text, h.log_bytes)) {
        XXH128_hash_t sum = checksum(data, h.cubin_bytes, text, h.log_bytes);
        if (sum.high64 == h.sum_high && sum.low64 == h.sum_low) {
            text[h.log_bytes] = '\0';
            out->data = data;
            out->bytes = h.cubin_bytes;
            out->log = text;
            return true;
        }
    }
    free(data);
    free(text);
    return false;
}

bool stem_cache_read(const char *dir, struct stem_cache_key key, struct stem_cubin *out, const struct stem_log *log)
{
    char *path = entry_path(dir, key);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    bool hit = fd >= 0 && read_entry(fd, key, out);
    if (fd >= 0)
        close(fd);
    stem_log(log, "cache", "%s %s", hit ? "hit" : fd >= 0 ? "damaged, ignored:" : "miss", path ? path : dir);
    free(path);
    return hit;
}

/* mkdir -p; whether it worked shows when the file is made. */
static void make_dirs(const char *dir)
{
    char *path = strdup(dir);
    for (char *c = path; c && *c; c++) {
        if (*c != '/' || c == path)
            continue;
        *c = '\0';
        mkdir(path, 0700);
        *c = '/';
    }
    if (path)
        mkdir(path, 0700);
    free(path);
}

void stem_cache_sweep(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    struct stat st;
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, prefix, strlen(prefix)) && !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(st.st_mode) && st.st_mtime < time(NULL) - STALE_SECONDS)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

struct bytes {
    const void *at;
    size_t n;
};

/* Pieces one after the other, as a file that appears whole; `path` is freed. */
static void write_file(const char *dir, char *path, const struct bytes *piece, size_t n, const struct stem_log *log)
{
    make_dirs(dir);
    stem_cache_sweep(dir, TEMPORARY);
    char *temporary = stem_format("%s/" TEMPORARY "XXXXXX", dir);
    int fd = path && temporary ? mkostemp(temporary, O_CLOEXEC) : -1;
    bool ok = fd >= 0;
    for (size_t i = 0; i < n && ok; i++)
        ok = write_all(fd, piece[i].at, piece[i].n);
    ok = ok && fsync(fd) == 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    if (ok)
        ok = rename(temporary, path) == 0;
    if (!ok)
        stem_log(log, "cache", "not written: %s: %s", path ? path : dir, strerror(errno));
    if (!ok && fd >= 0)
        unlink(temporary);
    free(path);
    free(temporary);
}

char *stem_cache_note(const char *dir, const char *name)
{
    char *path = stem_format("%s/%s", dir, name), *text = calloc(1, 8192);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (text && fd >= 0 && read(fd, text, 8191) < 0)
        text[0] = '\0';
    if (fd >= 0)
        close(fd);
    free(path);
    return text;
}

void stem_cache_set_note(const char *dir, const char *name, const char *text, const struct stem_log *log)
{
    write_file(dir, stem_format("%s/%s", dir, name), &(struct bytes){text, strlen(text)}, 1, log);
}

void stem_cache_write(const char *dir, struct stem_cache_key key, const struct stem_cubin *cubin,
                      const struct stem_log *log)
{
    size_t log_bytes = strlen(cubin->log);
    XXH128_hash_t sum = checksum(cubin->data, cubin->bytes, cubin->log, log_bytes);
    struct header h = {.key_high = key.high,
                       .key_low = key.low,
                       .cubin_bytes = cubin->bytes,
                       .log_bytes = log_bytes,
                       .sum_high = sum.high64,
                       .sum_low = sum.low64};
    memcpy(h.magic, magic, sizeof magic);
    const struct bytes pieces[] = {{&h, sizeof h}, {cubin->data, cubin->bytes}, {cubin->log, log_bytes}};
    write_file(dir, entry_path(dir, key), pieces, 3, log);
}
