/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler handle: NVRTC behind the cache. NVRTC is loaded on first use; its version is part of every key.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static enum stem_status load(struct stem_compiler *c, struct stem_rt_error *err)
{
    enum stem_status s = STEM_OK;
    pthread_mutex_lock(&c->lock);
    if (!c->loaded) {
        s = stem_nvrtc_load(&c->nvrtc, c->nvrtc_path, err);
        c->loaded = s == STEM_OK;
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
    return is_loaded(c) ? c->nvrtc.path : NULL;
}

const char *stem_compiler_include(struct stem_compiler *c)
{
    return is_loaded(c) ? c->nvrtc.include : NULL;
}

uint32_t stem_compiler_archs(struct stem_compiler *c, uint32_t *sm, uint32_t max, struct stem_rt_error *err)
{
    stem_error_clear(err);
    if (load(c, err))
        return 0;
    uint32_t n = c->nvrtc.n_archs < max ? c->nvrtc.n_archs : max;
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
    l->at = stem_zalloc((size_t)n_options + 3, sizeof *l->at);
    l->include = n->include ? stem_format("--include-path=%s", n->include) : NULL;
    if (!l->at || (n->include && !l->include))
        return false;
    snprintf(l->arch, sizeof l->arch, "--gpu-architecture=sm_%u", (unsigned)arch);
    if (own_arch)
        l->at[l->n++] = l->arch;
    l->at[l->n++] = "--std=c++17";
    for (uint32_t i = 0; i < n_options; i++)
        l->at[l->n++] = options[i];
    l->n_keyed = l->n;
    if (l->include)
        l->at[l->n++] = l->include;
    return true;
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
    enum stem_status s = stem_nvrtc_compile(&c->nvrtc, source, name, l->at, l->n, out, err);
    if (!s && c->cache_dir)
        stem_cache_write(c->cache_dir, key, out, &c->log);
    return s;
}

enum stem_status stem_compile(struct stem_compiler *c, const char *source, const char *name, uint32_t sm,
                              const char *const *options, uint32_t n_options, struct stem_cubin *out,
                              struct stem_rt_error *err)
{
    double start = stem_now_us();
    uint32_t arch = 0;
    struct option_list l = {0};
    stem_error_clear(err);
    memset(out, 0, sizeof *out);
    enum stem_status s = load(c, err);
    if (!s)
        s = stem_nvrtc_arch(&c->nvrtc, sm, &arch, err);
    if (!s && !make_options(&l, &c->nvrtc, arch, options, n_options))
        s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (!s)
        s = compile(c, source, name && name[0] ? name : "mainstem.cu", arch, &l, out, err);
    free(l.at);
    free(l.include);
    if (!s) {
        out->nvrtc_major = c->nvrtc.major;
        out->nvrtc_minor = c->nvrtc.minor;
    }
    out->ms = (stem_now_us() - start) / 1e3;
    stem_log(&c->log, "cache", "sm_%u: %s in %.1f ms", (unsigned)arch,
             s             ? "failed"
             : out->cached ? "from the cache"
                           : "compiled",
             out->ms);
    return s;
}
