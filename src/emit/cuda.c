/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA C translation unit of a plan: every device header once, every kernel once. Layers share kernels, so its
 * size depends on how many different ones there are and not on how deep the model is.
 */
#include "base/directive.h"
#include "emit/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define uthash_malloc(n) stem_xmalloc(n)
#include <uthash.h>

struct kernel {
    char *name;
    char *code;   /* builtin: the definition */
    char *params; /* inline: parameter list and body */
    char *body;
    char *path;          /* inline: source of the body, NULL if unknown */
    uint32_t line;       /* inline: where the body starts */
    uint32_t column;
    uint32_t threads;    /* inline: largest block */
    uint32_t max_smem;
    bool waits;
    bool includes; /* inline: its body has an #include */
    uint32_t early;
    bool ahead;
    uint32_t header[STEM_MAX_HEADERS]; /* indices into headers */
    uint32_t n_headers;
    uint32_t index;
    UT_hash_handle hh;
};

struct stem_cuda {
    struct stem_arena *arena;
    STEM_VEC(const char *) headers; /* names, by first need */
    STEM_VEC(struct kernel *) kernels;
    struct kernel *by_name;
    bool early;
};

struct stem_cuda *stem_cuda_new(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_cuda *u = STEM_NEW(a, struct stem_cuda);
    u->arena = a;
    return u;
}

void stem_cuda_free(struct stem_cuda *u)
{
    if (!u)
        return;
    HASH_CLEAR(hh, u->by_name);
    stem_vec_free(&u->headers);
    stem_vec_free(&u->kernels);
    stem_arena_free(u->arena);
}

static void need_header(struct stem_cuda *u, struct kernel *k, const char *name)
{
    uint32_t i = 0;
    while (i < u->headers.len && strcmp(u->headers.at[i], name))
        i++;
    if (i == u->headers.len) {
        if (!stem_op_header(name))
            stem_emit_bug("kernel '%s' needs the device header '%s', which does not exist", k->name, name);
        stem_vec_push(&u->headers, stem_arena_strdup(u->arena, name));
    }
    k->header[k->n_headers++] = i;
}

static struct kernel *add_kernel(struct stem_cuda *u, const char *name)
{
    struct kernel *k = STEM_NEW(u->arena, struct kernel);
    k->name = stem_arena_strdup(u->arena, name);
    k->index = u->kernels.len;
    stem_vec_push(&u->kernels, k);
    HASH_ADD_KEYPTR(hh, u->by_name, k->name, strlen(k->name), k);
    return k;
}

uint32_t stem_cuda_builtin(struct stem_cuda *u, const struct stem_lowered *l)
{
    struct kernel *k;
    HASH_FIND_STR(u->by_name, l->kernel, k);
    if (k) {
        if (!k->code || strcmp(k->code, l->code))
            stem_emit_bug("two kernels are called '%s'", l->kernel);
    } else {
        k = add_kernel(u, l->kernel);
        k->code = stem_arena_strdup(u->arena, l->code);
        k->waits = l->waits;
        k->early = l->early;
        k->ahead = l->ahead;
        for (int i = 0; i < STEM_MAX_HEADERS && l->headers[i]; i++)
            need_header(u, k, l->headers[i]);
    }
    if (l->smem > k->max_smem)
        k->max_smem = l->smem;
    return k->index;
}

static bool has_include(const char *body)
{
    struct stem_directives d = stem_directives_of(body, strlen(body));
    bool found = false;
    while (!found && stem_directive_next(&d))
        found = !strncmp(stem_out_text(&d.word), "include", 7);
    stem_directives_free(&d);
    return found;
}

uint32_t stem_cuda_inline(struct stem_cuda *u, const struct stem_program *p, const struct stem_decl *d,
                          uint32_t threads, uint32_t smem)
{
    char *name = stem_arena_printf(u->arena, "stem_user_%s", stem_sym_str(p->strings, d->name));
    struct kernel *k;
    HASH_FIND_STR(u->by_name, name, k);
    if (k && (!k->body || strcmp(k->body, d->body) || strcmp(k->params, d->params)))
        stem_emit_bug("two inline kernels are called '%s'", name);
    if (!k) {
        k = add_kernel(u, name);
        k->params = stem_arena_strdup(u->arena, d->params);
        k->body = stem_arena_strdup(u->arena, d->body);
        k->waits = d->waits;
        k->includes = has_include(d->body);
        if (p->source && d->body_span.begin != UINT32_MAX) {
            k->path = stem_arena_strdup(u->arena, p->source->path);
            struct stem_place begin = stem_source_place(p->source, d->body_span.begin);
            k->line = begin.line;
            k->column = begin.column;
        }
        need_header(u, k, "common");
    }
    if (threads > k->threads)
        k->threads = threads;
    if (smem > k->max_smem)
        k->max_smem = smem;
    return k->index;
}

void stem_cuda_early(struct stem_cuda *u)
{
    u->early = true;
}

uint32_t stem_cuda_count(const struct stem_cuda *u)
{
    return u->kernels.len;
}

struct stem_plan_kernel stem_cuda_kernel(const struct stem_cuda *u, uint32_t i)
{
    const struct kernel *k = u->kernels.at[i];
    return (struct stem_plan_kernel){
        .name = k->name, .max_smem = k->max_smem, .waits = k->waits, .early = k->early, .ahead = k->ahead};
}

static uint32_t count_lines(const char *s, size_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += s[i] == '\n';
    return n;
}

/* `text`, which ends with exactly one newline afterwards. */
static void print_block(struct stem_out *o, const char *text)
{
    size_t len = strlen(text);
    while (len && text[len - 1] == '\n')
        len--;
    stem_out_bytes(o, text, len);
    stem_out_char(o, '\n');
}

