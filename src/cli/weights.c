/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/weights.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/device.h"
#include "runtime/checkpoint.h"
#include "runtime/mainstem_rt.h"
#include "runtime/sources.h"

struct stem_weights {
    struct stem_safetensors **file, *all; /* all: of several, what a weight is looked up in */
    const char *const *paths, *source;
    uint32_t n;
};

struct stem_weights *stem_weights_open(const char *const *paths, uint32_t n, const char *source)
{
    struct stem_weights *w = stem_xmalloc(sizeof *w);
    *w = (struct stem_weights){.file = stem_xmalloc(n * sizeof(struct stem_safetensors *)), .paths = paths, .source = source, .n = n};
    memset(w->file, 0, n * sizeof *w->file);
    for (uint32_t i = 0; i < n; i++) {
        struct stem_rt_error err;
        if (stem_safetensors_open(paths[i], &w->file[i], &err) != STEM_OK) {
            stem_cli_error("%s", err.message);
            stem_weights_close(w);
            return NULL;
        }
    }
    if (n > 1 && !(w->all = stem_safetensors_join(w->file, n)))
        stem_out_of_memory();
    return w;
}

void stem_weights_close(struct stem_weights *w)
{
    if (!w)
        return;
    stem_safetensors_part(w->all);
    for (uint32_t i = 0; i < w->n; i++)
        stem_safetensors_close(w->file[i]);
    free(w->file);
    free(w);
}

/* What is wrong between a file and the declaration of b, which is where it can be mended. */
static void misfit(const struct stem_weights *w, const struct stem_plan_buffer *b, const struct stem_rt_error *err)
{
    const char *help = "";
    if (err->status == STEM_E_WRONG_DTYPE)
        help = "nothing is converted while it is loaded: declare it as the file has it, and convert it where it is used, as in f32(w)";
    else if (err->status == STEM_E_WRONG_SHAPE)
        help = "its sizes are those of the declaration here: change them, or set a const that they use with -D NAME=VALUE";
    else if (err->status == STEM_E_MISSING && b->from)
        help = "the text behind its type says which tensors it is; without one it is the tensor of its own name, or random";
    if (b->line && w->source)
        fprintf(stderr, "%s:%u: error: %s\n", w->source, (unsigned)b->line, err->message);
    else
        stem_cli_error("%s", err->message);
    if (*help)
        fprintf(stderr, "      = help: %s\n", help);
}

bool stem_weights_load(const struct stem_weights *w, const struct stem_plan_buffer *b, void *to, bool *found)
{
    struct stem_rt_error err = {0};
    /* A weight that says where it is must be there; others may be made up. */
    enum stem_status s = stem_safetensors_read(w->all ? w->all : w->file[0], b, b->from != NULL, to, found, &err);
    if (s)
        misfit(w, b, &err);
    return !s;
}

/* ---- which names meet ---- */

static bool is_start(const struct stem_plan_buffer *b)
{
    return b->kind == STEM_BUFFER_INPUT || b->kind == STEM_BUFFER_STATE;
}

static bool is_weight(const struct stem_plan_buffer *b)
{
    return b->kind == STEM_BUFFER_WEIGHT;
}

struct names {
    const char **at;
    uint32_t n;
};

/* With room for all buffers of a variant. */
static struct names names_new(struct stem_arena *a, const struct stem_plan_variant *v)
{
    return (struct names){.at = STEM_NEW_ARRAY(a, const char *, v->n_buffers + 1)};
}

/* "'a', 'b'": the first of them, then how many more there are. */
static const char *list(struct stem_arena *a, const struct names *names, const char *quote)
{
    enum { MOST = 8 };
    const char *text = names->n ? "" : "none";
    for (uint32_t i = 0; i < names->n && i < MOST; i++)
        text = stem_arena_printf(a, "%s%s%s%s%s", text, i ? ", " : "", quote, names->at[i], quote);
    return names->n > MOST ? stem_arena_printf(a, "%s and %u more", text, names->n - MOST) : text;
}

static bool is_among(const struct names *names, const char *name)
{
    for (uint32_t i = 0; names && i < names->n; i++)
        if (!strcmp(names->at[i], name))
            return true;
    return false;
}

/* "; the nearest to 'W' of FILE is 'w'" for the first tensor that is nearly called like one of the names, or "". Those of the names in
 * `met` are spoken for. */
static const char *nearest(const struct stem_weights *w, struct stem_arena *a, const struct names *names, const struct names *met)
{
    for (uint32_t k = 0; k < w->n; k++) {
        uint32_t n;
        const struct stem_safetensor *t = stem_safetensors_list(w->file[k], &n);
        for (uint32_t i = 0; i < n; i++) {
            const char *near = is_among(met, t[i].name) ? NULL : stem_nearest(t[i].name, names->at, names->n);
            if (near)
                return stem_arena_printf(a, "; the nearest to '%s' of %s is '%s'", t[i].name, w->paths[k], near);
        }
    }
    return "";
}

static bool is_external(const struct stem_plan_variant *v, const char *name)
{
    for (uint32_t i = 0; i < v->n_buffers; i++)
        if (v->buffers[i].kind != STEM_BUFFER_TEMP && !strcmp(v->buffers[i].name, name))
            return true;
    return false;
}

