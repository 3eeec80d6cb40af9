/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled with emitted sources into one shared object: gives programs of every name and shape the same functions.
 * EXTERN_NAME is the program's extern function, if it has one.
 */
#include "emitted.h"
#include "model.h"

#include <string.h>

typedef char same_statuses[(int)MODEL_E_LIBRARY == (int)EMITTED_E_LIBRARY ? 1 : -1];

static int give(enum model_status s, const struct model_error *from, struct emitted_error *to)
{
    if (!to)
        return (int)s;
    memset(to, 0, sizeof *to);
    to->status = (int)from->status;
    to->cuda = (int)from->cuda;
    to->line = from->line;
    if (from->op)
        strncpy(to->op, from->op, sizeof to->op - 1);
    memcpy(to->message, from->message, sizeof to->message);
    return (int)s;
}

#define GIVE(call)                  \
    do {                            \
        struct model_error err;     \
        enum model_status s = call; \
        return give(s, &err, e);    \
    } while (0)
/* Two dims come as one number. */
#ifdef TWO_DIMS
#define DIMS T / 1000, T % 1000
#else
#define DIMS T
#endif
#define API __attribute__((visibility("default")))

/* The callbacks' types differ in pointer types alone. */
static CUdeviceptr call_alloc(void *user, size_t bytes, CUstream stream)
{
    const struct emitted_options *o = (const struct emitted_options *)user;
    return o->alloc(o->user, bytes, stream);
}

static void call_free(void *user, CUdeviceptr at, size_t bytes, CUstream stream)
{
    const struct emitted_options *o = (const struct emitted_options *)user;
    o->free(o->user, at, bytes, stream);
}

#ifdef EXTERN_NAME
static int (*extern_fn)(const void *call, void *stream);

static int call_extern(const struct model_call *call, CUstream stream)
{
    return extern_fn(call, stream);
}
#endif

API int emitted_create(const struct emitted_options *o, void **p, struct emitted_error *e)
{
    struct model_options x;
    memset(&x, 0, sizeof x);
    x.device = o->device;
    x.libcuda = o->libcuda;
    x.image = o->image;
    x.slab = o->slab;
    x.slab_bytes = o->slab_bytes;
    x.pool = o->pool;
    x.alloc = o->alloc ? call_alloc : NULL;
    x.free = o->free ? call_free : NULL;
    x.user = (void *)(uintptr_t)o;
#ifdef EMBED_SOURCE
    x.nvrtc = o->nvrtc;
#endif
#ifdef WITH_CUBLASLT
    x.cublaslt = o->cublaslt;
#endif
#ifdef EXTERN_NAME
    extern_fn = o->fn ? o->fn : extern_fn;
    x.EXTERN_NAME = o->fn ? call_extern : NULL;
#endif
    GIVE(model_create(&x, (struct model_program **)p, &err));
}

API int emitted_bind(void *p, const char *name, const struct emitted_tensor *t, struct emitted_error *e)
{
    struct model_tensor x;
    memset(&x, 0, sizeof x);
    if (t) {
        x.data = t->data;
        x.dtype = (enum model_dtype)t->dtype;
        x.rank = t->rank;
        memcpy(x.dim, t->dim, sizeof x.dim);
        memcpy(x.stride, t->stride, sizeof x.stride);
    }
    GIVE(model_bind((struct model_program *)p, name, t ? &x : NULL, &err));
}

API int emitted_prepare(void *p, struct emitted_error *e)
{
    GIVE(model_prepare((struct model_program *)p, &err));
}

API int emitted_reset(void *p, struct emitted_error *e)
{
    GIVE(model_reset((struct model_program *)p, &err));
}

API int emitted_launch(void *p, int64_t T, void *stream, struct emitted_error *e)
{
    GIVE(model_launch((struct model_program *)p, DIMS, (CUstream)stream, &err));
}

API int emitted_build(void *p, int64_t T, void **graph, struct emitted_error *e)
{
    GIVE(model_build((struct model_program *)p, DIMS, (CUgraph *)graph, &err));
}

API int emitted_graph_create(void *p, int64_t T, void **graph, struct emitted_error *e)
{
    GIVE(model_graph_create((struct model_program *)p, DIMS, (struct model_graph **)graph, &err));
}

API int emitted_graph_launch(void *g, void *stream, struct emitted_error *e)
{
    GIVE(model_graph_launch((struct model_graph *)g, (CUstream)stream, &err));
}

API int emitted_graph_update(void *g, struct emitted_error *e)
{
    GIVE(model_graph_update((struct model_graph *)g, &err));
}

API int emitted_graph_destroy(void *g)
{
    model_graph_destroy((struct model_graph *)g);
    return 0;
}

API int emitted_destroy(void *p)
{
    model_destroy((struct model_program *)p);
    return 0;
}

API int64_t emitted_bucket(int64_t T)
{
#ifdef TWO_DIMS
    int64_t bucket[2];
    return model_bucket(DIMS, bucket) ? 1000 * bucket[0] + bucket[1] : 0;
#else
    return model_bucket(T);
#endif
}
