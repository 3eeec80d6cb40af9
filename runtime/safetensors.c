/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads .safetensors files: eight bytes of length (little-endian), a JSON object that gives each tensor's dtype,
 * shape and span, then the data. The whole header is checked when a file is opened, so what follows only looks names
 * up. A handle holds one file, or all files of a checkpoint (checkpoint.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint.h"
#include "internal.h"

enum { MAX_HEADER = 100000000 }; /* bytes: the format's own limit */

/* Bits per element of the format's dtypes; 0: unknown, its size cannot be checked. */
uint64_t stem_safetensors_bits(const char *dtype)
{
    static const struct {
        const char *name;
        uint64_t bits;
    } known[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
                 {"U16", 16}, {"I16", 16}, {"F16", 16}, {"BF16", 16},   {"U32", 32},
                 {"I32", 32}, {"F32", 32}, {"U64", 64}, {"I64", 64},    {"F64", 64},
                 {"F4", 4},   {"F8_E8M0", 8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].name, dtype))
            return known[i].bits;
    return 0;
}

/* ---- opening ---- */

static enum stem_status map_file(struct stem_shard *f, bool named_by_index, struct stem_rt_error *err)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return stem_fail(err, STEM_E_FILE, "cannot open '%.200s'%s: %s", f->path,
                         named_by_index ? ", which the checkpoint's index names" : "", strerror(why));
    }
    if (!S_ISREG(st.st_mode) || st.st_size < 8) {
        close(fd);
        return stem_fail(err, S_ISREG(st.st_mode) ? STEM_E_FORMAT : STEM_E_FILE, "'%.200s' is %s", f->path,
                         S_ISREG(st.st_mode) ? "not a .safetensors file: it is shorter than 8 bytes"
                                             : "not a regular file");
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    close(fd);
    if (map == MAP_FAILED)
        return stem_fail(err, STEM_E_FILE, "cannot read '%.200s': %s", f->path, strerror(why));
    f->map = map;
    f->bytes = (uint64_t)st.st_size;
    return STEM_OK;
}

static enum stem_status bad_tensor(const struct stem_shard *f, const char *name, const char *what,
                                   struct stem_rt_error *err)
{
    return stem_fail(err, STEM_E_FORMAT, "%.200s: tensor '%.200s' %s", f->path, name, what);
}

/* Shape into *t; the number of elements, UINT64_MAX if that is no shape. */
static uint64_t read_shape(const json_t *shape, struct stem_safetensor *t)
{
    uint64_t elements = 1;
    if (!json_is_array(shape) || json_array_size(shape) > 64)
        return UINT64_MAX;
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(shape, i);
        json_int_t size = json_integer_value(d);
        if (!json_is_integer(d) || size < 0 || __builtin_mul_overflow(elements, (uint64_t)size, &elements) ||
            elements > UINT64_MAX / 128)
            return UINT64_MAX;
        if (i < STEM_MAX_RANK)
            t->dim[i] = size;
    }
    return elements;
}