/* A file that --save wrote has outputs too: only what the program does not know at all is a slip. */
static void warn_of_strangers(const struct stem_weights *w, const struct stem_plan_variant *v, struct stem_arena *a)
{
    for (uint32_t k = 0; k < w->n; k++) {
        uint32_t n;
        const struct stem_safetensor *t = stem_safetensors_list(w->file[k], &n);
        struct names strangers = {.at = STEM_NEW_ARRAY(a, const char *, n + 1)};
        for (uint32_t i = 0; i < n; i++)
            if (!is_external(v, t[i].name))
                strangers.at[strangers.n++] = t[i].name;
        if (strangers.n)
            fprintf(stderr, "mainstem: warning: %s: no input or state of the program is called %s\n", w->paths[k],
                    list(a, &strangers, "'"));
    }
}

bool stem_weights_fit(const struct stem_weights *w, const struct stem_plan_variant *v)
{
    struct stem_arena *a = stem_arena_new();
    struct names names = names_new(a, v);
    bool fit = false;
    for (uint32_t i = 0; i < v->n_buffers; i++) {
        if (!is_start(&v->buffers[i]))
            continue;
        names.at[names.n++] = v->buffers[i].name;
        for (uint32_t k = 0; k < w->n && !fit; k++)
            fit = stem_safetensors_find(w->file[k], v->buffers[i].name) != NULL;
    }
    if (fit)
        warn_of_strangers(w, v, a);
    else
        stem_cli_error("no tensor of --input is an input or a state of the program; it has: %s%s", list(a, &names, ""),
                       nearest(w, a, &names, NULL));
    stem_arena_free(a);
    return fit;
}

/* The file has experts behind those that the weight takes: perhaps a const is too small. Said of the first such weight; not of
 * {*+N}, which a rank uses for its share. */
static void warn_of_more(const struct stem_weights *w, const struct stem_plan_buffer *b, bool *said)
{
    char name[2 * STEM_MAX_SOURCE];
    struct stem_sources s;
    const struct stem_safetensors *f = w->all ? w->all : w->file[0];
    if (*said || !b->from || stem_safetensors_find(f, b->name) || stem_sources_parse(b->from, b->rank, b->dim, &s) || !s.star || s.star[2] != '}' ||
        !stem_sources_name(&s, s.n_star * s.n_list, name, sizeof name) || !stem_safetensors_find(f, name))
        return;
    *said = true;
    fprintf(stderr, "mainstem: warning: weight '%s' takes %u tensors by number, and there are more: '%s' is not read\n", b->name,
            s.n_star, name);
}

bool stem_weights_cover(const struct stem_weights *w, const struct stem_plan_variant *v)
{
    struct stem_arena *a = stem_arena_new();
    struct names all = names_new(a, v), missing = names_new(a, v);
    bool fine = true, said = false;
    for (uint32_t i = 0; fine && i < v->n_buffers; i++) {
        bool found = false;
        if (!is_weight(&v->buffers[i]))
            continue;
        fine = stem_weights_load(w, &v->buffers[i], NULL, &found);
        all.at[all.n++] = v->buffers[i].name;
        if (fine && found)
            warn_of_more(w, &v->buffers[i], &said);
        if (!found)
            missing.at[missing.n++] = v->buffers[i].name;
    }
    if (fine && missing.n == all.n) {
        stem_cli_error("no tensor of --weights is a weight of the program; it has: %s%s", list(a, &all, ""),
                       nearest(w, a, &all, NULL));
        fine = false;
    } else if (fine && missing.n) {
        fprintf(stderr, "mainstem: note: %u of %u weights are from %s; the others are random: %s%s\n", all.n - missing.n,
                all.n, w->n == 1 ? w->paths[0] : "the files of --weights", list(a, &missing, "'"), nearest(w, a, &missing, &all));
    }
    stem_arena_free(a);
    return fine;
}

/* ---- results ---- */

static json_t *entry(const struct stem_plan_buffer *b, uint64_t at)
{
    static const char *const name[STEM_N_DTYPES] = {
        [STEM_F32] = "F32",        [STEM_F16] = "F16", [STEM_BF16] = "BF16",
        [STEM_F8E4M3] = "F8_E4M3", [STEM_I32] = "I32", [STEM_I64] = "I64"};
    const char *dtype = name[b->dtype] ? name[b->dtype] : "U8";
    json_t *shape = json_array();
    for (uint32_t i = 0; i < b->rank && (name[b->dtype] || b->dtype == STEM_U8); i++)
        json_array_append_new(shape, json_integer(b->dim[i]));
    if (!name[b->dtype] && b->dtype != STEM_U8)
        json_array_append_new(shape, json_integer((json_int_t)b->bytes));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)at,
                     (json_int_t)(at + b->bytes));
}

bool stem_weights_save(const struct stem_plan_variant *v, const struct stem_results *r, const char *path)
{
    json_t *header = json_object();
    uint64_t at = 0;
    for (uint32_t i = 0; i < v->n_buffers; i++)
        if (stem_cli_is_result(v, i)) {
            json_object_set_new(header, v->buffers[i].name, entry(&v->buffers[i], at));
            at += v->buffers[i].bytes;
        }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text) {
        stem_cli_error("cannot write '%s': a tensor's name is no UTF-8", path);
        return false;
    }
    /* The format wants the length of the header first, and data on multiples of eight bytes. */
    size_t len = strlen(text), padded = (len + 7) / 8 * 8;
    uint8_t *file = stem_xmalloc(8 + padded + at);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    memset(file + 8, ' ', padded);
    memcpy(file + 8, text, len);
    memcpy(file + 8 + padded, r->data, at);
    bool fine = stem_cli_write(path, file, 8 + padded + at);
    free(file);
    free(text);
    return fine;
}
