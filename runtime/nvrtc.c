/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles CUDA C to cubins with NVRTC. Cubins and not PTX: the driver's own compiler may be older than NVRTC.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "nvrtc.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};

static bool symbol(struct stem_nvrtc *n, const char *name, void *member)
{
    void *at = dlsym(n->handle, name);
    memcpy(member, &at, sizeof at);
    return at != NULL;
}

static bool symbols(struct stem_nvrtc *n)
{
    return symbol(n, "nvrtcGetErrorString", &n->error_string) && symbol(n, "nvrtcVersion", &n->version) &&
           symbol(n, "nvrtcGetNumSupportedArchs", &n->n_supported) &&
           symbol(n, "nvrtcGetSupportedArchs", &n->supported) && symbol(n, "nvrtcCreateProgram", &n->create) &&
           symbol(n, "nvrtcDestroyProgram", &n->destroy) && symbol(n, "nvrtcCompileProgram", &n->compile) &&
           symbol(n, "nvrtcGetCUBINSize", &n->cubin_size) && symbol(n, "nvrtcGetCUBIN", &n->cubin) &&
           symbol(n, "nvrtcGetProgramLogSize", &n->log_size) && symbol(n, "nvrtcGetProgramLog", &n->log);
}

/* True unless dir/cuda.h says that it is of another version than this NVRTC. */
static bool same_version(const struct stem_nvrtc *n, const char *dir)
{
    char *path = stem_format("%s/cuda.h", dir), line[256];
    FILE *f = path ? fopen(path, "r") : NULL;
    int version = 0;
    while (f && !version && fgets(line, sizeof line, f))
        if (sscanf(line, "#define CUDA_VERSION %d", &version) != 1)
            version = 0;
    if (f)
        fclose(f);
    free(path);
    return version == 0 || (version / 1000 == n->major && version % 1000 / 10 == n->minor);
}

