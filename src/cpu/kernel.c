/* SPDX-License-Identifier: Apache-2.0
 *
 * Inline kernels on the CPU. The kernel's text is taken from the plan's translation unit, put behind shim.hpp,
 * compiled by the host's C++ compiler, and called with pointers into host memory.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/out.h"
#include "cpu/device.h"
#include "cpu/guard.h"

extern const char stem_cpu_shim[]; /* shim.hpp, made at build time */

const char *stem_cpu_kernel_text(const char *unit, const char *kernel, size_t *len)
{
    struct stem_out mark = {0};
    stem_out_printf(&mark, "\n// ---- kernel %s ----\n", kernel);
    const char *begin = strstr(unit, stem_out_text(&mark)), *end = NULL;
    if (begin) {
        begin += mark.len;
        stem_out_free(&mark);
        mark = (struct stem_out){0};
        stem_out_printf(&mark, "\n// ---- end of %s ----\n", kernel);
        end = strstr(begin, stem_out_text(&mark));
    }
    stem_out_free(&mark);
    *len = end ? (size_t)(end + 1 - begin) : 0;
    return end ? begin : NULL;
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* `extern __shared__ T name[];` at s: writes what declares `name` as the block's dynamic shared memory, returns the
 * end of the declaration. NULL if it is something else. */
static const char *dynamic_shared(const char *s, const char *end, struct stem_out *o)
{
    static const char word[] = "__shared__";
    const char *p = s + strlen("extern");
    while (p < end && isspace((unsigned char)*p))
        p++;
    if ((size_t)(end - p) < sizeof word || strncmp(p, word, sizeof word - 1))
        return NULL;
    const char *type = p + sizeof word - 1, *stop = memchr(type, ';', (size_t)(end - type));
    const char *bracket = stop ? memchr(type, '[', (size_t)(stop - type)) : NULL;
    if (!bracket)
        return NULL;
    const char *name_end = bracket;
    while (name_end > type && isspace((unsigned char)name_end[-1]))
        name_end--;
    const char *name = name_end;
    while (name > type && in_name(name[-1]))
        name--;
    while (type < name && isspace((unsigned char)*type))
        type++;
    if (!strncmp(type, "__align__", 9) || !strncmp(type, "alignas", 7)) { /* the memory is aligned to 128 */
        type = memchr(type, ')', (size_t)(name - type));
        if (!type++)
            return NULL;
    }
    stem_out_str(o, "typedef ");
    stem_out_bytes(o, type, (size_t)(name - type));
    stem_out_str(o, "stem_type_of_");
    stem_out_bytes(o, name, (size_t)(name_end - name));
    stem_out_str(o, "; stem_type_of_");
    stem_out_bytes(o, name, (size_t)(name_end - name));
    stem_out_str(o, " *");
    stem_out_bytes(o, name, (size_t)(name_end - name));
    stem_out_str(o, " = (stem_type_of_");
    stem_out_bytes(o, name, (size_t)(name_end - name));
    stem_out_str(o, " *)stem_dynamic_shared;");
    return stop + 1;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && isspace((unsigned char)*p))
        p++;
    return p;
}

static bool word_at(const char *s, const char *text, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(s, word, n) && (s == text || !in_name(s[-1])) && !in_name(s[n]);
}

/* `asm volatile("griddepcontrol...` at s: its closing parenthesis is at the end of what is returned, since here all that
 * precedes a kernel has ended and nothing is left to do. NULL if it is something else. */
static const char *early_launch(const char *s, const char *text, const char *end)
{
    const char *p = s + (word_at(s, text, "asm") ? 3 : word_at(s, text, "__asm__") ? 7 : 0);
    if (p == s)
        return NULL;
    p = skip_space(p, end);
    p = skip_space(p + (word_at(p, text, "volatile") ? 8 : word_at(p, text, "__volatile__") ? 12 : 0), end);
    if (p == end || *p != '(')
        return NULL;
    p = skip_space(p + 1, end);
    static const char what[] = "\"griddepcontrol.";
    const char *close = (size_t)(end - p) < sizeof what || strncmp(p, what, sizeof what - 1) ? NULL : memchr(p, ')', (size_t)(end - p));
    return close ? close + 1 : NULL;
}

/* The kernel as C++: as it is, but for its declarations of dynamic shared memory and what early launches need. */
static void print_text(const char *text, size_t len, struct stem_out *o)
{
    const char *s = text, *end = text + len;
    while (s < end) {
        const char *after = word_at(s, text, "extern") ? dynamic_shared(s, end, o) : early_launch(s, text, end);
        if (!after)
            stem_out_char(o, *s);
        s = after ? after : s + 1;
    }
}

