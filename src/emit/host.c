/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of emitted host code: the words that the templates need, and the kernels as data.
 */
#include "emit/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "emit/host_text.h"
#include "emit/part.h"

struct host {
    const struct stem_plan *p;
    const struct stem_host_options *options;
    struct stem_arena *arena;
    const char *name, *NAME;
    uint32_t *order; /* variants by their dims, ascending: the buckets */
    STEM_VEC(struct stem_host_word) words;
};

/* ---- words ---- */

static void word(struct host *h, const char *w, const char *text)
{
    struct stem_host_word x = {w, text};
    stem_vec_push(&h->words, x);
}

static void number(struct host *h, const char *w, unsigned long long n)
{
    word(h, w, stem_arena_printf(h->arena, "%llu", n));
}

/* Takes what was printed. */
static void printed(struct host *h, const char *w, struct stem_out *o)
{
    word(h, w, stem_arena_strdup(h->arena, stem_out_text(o)));
    stem_out_free(o);
}

static const char *upper(struct stem_arena *a, const char *name)
{
    char *s = stem_arena_strdup(a, name);
    for (char *p = s; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return s;
}

static const char *dim_param(const struct host *h, uint32_t i)
{
    return stem_host_dim(h->arena, h->p->dims[i]);
}

static void dim_words(struct host *h)
{
    struct stem_out params = {0}, list = {0};
    const char *args = "";
    for (uint32_t i = 0; i < h->p->n_dims; i++) {
        const char *d = dim_param(h, i);
        stem_out_printf(&params, "int64_t %s, ", d);
        stem_out_printf(&list, "%s%s", i ? ", " : "", d);
        args = stem_arena_printf(h->arena, "%s%s, ", args, d);
    }
    word(h, "dim", h->p->n_dims ? dim_param(h, 0) : "");
    word(h, "dim_args", args);
    word(h, "one_dim", h->p->n_dims == 1 ? "" : NULL);
    word(h, "many_dims", h->p->n_dims > 1 ? "" : NULL);
    printed(h, "dim_params", &params);
    if (!h->p->n_dims)
        stem_out_str(&list, "0");
    printed(h, "dim_list", &list);
    number(h, "n_dims", h->p->n_dims);
}

static void bucket_words(struct host *h)
{
    const struct stem_plan *p = h->p;
    struct stem_out o = {0};
    const char *params = "";
    for (uint32_t d = 0; d < p->n_dims; d++)
        params = stem_arena_printf(h->arena, "%sint64_t %s, ", params, dim_param(h, d));
    if (p->n_dims) {
        stem_out_str(&o, " *\n * Buckets. The program was specialised for");
        for (uint32_t i = 0; i < p->n_variants && i < 16; i++) {
            stem_out_str(&o, i ? ";" : "");
            for (uint32_t d = 0; d < p->n_dims; d++)
                stem_out_printf(&o, "%s %s = %lld", d ? "," : "", p->dims[d], (long long)p->variants[h->order[i]].dim[d]);
        }
        stem_out_printf(&o,
                        "%s.\n * A launch takes the first of these (sorted) that is at least as large in every dim, and says that none\n"
                        " * fits if there is none. It then computes all rows of that bucket: tensors must have at least so many rows,\n"
                        " * and those beyond yours should hold numbers (zeros), because ops that mix rows read them too.\n"
                        " * %s_bucket says which one it will be.",
                        p->n_variants > 16 ? "; and so on" : "", h->name);
    }
    stem_out_str(&o, p->n_dims ? "\n *" : " *");
    printed(h, "buckets", &o);
    if (p->n_dims == 1)
        stem_out_printf(&o, "/* The bucket that a launch of so many takes: its %s; 0 if none is large enough. */\nint64_t %s_bucket(int64_t %s);\n",
                        p->dims[0], h->name, dim_param(h, 0));
    else if (p->n_dims > 1)
        stem_out_printf(&o, "/* The bucket that a launch takes; 0 if none is large enough in every dim. */\nint %s_bucket(%sint64_t bucket[%u]);\n",
                        h->name, params, p->n_dims);
    printed(h, "bucket_decl", &o);
}

/* "moe[3].w13" as "moe[*].w13": layers have the same tensors. */
static void pattern(struct stem_out *o, const char *name)
{
    for (; *name; name++) {
        stem_out_char(o, *name);
        if (*name == '[' && isdigit((unsigned char)name[1])) {
            stem_out_char(o, '*');
            name += strspn(name + 1, "0123456789");
        }
    }
}

static void shape(const struct host *h, const struct stem_plan_buffer *b, uint32_t index, struct stem_out *o)
{
    const struct stem_plan_variant *first = &h->p->variants[h->order[0]];
    stem_out_printf(o, "%s[", stem_dtype_name(b->dtype));
    for (uint32_t i = 0; i < b->rank; i++) {
        int64_t low = first->buffers[index].dim[i];
        stem_out_str(o, i ? ", " : "");
        if (low != b->dim[i])
            stem_out_printf(o, "%lld..", (long long)low);
        stem_out_printf(o, "%lld", (long long)b->dim[i]);
    }
    stem_out_char(o, ']');
}

/* Each tensor; of those that differ in an index alone, the first, and how many there are. */
static void tensor_words(struct host *h)
{
    static const char *const kinds[] = {"", "input", "output", "weight", "state"};
    const struct stem_plan_variant *v = &h->p->variants[h->order[h->p->n_variants - 1]];
    struct stem_strtab *seen = stem_strtab_new();
    STEM_VEC(uint32_t) count = {0}, lines = {0};
    struct stem_out key = {0}, o = {0};
    const char *example = v->buffers[0].name;
    stem_vec_push(&count, 0u);
    for (uint32_t i = 0; i < h->p->n_external; i++) {
        key.len = 0;
        pattern(&key, v->buffers[i].name);
        stem_out_printf(&key, " %s ", kinds[v->buffers[i].kind]);
        shape(h, &v->buffers[i], i, &key);
        struct stem_sym s = stem_intern_n(seen, key.text, key.len);
        if (s.n == count.len) {
            stem_vec_push(&count, 0u);
            stem_vec_push(&lines, i);
        }
        count.at[s.n]++;
    }
    for (uint32_t k = 0; k < lines.len; k++) {
        uint32_t i = lines.at[k];
        stem_out_str(&o, k ? "\n *   " : " *   ");
        stem_host_comment(&o, v->buffers[i].name);
        stem_out_printf(&o, "  %s ", kinds[v->buffers[i].kind]);
        shape(h, &v->buffers[i], i, &o);
        if (count.at[k + 1] > 1)
            stem_out_printf(&o, " (one of %u, with other indices)", count.at[k + 1]);
    }
    printed(h, "tensors", &o);
    struct stem_out e = {0};
    stem_host_comment(&e, example);
    printed(h, "example", &e);
    stem_vec_free(&count);
    stem_vec_free(&lines);
    stem_out_free(&key);
    stem_strtab_free(seen);
}

static void extern_words(struct host *h)
{
    struct stem_out o = {0};
    for (uint32_t i = 0; i < h->p->n_externs; i++)
        stem_out_printf(&o, "%s    %s_extern_fn *%s; /* called by the program */", i ? "\n" : "", h->name,
                        stem_host_member(h->arena, h->p->externs[i].name));
    printed(h, "extern_members", &o);
    word(h, "externs", h->p->n_externs ? "" : NULL);
    number(h, "n_externs", h->p->n_externs);
    bool matmul = stem_host_n_products(h->p) > 0;
    word(h, "matmul", matmul ? "" : NULL);
    word(h, "helper", matmul || h->p->n_externs ? "" : NULL);
    number(h, "n_products", stem_host_n_products(h->p));
}

static void text_words(struct host *h)
{
    static const char *const defaults[] = {"an error", "from NAME_cubin.c", "compiled by NVRTC"};
    const char *path = h->p->source && h->p->source[0] ? h->p->source : h->p->name;
    enum stem_host_embed embed = h->options->embed;
    struct stem_out o = {0};
    stem_host_comment(&o, path);
    printed(h, "source_path", &o);
    stem_host_string(&o, path);
    printed(h, "source_string", &o);
    word(h, "what", stem_arena_printf(h->arena, "the module %s as C, for a host program to compile in.", h->p->name));
    word(h, "none", embed == STEM_HOST_NONE ? "" : NULL);
    word(h, "cubin", embed == STEM_HOST_CUBIN ? "" : NULL);
    word(h, "source", embed == STEM_HOST_SOURCE ? "" : NULL);
    word(h, "image_default",
         embed == STEM_HOST_CUBIN ? stem_arena_printf(h->arena, "from %s_cubin.c", h->name) : defaults[embed]);
}

static void all_words(struct host *h)
{
    struct stem_host_limits l = stem_host_limits(h->p);
    dim_words(h);
    word(h, "name", h->name);
    word(h, "NAME", h->NAME);
    number(h, "n_tensors", h->p->n_external);
    number(h, "n_buckets", h->p->n_variants);
    number(h, "n_kernels", h->p->n_kernels);
    number(h, "n_streams", h->p->n_streams);
    number(h, "slab", h->p->slab_bytes);
    number(h, "arch", h->p->sm);
    number(h, "n_events", l.events);
    number(h, "max_params", l.params);
    number(h, "max_edges", l.edges);
    bucket_words(h);
    tensor_words(h);
    extern_words(h);
    text_words(h);
    word(h, NULL, NULL);
}

/* ---- files ---- */

static struct stem_out *file(const struct host *h, struct stem_host_files *files, const char *suffix)
{
    snprintf(files->at[files->n].name, sizeof files->at[0].name, "%s%s", suffix[0] == '/' ? "" : h->name,
             suffix + (suffix[0] == '/'));
    return &files->at[files->n++].text;
}

static void write_code(const struct host *h, struct stem_out *o)
{
    static const char *const engine[] = {stem_host_base,   stem_host_order,  stem_host_memory, stem_host_image,
                                         stem_host_matmul, stem_host_create, stem_host_launch, stem_host_graph};
    stem_host_expand(o, stem_host_types, h->words.at);
    stem_host_tables(h->p, h->order, h->name, o);
    for (size_t i = 0; i < sizeof engine / sizeof *engine; i++)
        stem_host_expand(o, engine[i], h->words.at);
}

/* Words of 64 bits: they are aligned as an image must be, and shorter to write than bytes. */
static void write_image(const struct stem_host_cubin *c, struct stem_out *o)
{
    stem_out_printf(o, "\nstatic const uint64_t sm_%u[] = {", c->sm);
    for (size_t i = 0; i < c->bytes; i += 8) {
        uint64_t w = 0;
        size_t n = c->bytes - i < 8 ? c->bytes - i : 8;
        for (size_t k = 0; k < n; k++)
            w |= (uint64_t)((const unsigned char *)c->data)[i + k] << (8 * k);
        stem_out_printf(o, "%s0x%llx,", i % 40 ? " " : "\n    ", (unsigned long long)w);
    }
    stem_out_str(o, "\n};\n");
}

static void write_cubins(const struct host *h, struct stem_out *o)
{
    const struct stem_host_options *x = h->options;
    stem_out_printf(o,
                    "/* %s: the kernels of %s.cu, compiled. Made by Mainstem. Do not edit. Little endian. */\n#include \"%s.h\"\n",
                    h->name, h->name, h->name);
    for (uint32_t i = 0; i < x->n_cubins; i++)
        write_image(&x->cubins[i], o);
    stem_out_printf(o, "\n/* A cubin runs on GPUs of its major version whose minor version is not lower. */\nconst void *%s_cubin(unsigned sm)\n{\n",
                    h->name);
    for (uint32_t i = x->n_cubins; i-- > 0;)
        stem_out_printf(o, "    if (sm / 10 == %u && sm >= %u)\n        return sm_%u;\n", x->cubins[i].sm / 10, x->cubins[i].sm,
                        x->cubins[i].sm);
    stem_out_printf(o, "    return NULL;\n}\n\nconst char *%s_cubin_archs(void)\n{\n    return \"", h->name);
    for (uint32_t i = 0; i < x->n_cubins; i++)
        stem_out_printf(o, "%ssm_%u", i ? ", " : "", x->cubins[i].sm);
    stem_out_str(o, "\";\n}\n");
}

/* One literal for each line, cut where compilers limit their length. */
static void write_source(const struct host *h, struct stem_out *o)
{
    enum { LONGEST = 1000 };
    char part[LONGEST + 2];
    stem_out_printf(o, "/* %s: the text of %s.cu. Made by Mainstem. Do not edit. */\n#include \"%s.h\"\n\nstatic const char *const lines[] = {\n",
                    h->name, h->name, h->name);
    for (const char *s = h->p->cuda; *s;) {
        size_t n = strcspn(s, "\n");
        n = n > LONGEST ? LONGEST : n + (s[n] == '\n');
        memcpy(part, s, n);
        part[n] = 0;
        stem_out_str(o, "    ");
        stem_host_string(o, part);
        stem_out_str(o, ",\n");
        s += n;
    }
    stem_out_printf(o, "    NULL,\n};\n\nconst char *const *%s_source_lines(void)\n{\n    return lines;\n}\n", h->name);
}

static int by_dims(const struct stem_plan *p, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < p->n_dims; i++)
        if (p->variants[a].dim[i] != p->variants[b].dim[i])
            return p->variants[a].dim[i] < p->variants[b].dim[i] ? -1 : 1;
    return 0;
}