/* The include directory that belongs to the library: headers of another toolkit may not compile with it. */
static char *include_dir(const struct stem_nvrtc *n)
{
    static const char *const places[] = {"../include", "../../include", "../../cuda_runtime/include"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *slash = strrchr(n->path, '/');
        char *dir = stem_format("%.*s/%s", slash ? (int)(slash - n->path) : 1, slash ? n->path : ".", places[i]);
        char *header = dir ? stem_format("%s/cuda_fp16.h", dir) : NULL;
        bool fits = header && access(header, R_OK) == 0 && same_version(n, dir);
        char *real = fits ? realpath(dir, NULL) : NULL;
        free(header);
        free(dir);
        if (real)
            return real;
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool read_archs(struct stem_nvrtc *n)
{
    int count = 0, list[STEM_MAX_ARCHS];
    if (n->n_supported(&count) || count < 1 || count > STEM_MAX_ARCHS || n->supported(list))
        return false;
    n->n_archs = (uint32_t)count;
    for (uint32_t i = 0; i < n->n_archs; i++)
        n->archs[i] = (uint32_t)list[i];
    qsort(n->archs, n->n_archs, sizeof *n->archs, compare);
    return true;
}

static char *library_path(const struct stem_nvrtc *n)
{
    Dl_info info;
    void *at;
    memcpy(&at, &n->version, sizeof at);
    if (!dladdr(at, &info) || !info.dli_fname)
        return NULL;
    char *real = realpath(info.dli_fname, NULL);
    return real ? real : strdup(info.dli_fname);
}

/* NVRTC opens its builtins by name, which the loader finds only if their directory is on its path; that of a toolkit in a
 * directory of its own, or of wheels, is not. Once they are loaded, NVRTC's own dlopen gets them. They may be missing here
 * and still be found there, so nothing is reported. */
static void load_builtins(const struct stem_nvrtc *n)
{
    char file[4096];
    const char *slash = strrchr(n->path, '/');
    int len = slash ? (int)(slash - n->path) : 0;
    if (slash && snprintf(file, sizeof file, "%.*s/libnvrtc-builtins.so.%d.%d", len, n->path, n->major, n->minor) <
                     (int)sizeof file)
        (void)dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

enum stem_status stem_nvrtc_load(struct stem_nvrtc *n, const char *path, struct stem_rt_error *err)
{
    memset(n, 0, sizeof *n);
    if (!path || !path[0])
        path = getenv("MAINSTEM_NVRTC");
    char *why = NULL;
    if (path && path[0]) {
        n->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!n->handle) {
            const char *text = dlerror();
            why = strdup(text ? text : path);
        }
    } else {
        n->handle = stem_cuda_library("libnvrtc.so*", sonames, &why);
    }
    if (!n->handle) {
        enum stem_status s = stem_fail(err, STEM_E_NO_NVRTC, "no NVRTC: %s (set MAINSTEM_CUDA or MAINSTEM_NVRTC)",
                                       why ? why : "out of memory");
        free(why);
        return s;
    }
    if (!symbols(n) || n->version(&n->major, &n->minor) || !(n->path = library_path(n)) || !read_archs(n)) {
        enum stem_status s =
            stem_fail(err, STEM_E_NO_NVRTC, "%s is not an NVRTC that can be used: 12.4 or later is needed",
                      n->path ? n->path
                      : path  ? path
                              : "libnvrtc");
        stem_nvrtc_unload(n);
        return s;
    }
    load_builtins(n);
    n->include = include_dir(n);
    return STEM_OK;
}

void stem_nvrtc_unload(struct stem_nvrtc *n)
{
    free(n->path);
    free(n->include);
    if (n->handle)
        dlclose(n->handle);
    memset(n, 0, sizeof *n);
}

enum stem_status stem_nvrtc_arch(const struct stem_nvrtc *n, uint32_t sm, uint32_t *arch, struct stem_rt_error *err)
{
    *arch = 0;
    for (uint32_t i = 0; i < n->n_archs; i++)
        if (n->archs[i] <= sm && n->archs[i] / 10 == sm / 10)
            *arch = n->archs[i];
    if (*arch)
        return STEM_OK;
    return stem_fail(err, STEM_E_ARCH,
                     "NVRTC %d.%d (%s) makes no cubins for sm_%u: it knows sm_%u to sm_%u. Point MAINSTEM_CUDA at a "
                     "toolkit that supports this GPU",
                     n->major, n->minor, n->path, (unsigned)sm, (unsigned)n->archs[0],
                     (unsigned)n->archs[n->n_archs - 1]);
}

/* The line of the log that says most: the first with "error", else the first. */
static void first_error(const char *log, char *out, size_t size)
{
    const char *at = strstr(log, "error");
    const char *line = log;
    while (at && at > log && at[-1] != '\n')
        at--;
    if (at)
        line = at;
    snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
}

static char *read_log(struct stem_nvrtc *n, void *program)
{
    size_t size = 0;
    if (n->log_size(program, &size) || size == 0)
        return strdup("");
    char *text = calloc(1, size + 1);
    if (text && n->log(program, text))
        text[0] = '\0';
    return text;
}

enum stem_status stem_nvrtc_compile(struct stem_nvrtc *n, const char *source, const char *name,
                                    const char *const *options, uint32_t n_options, struct stem_cubin *out,
                                    struct stem_rt_error *err)
{
    void *program = NULL;
    enum stem_status s = STEM_OK;
    int code = n->create(&program, source, name, 0, NULL, NULL);
    if (code)
        return stem_fail(err, STEM_E_COMPILE, "nvrtcCreateProgram: %s", n->error_string(code));
    code = n->compile(program, (int)n_options, options);
    out->log = read_log(n, program);
    if (code) {
        char line[512] = "";
        first_error(out->log ? out->log : "", line, sizeof line);
        s = stem_fail(err, STEM_E_COMPILE, "NVRTC %d.%d rejects %s: %s%s%s", n->major, n->minor, name,
                      n->error_string(code), line[0] ? ": " : "", line);
        goto out;
    }
    if ((code = n->cubin_size(program, &out->bytes)) || out->bytes == 0) {
        s = stem_fail(err, STEM_E_COMPILE, "NVRTC gave no cubin for %s: %s", name, n->error_string(code));
        goto out;
    }
    out->data = malloc(out->bytes);
    if (!out->data || !out->log)
        s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    else if ((code = n->cubin(program, out->data)))
        s = stem_fail(err, STEM_E_COMPILE, "nvrtcGetCUBIN: %s", n->error_string(code));
out:
    n->destroy(&program);
    return s;
}
