/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC, loaded by name. Its C API has been stable since CUDA 11.1.
 */
#ifndef STEM_RUNTIME_NVRTC_H
#define STEM_RUNTIME_NVRTC_H

#include "mainstem_rt.h"

enum { STEM_MAX_ARCHS = 64 };

struct stem_nvrtc {
    void *handle;
    char *path;    /* of the library, resolved */
    char *include; /* directory with cuda_fp16.h of the same toolkit; NULL if there is none */
    int major, minor;
    uint32_t archs[STEM_MAX_ARCHS]; /* ascending */
    uint32_t n_archs;

    const char *(*error_string)(int);
    int (*version)(int *, int *);
    int (*n_supported)(int *);
    int (*supported)(int *);
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*destroy)(void **);
    int (*compile)(void *, int, const char *const *);
    int (*cubin_size)(void *, size_t *);
    int (*cubin)(void *, char *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
};

/* `path` may be NULL. On failure nothing stays loaded. */
enum stem_status stem_nvrtc_load(struct stem_nvrtc *n, const char *path, struct stem_rt_error *err);
void stem_nvrtc_unload(struct stem_nvrtc *n);

/* The architecture to compile for so that the cubin runs on sm_<sm>: itself, or the next lower one of the same major
 * version that this NVRTC knows (cubins run on later minor versions). */
enum stem_status stem_nvrtc_arch(const struct stem_nvrtc *n, uint32_t sm, uint32_t *arch, struct stem_rt_error *err);
/* out->data and out->log are set; the log after a failure too. */
enum stem_status stem_nvrtc_compile(struct stem_nvrtc *n, const char *source, const char *name,
                                    const char *const *options, uint32_t n_options, struct stem_cubin *out,
                                    struct stem_rt_error *err);

/* False: it has instructions of which the GPU makes an error, see cubin.c. What is no cubin is sound. */
bool stem_cubin_sound(const void *data, size_t bytes);

/* Tries `name` (a shell pattern) in the library directories where CUDA may be: $MAINSTEM_CUDA (and nowhere else if it
 * is set), the configured toolkit, the loader's path, /usr/local/cuda, Python's nvidia wheels. NULL with *why
 * malloc'd. */
void *stem_cuda_library(const char *name, const char *const *sonames, char **why);

#endif
