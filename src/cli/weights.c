/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/cli.h"

struct file {
    const char *path;
    uint8_t *map;
    uint64_t bytes, data; /* data: where tensors begin */
    json_t *header;
};

struct stem_weights {
    struct file *file;
    uint32_t n;
};

static const char *format_name(enum stem_dtype t)
{
    static const char *const name[STEM_N_DTYPES] = {
        [STEM_F32] = "F32",         [STEM_F16] = "F16", [STEM_BF16] = "BF16", [STEM_F8E4M3] = "F8_E4M3",
        [STEM_NVFP4] = "U8",        [STEM_I32] = "I32", [STEM_I64] = "I64",   [STEM_U8] = "U8",
    };
    return name[t];
}

static bool map_file(struct file *f)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        stem_cli_error("cannot open '%s': %s", f->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    f->bytes = (uint64_t)st.st_size;
    void *map = f->bytes ? mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED) {
        stem_cli_error("cannot read '%s': %s", f->path, f->bytes ? strerror(errno) : "it is empty");
        return false;
    }
    f->map = map;
    return true;
}

/* Eight bytes of length (little-endian), the JSON header, the data. */
static bool open_file(struct file *f)
{
    if (!map_file(f))
        return false;
    uint64_t len = 0;
    for (int i = 7; f->bytes >= 8 && i >= 0; i--)
        len = len << 8 | f->map[i];
    if (f->bytes < 8 || len > f->bytes - 8) {
        stem_cli_error("'%s' is not a .safetensors file: its header does not fit into it", f->path);
        return false;
    }
    json_error_t e;
    f->header = json_loadb((const char *)f->map + 8, len, JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(f->header)) {
        stem_cli_error("'%s' is not a .safetensors file: %s", f->path, f->header ? "no object" : e.text);
        return false;
    }
    f->data = 8 + len;
    return true;
}

struct stem_weights *stem_weights_open(const char *const *paths, uint32_t n)
{
    struct stem_weights *w = stem_xmalloc(sizeof *w);
    *w = (struct stem_weights){.file = stem_xmalloc(n * sizeof *w->file), .n = n};
    memset(w->file, 0, n * sizeof *w->file);
    for (uint32_t i = 0; i < n; i++) {
        w->file[i].path = paths[i];
        if (!open_file(&w->file[i])) {
            stem_weights_close(w);
            return NULL;
        }
    }
    return w;
}

void stem_weights_close(struct stem_weights *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->n; i++) {
        json_decref(w->file[i].header);
        if (w->file[i].map)
            munmap(w->file[i].map, w->file[i].bytes);
    }
    free(w->file);
    free(w);
}

static bool same_shape(const json_t *shape, const struct stem_plan_buffer *b)
{
    if (json_array_size(shape) != b->rank)
        return false;
    for (uint32_t i = 0; i < b->rank; i++)
        if (json_integer_value(json_array_get(shape, i)) != b->dim[i])
            return false;
    return true;
}

static void describe(const struct stem_plan_buffer *b, char *text, size_t size)
{
    int n = snprintf(text, size, "%s[", format_name(b->dtype));
    for (uint32_t i = 0; i < b->rank && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld", i ? ", " : "", (long long)b->dim[i]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, "]");
}

static bool load(const struct file *f, const json_t *tensor, const struct stem_plan_buffer *b, void *to)
{
    const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
    const json_t *shape = json_object_get(tensor, "shape"), *span = json_object_get(tensor, "data_offsets");
    if (!dtype || strcmp(dtype, format_name(b->dtype)) || !same_shape(shape, b)) {
        char *have = json_dumps(shape, JSON_COMPACT | JSON_ENCODE_ANY), want[256];
        describe(b, want, sizeof want);
        stem_cli_error("%s: '%s' is %s%s, the program wants %s", f->path, b->name, dtype ? dtype : "?",
                       have ? have : "?", want);
        free(have);
        return false;
    }
    int64_t from = json_integer_value(json_array_get(span, 0)), end = json_integer_value(json_array_get(span, 1));
    if (json_array_size(span) != 2 || from < 0 || end < from || (uint64_t)end > f->bytes - f->data ||
        (uint64_t)(end - from) != b->bytes) {
        stem_cli_error("%s: '%s' lies outside of the file or has a wrong size", f->path, b->name);
        return false;
    }
    memcpy(to, f->map + f->data + from, b->bytes);
    return true;
}

bool stem_weights_load(const struct stem_weights *w, const struct stem_plan_buffer *b, void *to, bool *found)
{
    *found = false;
    for (uint32_t i = w->n; i-- > 0;) {
        const json_t *tensor = json_object_get(w->file[i].header, b->name);
        if (!tensor)
            continue;
        *found = true;
        return load(&w->file[i], tensor, b, to);
    }
    return true;
}