static enum stem_status read_tensor(const struct stem_shard *f, const char *name, const json_t *o,
                                    struct stem_safetensor *t, struct stem_rt_error *err)
{
    const json_t *span = json_object_get(o, "data_offsets");
    const json_t *first = json_array_get(span, 0), *last = json_array_get(span, 1);
    *t = (struct stem_safetensor){.name = name, .dtype = json_string_value(json_object_get(o, "dtype"))};
    if (!t->dtype)
        return bad_tensor(f, name, "has no dtype", err);
    uint64_t elements = read_shape(json_object_get(o, "shape"), t);
    if (elements == UINT64_MAX)
        return bad_tensor(f, name, "has no shape, or an impossible one", err);
    if (json_array_size(span) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return bad_tensor(f, name, "has no data_offsets of two integers", err);
    json_int_t from = json_integer_value(first), end = json_integer_value(last);
    if (from < 0 || end < from)
        return bad_tensor(f, name, "has data_offsets that are no span", err);
    if ((uint64_t)end > f->bytes - f->data)
        return stem_fail(err, STEM_E_FORMAT, "%.200s: tensor '%.200s' lies outside of the file: it ends at byte %llu of %llu; was it cut short?",
                         f->path, name, (unsigned long long)end + f->data, (unsigned long long)f->bytes);
    t->bytes = (uint64_t)(end - from);
    t->data = f->map + f->data + from;
    uint64_t bits = stem_safetensors_bits(t->dtype);
    if (bits && elements * bits / 8 != t->bytes)
        return stem_fail(err, STEM_E_FORMAT, "%.200s: tensor '%.200s' does not have as many bytes as its shape and dtype need: %llu, not %llu",
                         f->path, name, (unsigned long long)t->bytes, (unsigned long long)(elements * bits / 8));
    return STEM_OK;
}

static enum stem_status read_header(struct stem_shard *f, struct stem_rt_error *err)
{
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | f->map[i];
    if (len > f->bytes - 8 || len > MAX_HEADER)
        return stem_fail(err, STEM_E_FORMAT, "'%.200s' is not a .safetensors file, or was cut short: its header does not fit into it, with %llu bytes of %llu",
                         f->path, (unsigned long long)len, (unsigned long long)f->bytes);
    json_error_t e;
    f->header = json_loadb((const char *)f->map + 8, len, JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(f->header))
        return stem_fail(err, STEM_E_FORMAT, "'%.200s' is not a .safetensors file: %s", f->path,
                         f->header ? "its header is no object" : e.text);
    f->data = 8 + len;
    const char *key;
    json_t *value, *metadata = json_object_get(f->header, "__metadata__");
    bool fine = !metadata || json_is_object(metadata);
    json_object_foreach(metadata, key, value)
        fine = fine && json_is_string(value);
    return fine ? STEM_OK : stem_fail(err, STEM_E_FORMAT, "%.200s: __metadata__ is no object of strings", f->path);
}

static int by_place(const void *a, const void *b)
{
    const struct stem_safetensor *s = a, *t = b;
    uintptr_t x = (uintptr_t)s->data, y = (uintptr_t)t->data;
    return x != y ? (x > y) - (x < y) : (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

/* The format wants every byte to belong to exactly one tensor: else something was cut, or written twice. */
static enum stem_status check_spans(const struct stem_shard *f, struct stem_safetensor *t, size_t n, struct stem_rt_error *err)
{
    const uint8_t *at = f->map + f->data, *end = f->map + f->bytes;
    qsort(t, n, sizeof *t, by_place);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *data = t[i].data;
        if (data < at)
            return stem_fail(err, STEM_E_FORMAT, "%.200s: tensors '%.200s' and '%.200s' overlap", f->path, t[i - 1].name, t[i].name);
        if (data > at)
            return stem_fail(err, STEM_E_FORMAT, "%.200s: the bytes from %llu to %llu of its data belong to no tensor", f->path,
                             (unsigned long long)(at - f->map - f->data), (unsigned long long)(data - f->map - f->data) - 1);
        at = data + t[i].bytes;
    }
    return at == end ? STEM_OK
                     : stem_fail(err, STEM_E_FORMAT, "%.200s: the bytes from %llu of its data on belong to no tensor", f->path,
                                 (unsigned long long)(at - f->map - f->data));
}

/* Tensors of shard `i` behind those of the shards before it. */
static enum stem_status read_shard(struct stem_safetensors *f, uint32_t i, struct stem_rt_error *err)
{
    struct stem_shard *shard = &f->shards[i];
    enum stem_status s = map_file(shard, f->index != NULL, err);
    if (!s)
        s = read_header(shard, err);
    if (s)
        return s;
    size_t n = f->n + json_object_size(shard->header) + 1;
    struct stem_safetensor *tensors = realloc(f->tensors, n * sizeof *tensors);
    if (!tensors)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    f->tensors = tensors;
    const char *name;
    json_t *o;
    uint32_t first = f->n;
    json_object_foreach(shard->header, name, o)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        s = read_tensor(shard, name, o, &f->tensors[f->n], err);
        if (s)
            return s;
        f->n++;
    }
    return check_spans(shard, f->tensors + first, f->n - first, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct stem_safetensor *)a)->name, ((const struct stem_safetensor *)b)->name);
}

