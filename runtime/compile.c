/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler handle: NVRTC behind the cache. NVRTC is loaded when something is to be compiled; its version is part of every key.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "nvrtc.h"

struct stem_compiler {
    pthread_mutex_t lock; /* guards loading */
    bool loaded;
    struct stem_nvrtc nvrtc; /* after loading only read */
    char *nvrtc_path, *cache_dir;
    struct stem_log log;
};

enum stem_status stem_compiler_open(const struct stem_compiler_options *options, struct stem_compiler **out,
                                    struct stem_rt_error *err)
{
    static const struct stem_compiler_options defaults;
    stem_error_clear(err);
    STEM_NEED(out, "c");
    *out = NULL;
    if (!options)
        options = &defaults;
    struct stem_compiler *c = stem_zalloc(1, sizeof *c);
    if (!c)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    pthread_mutex_init(&c->lock, NULL);
    c->log = options->log;
    c->cache_dir = stem_cache_dir(options->cache_dir);
    c->nvrtc_path = options->nvrtc ? strdup(options->nvrtc) : NULL;
    if (options->nvrtc && !c->nvrtc_path) {
        stem_compiler_close(c);
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    }
    *out = c;
    return STEM_OK;
}

void stem_compiler_close(struct stem_compiler *c)
{
    if (!c)
        return;
    if (c->loaded)
        stem_nvrtc_unload(&c->nvrtc);
    free(c->nvrtc_path);
    free(c->cache_dir);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void write_note(const struct stem_compiler *c);

static enum stem_status load(struct stem_compiler *c, struct stem_rt_error *err)
{
    enum stem_status s = STEM_OK;
    pthread_mutex_lock(&c->lock);
    if (!c->loaded) {
        s = stem_nvrtc_load(&c->nvrtc, c->nvrtc_path, err);
        c->loaded = s == STEM_OK;
        if (c->loaded)
            write_note(c);
        if (c->loaded)
            stem_log(&c->log, "cache", "NVRTC %d.%d: %s, headers %s", c->nvrtc.major, c->nvrtc.minor, c->nvrtc.path,
                     c->nvrtc.include ? c->nvrtc.include : "not found");
    }
    pthread_mutex_unlock(&c->lock);
    return s;
}

static bool is_loaded(struct stem_compiler *c)
{
    pthread_mutex_lock(&c->lock);
    bool loaded = c->loaded;
    pthread_mutex_unlock(&c->lock);
    return loaded;
}

const char *stem_compiler_nvrtc(struct stem_compiler *c)
{
    return c && is_loaded(c) ? c->nvrtc.path : NULL;
}

const char *stem_compiler_include(struct stem_compiler *c)
{
    return c && is_loaded(c) ? c->nvrtc.include : NULL;
}

uint32_t stem_compiler_archs(struct stem_compiler *c, uint32_t *sm, uint32_t max, struct stem_rt_error *err)
{
    stem_error_clear(err);
    if (!c || (max && !sm)) {
        stem_fail(err, STEM_E_NULL, "stem_compiler_archs: %s is NULL", c ? "sm" : "c");
        return 0;
    }
    if (load(c, err))
        return 0;
    uint32_t n = c->nvrtc.n_archs < max ? c->nvrtc.n_archs : max;
    if (n)
        memcpy(sm, c->nvrtc.archs, n * sizeof *sm);
    return n;
}

void stem_cubin_free(struct stem_cubin *cubin)
{
    if (!cubin)
        return;
    free(cubin->data);
    free(cubin->log);
    memset(cubin, 0, sizeof *cubin);
}

/* Ours, then the caller's; a caller's --gpu-architecture (sm_90a, say) replaces ours. The include path is not part of
 * the key: it follows from the version, and may differ from machine to machine. */
struct option_list {
    char arch[40];
    char *include;
    const char **at;
    uint32_t n, n_keyed; /* all, and those before the include path */
    uint32_t hints;      /* the one that lets kernels give cache hints; 0: there is none */
};

static bool is_arch(const char *option)
{
    return strncmp(option, "--gpu-architecture", 18) == 0 || strncmp(option, "-arch", 5) == 0;
}

static bool make_options(struct option_list *l, const struct stem_nvrtc *n, uint32_t arch, const char *const *options,
                         uint32_t n_options)
{
    memset(l, 0, sizeof *l);
    bool own_arch = true;
    for (uint32_t i = 0; i < n_options; i++)
        own_arch = own_arch && !is_arch(options[i]);
    l->at = stem_zalloc((size_t)n_options + 4, sizeof *l->at);
    l->include = n->include ? stem_format("--include-path=%s", n->include) : NULL;
    if (!l->at || (n->include && !l->include))
        return false;
    /* sm_90a: wgmma, which no other GPU has; known since 12.0. Nothing is lost, as sm_90 is alone in its generation. */
    snprintf(l->arch, sizeof l->arch, "--gpu-architecture=sm_%u%s", (unsigned)arch, arch == 90 && n->major >= 12 ? "a" : "");
    if (own_arch)
        l->at[l->n++] = l->arch;
    l->at[l->n++] = "--std=c++17";
    if (arch == 90) { /* measured there, and cubin.c knows what may be wrong */
        l->hints = l->n;
        l->at[l->n++] = "-DSTEM_HINTS=1";
    }
    for (uint32_t i = 0; i < n_options; i++)
        l->at[l->n++] = options[i];
    l->n_keyed = l->n;
    if (l->include)
        l->at[l->n++] = l->include;
    return true;
}

/* Without hints if the result would not run with them. */
static enum stem_status compile_sound(struct stem_compiler *c, const char *source, const char *name, const struct option_list *l,
                                      struct stem_cubin *out, struct stem_rt_error *err)
{
    enum stem_status s = stem_nvrtc_compile(&c->nvrtc, source, name, l->at, l->n, out, err);
    if (s || !l->hints || stem_cubin_sound(out->data, out->bytes))
        return s;
    stem_log(&c->log, "cache", "%s is compiled again without cache hints: NVRTC %d.%d gets them wrong", name, c->nvrtc.major,
             c->nvrtc.minor);
    stem_cubin_free(out);
    l->at[l->hints] = "-DSTEM_HINTS=0";
    s = stem_nvrtc_compile(&c->nvrtc, source, name, l->at, l->n, out, err);
    l->at[l->hints] = "-DSTEM_HINTS=1";
    return s;
}

static enum stem_status compile(struct stem_compiler *c, const char *source, const char *name, uint32_t arch,
                                const struct option_list *l, struct stem_cubin *out, struct stem_rt_error *err)
{
    const struct stem_nvrtc *n = &c->nvrtc;
    struct stem_cache_key key = stem_cache_key(source, arch, l->at, l->n_keyed, n->major, n->minor);
    if (c->cache_dir && stem_cache_read(c->cache_dir, key, out, &c->log)) {
        out->cached = true;
        return STEM_OK;
    }
    enum stem_status s = compile_sound(c, source, name, l, out, err);
    if (!s && c->cache_dir)
        stem_cache_write(c->cache_dir, key, out, &c->log);
    return s;
}

/* ---- without NVRTC ----
 *
 * Loading NVRTC takes longer than everything else that a program with cached kernels does at its start. What is needed of
 * it then, its version and architectures, is noted beside the cubins, for the settings by which it was found, and
 * believed while the library has the size and time that it had. */

/* Of everything that decides which NVRTC is found. */
static void note_name(const struct stem_compiler *c, char name[64])
{
    static const char *const variables[] = {"MAINSTEM_NVRTC", "MAINSTEM_CUDA", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME"};
    const char *values[sizeof variables / sizeof *variables];
    uint32_t n = sizeof variables / sizeof *variables;
    for (uint32_t i = 0; i < n; i++)
        values[i] = getenv(variables[i]) ? getenv(variables[i]) : "";
    struct stem_cache_key key = stem_cache_key(c->nvrtc_path ? c->nvrtc_path : "", 0, values, n, 0, 0);
    snprintf(name, 64, "nvrtc-%016llx%016llx", (unsigned long long)key.high, (unsigned long long)key.low);
}

static void write_note(const struct stem_compiler *c)
{
    const struct stem_nvrtc *n = &c->nvrtc;
    char name[64], archs[STEM_MAX_ARCHS * 12] = "";
    struct stat st;
    size_t len = 0;
    if (!c->cache_dir || stat(n->path, &st))
        return;
    for (uint32_t i = 0; i < n->n_archs; i++)
        len += (size_t)snprintf(archs + len, sizeof archs - len, " %u", (unsigned)n->archs[i]);
    char *text = stem_format("1 %lld %lld %ld %d %d %u%s %s\n", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                             st.st_mtim.tv_nsec, n->major, n->minor, (unsigned)n->n_archs, archs, n->path);
    note_name(c, name);
    char *old = stem_cache_note(c->cache_dir, name);
    if (text && old && strcmp(old, text))
        stem_cache_set_note(c->cache_dir, name, text, &c->log);
    free(old);
    free(text);
}

/* Version and architectures of the NVRTC used last; `fresh`: and it is still there as it was. */
static bool read_note(const struct stem_compiler *c, bool fresh, struct stem_nvrtc *n)
{
    char name[64];
    long long size, sec;
    long nsec;
    int at = 0, step;
    struct stat st;
    memset(n, 0, sizeof *n);
    note_name(c, name);
    char *text = c->cache_dir ? stem_cache_note(c->cache_dir, name) : NULL;
    bool ok = text && sscanf(text, "1 %lld %lld %ld %d %d %u%n", &size, &sec, &nsec, &n->major, &n->minor, &n->n_archs, &at) == 6 &&
              n->n_archs >= 1 && n->n_archs <= STEM_MAX_ARCHS;
    for (uint32_t i = 0; ok && i < n->n_archs; i++, at += step)
        ok = sscanf(text + at, " %u%n", &n->archs[i], &step) == 1;
    size_t len = ok ? strcspn(text + at, "\n") : 0;
    ok = ok && text[at] == ' ' && text[at + (int)len] == '\n';
    if (ok && fresh) {
        text[at + (int)len] = '\0';
        ok = !stat(text + at + 1, &st) && st.st_size == size && st.st_mtim.tv_sec == sec && st.st_mtim.tv_nsec == nsec;
    }
    free(text);
    return ok;
}

/* From the cache alone. */
static bool find_cached(struct stem_compiler *c, const char *source, uint32_t sm, const char *const *options,
                        uint32_t n_options, bool fresh, struct stem_cubin *out, uint32_t *arch)
{
    struct stem_nvrtc n;
    struct option_list l = {0};
    if (!read_note(c, fresh, &n) || stem_nvrtc_arch(&n, sm, arch, NULL))
        return false;
    if (make_options(&l, &n, *arch, options, n_options))
        out->cached = stem_cache_read(c->cache_dir, stem_cache_key(source, *arch, l.at, l.n_keyed, n.major, n.minor), out,
                                      &c->log);
    free(l.at);
    free(l.include);
    out->nvrtc_major = n.major;
    out->nvrtc_minor = n.minor;
    return out->cached;
}

/* With NVRTC, loaded. */
static enum stem_status compile_or_read(struct stem_compiler *c, const char *source, const char *name, uint32_t sm,
                                        const char *const *options, uint32_t n_options, struct stem_cubin *out,
                                        uint32_t *arch, struct stem_rt_error *err)
{
    struct option_list l = {0};
    enum stem_status s = stem_nvrtc_arch(&c->nvrtc, sm, arch, err);
    if (!s && !make_options(&l, &c->nvrtc, *arch, options, n_options))
        s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (!s)
        s = compile(c, source, name && name[0] ? name : "mainstem.cu", *arch, &l, out, err);
    free(l.at);
    free(l.include);
    out->nvrtc_major = c->nvrtc.major;
    out->nvrtc_minor = c->nvrtc.minor;
    return s;
}

enum stem_status stem_compile(struct stem_compiler *c, const char *source, const char *name, uint32_t sm,
                              const char *const *options, uint32_t n_options, struct stem_cubin *out,
                              struct stem_rt_error *err)
{
    double start = stem_now_us();
    uint32_t arch = 0;
    enum stem_status s = STEM_OK;
    stem_error_clear(err);
    STEM_NEED(out, "out");
    memset(out, 0, sizeof *out);
    STEM_NEED(c, "c");
    STEM_NEED(source, "source");
    STEM_NEED(options || !n_options, "options");
    if (is_loaded(c) || !find_cached(c, source, sm, options, n_options, true, out, &arch)) {
        s = load(c, err);
        if (!s)
            s = compile_or_read(c, source, name, sm, options, n_options, out, &arch, err);
        else if (find_cached(c, source, sm, options, n_options, false, out, &arch)) /* it is gone, and was not needed */
            s = STEM_OK;
        if (!s)
            stem_error_clear(err);
    }
    out->ms = (stem_now_us() - start) / 1e3;
    stem_log(&c->log, "cache", "sm_%u: %s in %.1f ms", (unsigned)arch,
             s             ? "failed"
             : out->cached ? "from the cache"
                           : "compiled",
             out->ms);
    return s;
}