/* Threads need to take turns only if the text has a word that makes them wait for each other. */
static bool synchronises(const char *text, size_t len)
{
    static const char *const words[] = {"__sync", "__shfl", "__ballot", "__any", "__all"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(text, len, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Macros of the host's headers, such as M_PI, that a parameter is named like: the GPU's compiler has none of these. Names of the shim
 * itself stay. */
static void print_undefs(const char *kernel, const char *text, size_t len, struct stem_out *o)
{
    const char *at = memmem(text, len, kernel, strlen(kernel)), *end = text + len, *name = NULL, *behind = NULL;
    for (at = at ? at + strlen(kernel) : end; at < end && *at != '{'; at++) {
        if (in_name(*at)) {
            name = in_name(at[-1]) ? name : at;
            behind = at + 1;
        } else if (name && (*at == ',' || *at == ')') && strncmp(name, "stem_", 5) && !word_at(name, text, "defined")) {
            stem_out_str(o, "#undef ");
            stem_out_bytes(o, name, (size_t)(behind - name));
            stem_out_char(o, '\n');
        }
    }
}

static void print_source(const char *kernel, const char *text, size_t len, struct stem_out *o)
{
    stem_out_str(o, stem_cpu_shim);
    stem_out_char(o, '\n');
    print_undefs(kernel, text, len, o);
    print_text(text, len, o);
    stem_out_printf(o, "#line 1 \"entry.cc\"\n"
                       "static void stem_thread_body() { stem_call(%s); }\n"
                       "extern \"C\" unsigned stem_parameters() { return stem_arity(%s); }\n"
                       "extern \"C\" const char *stem_entry(const stem_launch *l, void *const *args)\n"
                       "{\n"
                       "    return stem_run_grid(l, args, stem_thread_body, %s);\n"
                       "}\n",
                    kernel, kernel, synchronises(text, len) ? "true" : "false");
}

static bool source_of(const struct stem_plan *plan, uint32_t index, const char *name, struct stem_out *o, char **error)
{
    size_t len;
    const char *kernel = plan->kernels[index].name;
    const char *text = plan->cuda ? stem_cpu_kernel_text(plan->cuda, kernel, &len) : NULL;
    if (!text)
        return stem_cpu_fail(error, "the plan has no text for the inline kernel '%s'", name);
    print_source(kernel, text, len, o);
    return true;
}

static bool open_library(const char *path, struct stem_cpu_kernel *k)
{
    k->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *entry = k->library ? dlsym(k->library, "stem_entry") : NULL;
    void *parameters = k->library ? dlsym(k->library, "stem_parameters") : NULL;
    if (entry && parameters) {
        memcpy(&k->entry, &entry, sizeof entry);
        memcpy(&k->parameters, &parameters, sizeof parameters);
        return true;
    }
    stem_cpu_kernel_unload(k);
    return false;
}

bool stem_cpu_kernel_compiles(const struct stem_plan *plan, uint32_t index, const char *name, bool *rejected, char **error)
{
    struct stem_out o = {0};
    if (!source_of(plan, index, name, &o, error))
        return false;
    char *path = stem_cpu_compile(stem_out_text(&o), name, rejected, error);
    bool ok = path != NULL;
    free(path);
    stem_out_free(&o);
    return ok;
}

bool stem_cpu_kernel_load(const struct stem_plan *plan, uint32_t index, const char *name, struct stem_cpu_kernel *k,
                          char **error)
{
    struct stem_out o = {0};
    if (!source_of(plan, index, name, &o, error))
        return false;
    char *path = stem_cpu_compile(stem_out_text(&o), name, NULL, error);
    bool ok = path && open_library(path, k);
    if (path && !ok) { /* damaged in the cache: once more from the start */
        remove(path);
        free(path);
        path = stem_cpu_compile(stem_out_text(&o), name, NULL, error);
        ok = path && (open_library(path, k) ||
                      stem_cpu_fail(error, "the inline kernel '%s' cannot be loaded: %s", name, dlerror()));
    }
    free(path);
    stem_out_free(&o);
    return ok;
}

void stem_cpu_kernel_unload(struct stem_cpu_kernel *k)
{
    if (k->library)
        dlclose(k->library);
    *k = (struct stem_cpu_kernel){0};
}

union argument {
    void *pointer;
    int32_t i32;
    int64_t i64;
    float f32;
};

static union argument scalar_argument(const struct stem_scalar *s)
{
    union argument a = {0};
    switch (s->kind) {
    case STEM_SCALAR_I32: a.i32 = (int32_t)s->i; break;
    case STEM_SCALAR_I64: a.i64 = s->i; break;
    case STEM_SCALAR_F32: a.f32 = (float)s->f; break;
    }
    return a;
}

/* The message of the kernel itself, or of what it wrote beside its operands, is the one that counts. */
static bool run_guarded(const struct stem_cpu_kernel *k, const struct stem_plan_op *op, struct stem_cpu_guard *g,
                        union argument *a, void **args, char **error)
{
    for (uint32_t i = 0; i < op->n_operands + op->n_scalars; i++) {
        if (i < op->n_operands)
            a[i].pointer = g->data[i];
        else
            a[i] = scalar_argument(&op->scalars[i - op->n_operands]);
        args[i] = &a[i];
    }
    struct stem_cpu_launch l = {.shared = (char *)g->shared.at};
    memcpy(l.grid, op->grid, sizeof l.grid);
    memcpy(l.block, op->block, sizeof l.block);
    const char *wrong = k->entry(&l, args);
    bool kept = stem_cpu_guard_end(g, op, wrong ? NULL : error);
    return wrong ? stem_cpu_fail(error, "%s", wrong) : kept;
}

bool stem_cpu_kernel_run(const struct stem_cpu_kernel *k, const struct stem_plan_op *op, void *const *data,
                         struct stem_cpu_watch *watch, char **error)
{
    uint32_t n = op->n_operands + op->n_scalars;
    if (k->parameters() != n)
        return stem_cpu_fail(error, "the kernel has %u parameters, the launch gives %u", k->parameters(), n);
    union argument *a = calloc(n + (size_t)1, sizeof *a);
    void **args = calloc(n + (size_t)1, sizeof *args);
    struct stem_cpu_guard g;
    bool ok = a && args ? stem_cpu_guard_new(&g, op, data, error) : stem_cpu_fail(error, STEM_CPU_NO_MEMORY);
    if (ok) {
        stem_cpu_guard_tell(&g, watch);
        ok = run_guarded(k, op, &g, a, args, error);
    }
    free(a);
    free(args);
    return ok;
}
