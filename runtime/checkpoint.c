/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of several files, as they are published: `model.safetensors.index.json` maps each tensor to the file that
 * holds it; without an index all .safetensors files of the directory belong together.
 */
#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static enum stem_status add_shard(struct stem_safetensors *f, char *path, struct stem_rt_error *err)
{
    struct stem_shard *shards = path ? realloc(f->shards, (f->n_shards + 1) * sizeof *shards) : NULL;
    if (!shards) {
        free(path);
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    }
    f->shards = shards;
    f->shards[f->n_shards++] = (struct stem_shard){.path = path};
    return STEM_OK;
}

/* ---- with an index ---- */

/* Files lie beside the index: a name with a way to somewhere else is no name of theirs. */
static bool is_file_name(const char *s)
{
    return s && s[0] && !strchr(s, '/') && strcmp(s, ".") && strcmp(s, "..");
}

static bool has_shard(const struct stem_safetensors *f, size_t dir, const char *name)
{
    for (uint32_t i = f->n_shards; i-- > 0;)
        if (!strcmp(f->shards[i].path + dir, name))
            return true;
    return false;
}

static enum stem_status read_index(struct stem_safetensors *f, const char *path, struct stem_rt_error *err)
{
    json_error_t e;
    const char *slash = strrchr(path, '/'), *tensor;
    size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
    enum stem_status s = STEM_OK;
    json_t *file;
    f->index = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    const json_t *map = json_object_get(f->index, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        return stem_fail(err, STEM_E_FORMAT, "'%.200s' is no index of a checkpoint: %s", path,
                         f->index ? "it has no weight_map" : e.text);
    json_object_foreach((json_t *)map, tensor, file)
    {
        const char *name = json_string_value(file);
        if (!is_file_name(name))
            return stem_fail(err, STEM_E_FORMAT, "'%.200s': tensor '%.200s' is in no file beside the index", path, tensor);
        if (!has_shard(f, dir, name) && (s = add_shard(f, stem_format("%.*s%s", (int)dir, path, name), err)))
            return s;
    }
    return STEM_OK;
}

/* ---- a directory ---- */

static int is_shard(const struct dirent *d)
{
    return ends_with(d->d_name, ".safetensors");
}

static enum stem_status read_directory(struct stem_safetensors *f, struct stem_rt_error *err)
{
    char *index = stem_format("%s/model.safetensors.index.json", f->path);
    struct stat st;
    struct dirent **entry = NULL;
    enum stem_status s = STEM_OK;
    if (!index)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (!stat(index, &st)) {
        s = read_index(f, index, err);
        free(index);
        return s;
    }
    free(index);
    int n = scandir(f->path, &entry, is_shard, alphasort);
    if (n < 0)
        return stem_fail(err, STEM_E_FILE, "cannot read '%.200s': %s", f->path, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!s)
            s = add_shard(f, stem_format("%s/%s", f->path, entry[i]->d_name), err);
        free(entry[i]);
    }
    free(entry);
    if (!s && !n)
        s = stem_fail(err, STEM_E_FILE, "there is no .safetensors file in '%.200s'", f->path);
    return s;
}

enum stem_status stem_checkpoint_shards(struct stem_safetensors *f, struct stem_rt_error *err)
{
    struct stat st;
    if (!stat(f->path, &st) && S_ISDIR(st.st_mode))
        return read_directory(f, err);
    if (ends_with(f->path, ".json")) {
        if (access(f->path, R_OK))
            return stem_fail(err, STEM_E_FILE, "cannot open '%.200s': %s", f->path, strerror(errno));
        return read_index(f, f->path, err);
    }
    return add_shard(f, stem_format("%s", f->path), err);
}

/* ---- all together ---- */

static const char *file_name(const struct stem_safetensors *f, const struct stem_safetensor *t)
{
    const char *path = stem_safetensors_shard(f, t)->path, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Of several of one name, the one in the file that the index says. */
static bool unwanted(const struct stem_safetensors *f, const json_t *map, const struct stem_safetensor *t)
{
    const char *in = json_string_value(json_object_get(map, t->name));
    return in && strcmp(in, file_name(f, t)) != 0;
}

enum stem_status stem_checkpoint_settle(struct stem_safetensors *f, struct stem_rt_error *err)
{
    const json_t *map = json_object_get(f->index, "weight_map");
    const char *name;
    json_t *in;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        if (map && unwanted(f, map, &f->tensors[i]))
            continue;
        if (n && !strcmp(f->tensors[n - 1].name, f->tensors[i].name))
            return stem_fail(err, STEM_E_FORMAT, "%.200s: tensor '%.200s' is in '%.100s' and in '%.100s'", f->path,
                             f->tensors[i].name, file_name(f, &f->tensors[n - 1]), file_name(f, &f->tensors[i]));
        f->tensors[n++] = f->tensors[i];
    }
    f->n = n;
    json_object_foreach((json_t *)map, name, in)
        if (!stem_safetensors_find(f, name))
            return stem_fail(err, STEM_E_FORMAT, "%.200s: tensor '%.200s' is not in '%.100s', where the index has it",
                             f->path, name, json_string_value(in));
    return STEM_OK;
}
