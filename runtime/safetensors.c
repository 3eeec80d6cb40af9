/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads .safetensors files: eight bytes of length (little-endian), a JSON object that gives each tensor's dtype,
 * shape and span, then the data. The whole header is checked when a file is opened, so what follows only looks names
 * up.
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

#include "internal.h"

enum { MAX_HEADER = 100000000 }; /* bytes: the format's own limit */

struct stem_safetensors {
    char *path;
    uint8_t *map;
    uint64_t bytes, data; /* data: where tensors begin */
    json_t *header;       /* owns names and dtypes */
    struct stem_safetensor *tensors;
    uint32_t n;
};

/* Bits per element of the format's dtypes; 0: unknown, its size cannot be checked. */
static uint64_t bits_of(const char *dtype)
{
    static const struct {
        const char *name;
        uint64_t bits;
    } known[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
                 {"U16", 16}, {"I16", 16}, {"F16", 16}, {"BF16", 16},   {"U32", 32},
                 {"I32", 32}, {"F32", 32}, {"U64", 64}, {"I64", 64},    {"F64", 64}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].name, dtype))
            return known[i].bits;
    return 0;
}

static const char *format_name(enum stem_dtype t)
{
    static const char *const name[STEM_N_DTYPES] = {
        [STEM_F32] = "F32",  [STEM_F16] = "F16", [STEM_BF16] = "BF16", [STEM_F8E4M3] = "F8_E4M3",
        [STEM_NVFP4] = "U8", [STEM_I32] = "I32", [STEM_I64] = "I64",   [STEM_U8] = "U8",
        [STEM_INT4] = "I32",
    };
    return name[t];
}

/* ---- opening ---- */

static enum stem_status map_file(struct stem_safetensors *f, struct stem_rt_error *err)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return stem_fail(err, STEM_E_FILE, "cannot open '%.200s': %s", f->path, strerror(why));
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

static enum stem_status bad_tensor(const struct stem_safetensors *f, const char *name, const char *what,
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

static enum stem_status read_tensor(const struct stem_safetensors *f, const char *name, const json_t *o,
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
    if (from < 0 || end < from || (uint64_t)end > f->bytes - f->data)
        return bad_tensor(f, name, "lies outside of the file", err);
    t->bytes = (uint64_t)(end - from);
    t->data = f->map + f->data + from;
    uint64_t bits = bits_of(t->dtype);
    if (bits && elements * bits / 8 != t->bytes)
        return bad_tensor(f, name, "does not have as many bytes as its shape and dtype need", err);
    return STEM_OK;
}

static enum stem_status read_header(struct stem_safetensors *f, struct stem_rt_error *err)
{
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | f->map[i];
    if (len > f->bytes - 8 || len > MAX_HEADER)
        return stem_fail(err, STEM_E_FORMAT, "'%.200s' is not a .safetensors file: its header does not fit into it",
                         f->path);
    json_error_t e;
    f->header = json_loadb((const char *)f->map + 8, len, JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(f->header))
        return stem_fail(err, STEM_E_FORMAT, "'%.200s' is not a .safetensors file: %s", f->path,
                         f->header ? "its header is no object" : e.text);
    f->data = 8 + len;
    f->tensors = stem_zalloc(json_object_size(f->header), sizeof *f->tensors);
    if (!f->tensors)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    const char *name;
    json_t *o;
    json_object_foreach(f->header, name, o)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        enum stem_status s = read_tensor(f, name, o, &f->tensors[f->n], err);
        if (s)
            return s;
        f->n++;
    }
    return STEM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct stem_safetensor *)a)->name, ((const struct stem_safetensor *)b)->name);
}

enum stem_status stem_safetensors_open(const char *path, struct stem_safetensors **out, struct stem_rt_error *err)
{
    stem_error_clear(err);
    *out = NULL;
    if (!path)
        return stem_fail(err, STEM_E_NULL, "the path is NULL");
    struct stem_safetensors *f = stem_zalloc(1, sizeof *f);
    if (f)
        f->path = stem_format("%s", path);
    enum stem_status s = f && f->path ? map_file(f, err) : stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (!s)
        s = read_header(f, err);
    if (s) {
        stem_safetensors_close(f);
        return s;
    }
    if (f->n)
        qsort(f->tensors, f->n, sizeof *f->tensors, by_name);
    *out = f;
    return STEM_OK;
}

void stem_safetensors_close(struct stem_safetensors *f)
{
    if (!f)
        return;
    json_decref(f->header);
    if (f->map)
        munmap(f->map, f->bytes);
    free(f->tensors);
    free(f->path);
    free(f);
}

/* ---- using ---- */

const struct stem_safetensor *stem_safetensors_list(const struct stem_safetensors *f, uint32_t *n)
{
    *n = f->n;
    return f->tensors;
}

const struct stem_safetensor *stem_safetensors_find(const struct stem_safetensors *f, const char *name)
{
    struct stem_safetensor key = {.name = name};
    return f->n ? bsearch(&key, f->tensors, f->n, sizeof *f->tensors, by_name) : NULL;
}

static void describe(const char *dtype, uint32_t rank, const int64_t *dim, char *text, size_t size)
{
    int n = snprintf(text, size, "%.16s[", dtype);
    for (uint32_t i = 0; i < rank && i < STEM_MAX_RANK && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, rank > STEM_MAX_RANK ? ", ...]" : "]");
}

static bool one_element(uint32_t rank, const int64_t *dim)
{
    bool one = rank <= STEM_MAX_RANK;
    for (uint32_t i = 0; one && i < rank; i++)
        one = dim[i] == 1;
    return one;
}

enum stem_status stem_safetensors_check(const struct stem_safetensors *f, const struct stem_safetensor *t,
                                        const struct stem_plan_buffer *b, struct stem_rt_error *err)
{
    char have[256], want[256];
    /* Packed elements have no dtype in the format: any shape of as many bytes will do. So will any shape of one
     * element: a scale of a whole tensor is [] in some files. */
    bool packed = stem_dtype_packed(b->dtype);
    bool same = packed || t->rank == b->rank;
    for (uint32_t i = 0; !packed && same && i < b->rank; i++)
        same = t->dim[i] == b->dim[i];
    same = same || (one_element(t->rank, t->dim) && one_element(b->rank, b->dim));
    bool dtype = !strcmp(t->dtype, format_name(b->dtype)) || (packed && !strcmp(t->dtype, "U8"));
    stem_error_clear(err);
    if (dtype && same && t->bytes == b->bytes)
        return STEM_OK;
    describe(t->dtype, t->rank, t->dim, have, sizeof have);
    if (packed)
        snprintf(want, sizeof want, "%s with %llu bytes", format_name(b->dtype), (unsigned long long)b->bytes);
    else
        describe(format_name(b->dtype), b->rank, b->dim, want, sizeof want);
    return stem_fail(err, dtype ? STEM_E_WRONG_SHAPE : STEM_E_WRONG_DTYPE,
                     "%.200s: '%.200s' is %s, the program wants %s", f->path, b->name, have, want);
}
