/* SPDX-License-Identifier: Apache-2.0
 *
 * Emitted code as the tests see it: adapter.c, compiled with the sources that were emitted under the name `model`, has
 * these functions; the test program loads them by name.
 */
#ifndef TESTS_EMITTED_H
#define TESTS_EMITTED_H

#include <stddef.h>
#include <stdint.h>

/* In the order of the emitted header: the adapter checks the last. */
enum emitted_status {
    EMITTED_OK,
    EMITTED_E_ARGUMENT,
    EMITTED_E_MEMORY,
    EMITTED_E_NO_DRIVER,
    EMITTED_E_OLD_DRIVER,
    EMITTED_E_NO_DEVICE,
    EMITTED_E_ARCH,
    EMITTED_E_COMPILE,
    EMITTED_E_CUDA,
    EMITTED_E_NO_TENSOR,
    EMITTED_E_NULL,
    EMITTED_E_DTYPE,
    EMITTED_E_SHAPE,
    EMITTED_E_STRIDES,
    EMITTED_E_ALIGN,
    EMITTED_E_WRONG_DEVICE,
    EMITTED_E_UNBOUND,
    EMITTED_E_SLAB,
    EMITTED_E_BUCKET,
    EMITTED_E_BUSY,
    EMITTED_E_CAPTURE,
    EMITTED_E_EAGER,
    EMITTED_E_EXTERN,
    EMITTED_E_STALE,
    EMITTED_E_LIBRARY
};

struct emitted_error {
    int status, cuda;
    unsigned line;
    char op[128], message[512];
};

struct emitted_options {
    const char *libcuda, *nvrtc, *cublaslt;
    const void *image;
    int device, pool;
    uint64_t slab, slab_bytes;
    uint64_t (*alloc)(void *user, size_t bytes, void *stream);
    void (*free)(void *user, uint64_t at, size_t bytes, void *stream);
    void *user;
    int (*fn)(const void *call, void *stream); /* the extern function, if there is one */
};

struct emitted_tensor {
    uint64_t data;
    int dtype;
    unsigned rank;
    int64_t dim[6], stride[6];
};

/* X(name, parameters): all return a status. */
#define EMITTED(X)                                                                                                  \
    X(create, (const struct emitted_options *o, void **p, struct emitted_error *e))                                 \
    X(bind, (void *p, const char *name, const struct emitted_tensor *t, struct emitted_error *e))                   \
    X(prepare, (void *p, struct emitted_error *e))                                                                  \
    X(reset, (void *p, struct emitted_error *e))                                                                    \
    X(launch, (void *p, int64_t T, void *stream, struct emitted_error *e))                                          \
    X(build, (void *p, int64_t T, void **graph, struct emitted_error *e))                                           \
    X(graph_create, (void *p, int64_t T, void **graph, struct emitted_error *e))                                    \
    X(graph_launch, (void *g, void *stream, struct emitted_error *e))                                               \
    X(graph_update, (void *g, struct emitted_error *e))                                                             \
    X(graph_destroy, (void *g))                                                                                     \
    X(destroy, (void *p))

struct emitted_api {
#define X(name, params) int(*name) params;
    EMITTED(X)
#undef X
    int64_t (*bucket)(int64_t T);
};

#endif