/* A path inside a #line directive: quotes and backslashes would end it early, line feeds too, and NVRTC takes no bytes that are
 * no UTF-8: they are shown as messages show them. */
static void print_path(struct stem_out *o, const char *path)
{
    struct stem_out shown = {0};
    stem_out_plain(&shown, path);
    for (const char *s = stem_out_text(&shown); *s; s++) {
        if (*s == '"' || *s == '\\')
            stem_out_char(o, '\\');
        stem_out_char(o, *s);
    }
    stem_out_free(&shown);
}

static void print_line(struct stem_out *o, uint32_t line, const char *path, const char *suffix)
{
    stem_out_printf(o, "#line %u \"", line);
    print_path(o, path);
    stem_out_printf(o, "%s\"\n", suffix);
}

/* Lines of a body before its last one that has text. */
static uint32_t last_line(const char *body)
{
    size_t len = strlen(body);
    while (len && strchr(" \t\r\n", body[len - 1]))
        len--;
    return count_lines(body, len);
}

/* Each inline kernel is compiled as if it were alone: the macros of its body end with it, also for what follows in a unit of the
 * CPU device. NVRTC has no push_macro that could bring back an earlier meaning; STEM1265 keeps bodies from those that matter. */
static void print_undefs(const struct kernel *k, struct stem_out *o)
{
    struct stem_directives d = stem_directives_of(k->body, strlen(k->body));
    struct stem_out all = {0};
    stem_out_char(&all, '\n');
    while (stem_directive_next(&d)) {
        struct stem_out undef = {0};
        if (strcmp(stem_out_text(&d.word), "define") || !d.name.len)
            continue;
        stem_out_printf(&undef, "\n#undef %s\n", stem_out_text(&d.name));
        if (!strstr(stem_out_text(&all), stem_out_text(&undef)))
            stem_out_str(&all, stem_out_text(&undef) + 1);
        stem_out_free(&undef);
    }
    stem_out_str(o, stem_out_text(&all) + 1);
    stem_out_free(&all);
    stem_directives_free(&d);
}

/* The closing brace counts as part of the body's last line: that is where a missing ';' is reported. */
static void print_inline(const struct kernel *k, const char *name, struct stem_out *o)
{
    stem_out_printf(o, "extern \"C\" __global__ void __launch_bounds__(%u) %s(%s)\n{\n", k->threads, k->name,
                    k->params);
    if (k->path)
        print_line(o, k->line, k->path, "");
    if (k->path && k->body[strspn(k->body, " \t\r")] != '\n') /* columns are those of the source */
        stem_out_printf(o, "%*s", (int)k->column - 1, "");
    print_block(o, k->body);
    if (k->path)
        print_line(o, k->line + last_line(k->body), k->path, "");
    stem_out_str(o, "}\n");
    if (k->path) /* back to the unit's own lines: the next is number (lines so far) + 2, the directive being one */
        print_line(o, count_lines(o->text, o->len) + 2, name, ".cu");
    print_undefs(k, o);
}

static void print_kernel(const struct kernel *k, const char *name, struct stem_out *o)
{
    stem_out_printf(o, "\n// ---- kernel %s ----\n", k->name);
    if (k->body)
        print_inline(k, name, o);
    else
        print_block(o, k->code);
    stem_out_printf(o, "// ---- end of %s ----\n", k->name);
}

/* Bodies with an #include come last: the macros of what they include are known to nobody, and go on to the end of the unit. */
static int by_name(const void *a, const void *b)
{
    const struct kernel *k = *(struct kernel *const *)a, *l = *(struct kernel *const *)b;
    return k->includes != l->includes ? k->includes - l->includes : strcmp(k->name, l->name);
}

static void print_header(const struct stem_cuda *u, uint32_t i, struct stem_out *o)
{
    stem_out_printf(o, "\n// ---- header %s ----\n", u->headers.at[i]);
    print_block(o, stem_op_header(u->headers.at[i]));
}

static void print_switches(const struct stem_cuda *u, struct stem_out *o)
{
    if (u->early)
        stem_out_str(o, "#define STEM_PDL 1\n");
}

/* Kernels by name and not as they were first needed: schedules of one program, which need them in other orders, have the
 * same text then, and with it one cubin. */
void stem_cuda_print(const struct stem_cuda *u, const char *name, struct stem_out *o)
{
    struct kernel **k = stem_xmalloc((u->kernels.len + (size_t)1) * sizeof *k);
    bool *printed = STEM_NEW_ARRAY(u->arena, bool, u->headers.len + (size_t)1);
    stem_out_printf(o, "// CUDA C of the module %s: %u kernel%s.\n", name, u->kernels.len,
                    u->kernels.len == 1 ? "" : "s");
    print_switches(u, o);
    for (uint32_t i = 0; i < u->kernels.len; i++)
        k[i] = u->kernels.at[i];
    qsort(k, u->kernels.len, sizeof *k, by_name);
    for (uint32_t i = 0; i < u->kernels.len; i++)
        for (uint32_t h = 0; h < k[i]->n_headers; h++)
            if (!printed[k[i]->header[h]]) {
                printed[k[i]->header[h]] = true;
                print_header(u, k[i]->header[h], o);
            }
    for (uint32_t i = 0; i < u->kernels.len; i++)
        print_kernel(k[i], name, o);
    free(k);
}

void stem_cuda_print_one(const struct stem_cuda *u, uint32_t i, const char *name, struct stem_out *o)
{
    const struct kernel *k = u->kernels.at[i];
    stem_out_printf(o, "// CUDA C of the module %s: the kernel %s.\n", name, k->name);
    print_switches(u, o);
    for (uint32_t h = 0; h < k->n_headers; h++)
        print_header(u, k->header[h], o);
    print_kernel(k, name, o);
}