enum stem_status stem_safetensors_open(const char *path, struct stem_safetensors **out, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(out, "f");
    *out = NULL;
    STEM_NEED(path, "path");
    struct stem_safetensors *f = stem_zalloc(1, sizeof *f);
    if (f)
        f->path = stem_format("%s", path);
    enum stem_status s =
        f && f->path ? stem_checkpoint_shards(f, err) : stem_fail(err, STEM_E_MEMORY, "out of memory");
    for (uint32_t i = 0; !s && i < f->n_shards; i++)
        s = read_shard(f, i, err);
    if (!s && f->n)
        qsort(f->tensors, f->n, sizeof *f->tensors, by_name);
    if (!s)
        s = stem_checkpoint_settle(f, err);
    if (s) {
        stem_safetensors_close(f);
        return s;
    }
    *out = f;
    return STEM_OK;
}

void stem_safetensors_close(struct stem_safetensors *f)
{
    if (!f)
        return;
    for (uint32_t i = 0; i < f->n_shards; i++) {
        json_decref(f->shards[i].header);
        if (f->shards[i].map)
            munmap(f->shards[i].map, f->shards[i].bytes);
        free(f->shards[i].path);
    }
    json_decref(f->index);
    free(f->shards);
    free(f->tensors);
    free(f->path);
    free(f);
}

/* ---- several as one ---- */

static bool in_later(struct stem_safetensors *const *file, uint32_t from, uint32_t n, const char *name)
{
    bool there = false;
    for (uint32_t i = from; i < n && !there; i++)
        there = stem_safetensors_find(file[i], name) != NULL;
    return there;
}

struct stem_safetensors *stem_safetensors_join(struct stem_safetensors *const *file, uint32_t n)
{
    uint32_t tensors = 0, shards = 0;
    struct stem_safetensors *f = stem_zalloc(1, sizeof *f);
    for (uint32_t i = 0; i < n; i++) {
        tensors += file[i]->n;
        shards += file[i]->n_shards;
    }
    if (f) {
        f->path = stem_format("'%s' and %u more", file[0]->path, (unsigned)n - 1);
        f->tensors = stem_zalloc(tensors + 1, sizeof *f->tensors);
        f->shards = stem_zalloc(shards + 1, sizeof *f->shards);
    }
    if (!f || !f->path || !f->tensors || !f->shards) {
        stem_safetensors_part(f);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        memcpy(f->shards + f->n_shards, file[i]->shards, file[i]->n_shards * sizeof *f->shards);
        f->n_shards += file[i]->n_shards;
        for (uint32_t k = 0; k < file[i]->n; k++)
            if (!in_later(file, i + 1, n, file[i]->tensors[k].name))
                f->tensors[f->n++] = file[i]->tensors[k];
    }
    qsort(f->tensors, f->n, sizeof *f->tensors, by_name);
    return f;
}

void stem_safetensors_part(struct stem_safetensors *f)
{
    if (!f)
        return;
    free(f->shards);
    free(f->tensors);
    free(f->path);
    free(f);
}

/* ---- using ---- */

const struct stem_safetensor *stem_safetensors_list(const struct stem_safetensors *f, uint32_t *n)
{
    if (n)
        *n = f ? f->n : 0;
    return f ? f->tensors : NULL;
}

const struct stem_safetensor *stem_safetensors_find(const struct stem_safetensors *f, const char *name)
{
    struct stem_safetensor key = {.name = name};
    return f && name && f->n ? bsearch(&key, f->tensors, f->n, sizeof *f->tensors, by_name) : NULL;
}

const struct stem_shard *stem_safetensors_shard(const struct stem_safetensors *f, const struct stem_safetensor *t)
{
    for (uint32_t i = 0; i < f->n_shards; i++) {
        const uint8_t *at = t->data, *begin = f->shards[i].map;
        if (at >= begin && at <= begin + f->shards[i].bytes)
            return &f->shards[i];
    }
    return &f->shards[0];
}
