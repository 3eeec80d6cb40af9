/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and loads cuBLASLt.
 */
#include "cublaslt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "nvrtc.h"

enum { OLDEST = 120000 }; /* 12.0: the opaque structs have had their size since then */

static const char *const sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};

/* The first symbol that is missing, or NULL. */
static const char *look_up(struct stem_cublaslt *l)
{
    const char *missing = NULL;
#define X(member, symbol, result, params)                                                                            \
    {                                                                                                                \
        void *at = dlsym(l->handle, #symbol);                                                                        \
        memcpy(&l->member, &at, sizeof at);                                                                          \
        missing = at || missing ? missing : #symbol;                                                                 \
    }
    STEM_CUBLASLT_CALLS(X)
#undef X
    return missing;
}

/* What the process has already, by way of PyTorch say: a second copy would cost as much memory again. */
static void *open_loaded(void)
{
    const char *chosen = getenv("MAINSTEM_CUDA");
    void *handle = NULL;
    for (size_t i = 0; sonames[i] && !handle && !(chosen && chosen[0]); i++)
        handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
    return handle;
}

static void *open_it(char **why)
{
    const char *path = getenv("MAINSTEM_CUBLASLT");
    if (!path || !path[0]) {
        void *loaded = open_loaded();
        return loaded ? loaded : stem_cuda_library("libcublasLt.so*", sonames, why);
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *text = handle ? NULL : dlerror();
    *why = handle ? NULL : strdup(text ? text : path);
    return handle;
}

enum stem_status stem_cublaslt_load(struct stem_cublaslt *l, struct stem_rt_error *err)
{
    char *why = NULL;
    memset(l, 0, sizeof *l);
    l->handle = open_it(&why);
    if (!l->handle) {
        enum stem_status s =
            stem_fail(err, STEM_E_LIBRARY, "no cuBLASLt: %s. Set MAINSTEM_CUBLASLT or MAINSTEM_CUDA, or compile with "
                                           "--matmul=own, which does without it", why ? why : "out of memory");
        free(why);
        return s;
    }
    const char *missing = look_up(l);
    if (!missing && l->version() >= OLDEST)
        return STEM_OK;
    enum stem_status s = missing ? stem_fail(err, STEM_E_LIBRARY, "the cuBLASLt that was found has no %s: 12.0 or later is needed, "
                                                                  "or --matmul=own, which does without it", missing)
                                 : stem_fail(err, STEM_E_LIBRARY, "the cuBLASLt that was found is of version %zu: 12.0 or later is "
                                                                  "needed, or --matmul=own, which does without it", l->version());
    stem_cublaslt_unload(l);
    return s;
}

void stem_cublaslt_unload(struct stem_cublaslt *l)
{
    if (l->handle)
        dlclose(l->handle);
    memset(l, 0, sizeof *l);
}

bool stem_cublaslt_present(void)
{
    struct stem_cublaslt l;
    bool present = stem_cublaslt_load(&l, NULL) == STEM_OK;
    stem_cublaslt_unload(&l);
    return present;
}

bool stem_plan_has_matmul(const struct stem_plan *p)
{
    for (uint32_t i = 0; i < p->n_variants; i++)
        for (uint32_t k = 0; k < p->variants[i].n_ops; k++)
            if (p->variants[i].ops[k].work == STEM_WORK_MATMUL)
                return true;
    return false;
}