/* Insertion sort: there are few variants. False if two are for the same sizes. */
static bool sort_buckets(struct host *h)
{
    h->order = STEM_NEW_ARRAY(h->arena, uint32_t, h->p->n_variants);
    for (uint32_t i = 0; i < h->p->n_variants; i++) {
        uint32_t k = i;
        for (; k > 0 && by_dims(h->p, i, h->order[k - 1]) < 0; k--)
            h->order[k] = h->order[k - 1];
        h->order[k] = i;
        if (k > 0 && by_dims(h->p, i, h->order[k - 1]) == 0)
            return false;
    }
    return true;
}

static const char *refused(const struct host *h)
{
    if (!stem_host_name_ok(h->name))
        return strlen(h->name) > 64 ? "the name is longer than 64 characters, and every identifier begins with it"
                                    : "the name is not one that C identifiers may begin with";
    if (stem_host_name_taken(h->name))
        return stem_host_name_taken(h->name);
    if (!h->p->n_variants || !h->p->n_external)
        return "the program has no tensors: there is nothing to call";
    if (h->options->embed == STEM_HOST_CUBIN && h->p->n_kernels && !h->options->n_cubins)
        return "there are no cubins to embed";
    return NULL;
}

bool stem_emit_host(const struct stem_plan *p, const struct stem_host_options *options, struct stem_host_files *files,
                    const char **why)
{
    struct host h = {.p = p, .options = options, .name = options->name ? options->name : p->name};
    memset(files, 0, sizeof *files);
    *why = refused(&h);
    if (*why)
        return false;
    h.arena = stem_arena_new();
    h.NAME = upper(h.arena, h.name);
    if (!sort_buckets(&h)) {
        *why = "two variants are for the same sizes";
    } else {
        all_words(&h);
        stem_host_expand(file(&h, files, ".h"), stem_host_api, h.words.at);
        write_code(&h, file(&h, files, ".c"));
        stem_out_str(file(&h, files, ".cu"), p->cuda);
        stem_host_expand(file(&h, files, ".mk"), stem_host_make, h.words.at);
        stem_host_expand(file(&h, files, ".mainstem.cmake"), stem_host_cmake, h.words.at);
        stem_host_expand(file(&h, files, "/CMakeLists.txt"), stem_host_cmakelists, h.words.at);
        if (options->embed == STEM_HOST_CUBIN)
            write_cubins(&h, file(&h, files, "_cubin.c"));
        if (options->embed == STEM_HOST_SOURCE)
            write_source(&h, file(&h, files, "_source.c"));
    }
    stem_vec_free(&h.words);
    stem_arena_free(h.arena);
    return !*why;
}

void stem_host_files_free(struct stem_host_files *files)
{
    for (uint32_t i = 0; i < files->n; i++)
        stem_out_free(&files->at[i].text);
    files->n = 0;
}
