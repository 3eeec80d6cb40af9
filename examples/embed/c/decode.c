/* SPDX-License-Identifier: Apache-2.0
 *
 * A decode step of a foreign program: memory, streams and captures are its own, the layers are Mainstem's. It runs the
 * step eagerly, inside a capture of its own, and as a graph, and checks that all three give the same bits.
 *
 *     decode [LIBCUDA]      exits 77 if there is no GPU
 *
 * Everything of the driver that is used here is loaded by name, so that it builds where there is no GPU.
 */
#include "qkv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 1024, TOKENS = 3 };

#define DRIVER(X)                                                                          \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))         \
    X(setCurrent, cuCtxSetCurrent, (CUcontext))                                            \
    X(malloc_, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                     \
    X(upload, cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                        \
    X(download, cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                            \
    X(streamCreate, cuStreamCreate, (CUstream *, unsigned))                                \
    X(arrived, cuCtxSynchronize, (void))                                                   \
    X(synchronize, cuStreamSynchronize, (CUstream))                                        \
    X(beginCapture, cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))              \
    X(endCapture, cuStreamEndCapture, (CUstream, CUgraph *))                               \
    X(instantiate, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
    X(launch, cuGraphLaunch, (CUgraphExec, CUstream))

static struct {
#define X(member, symbol, params) CUresult(*member) params;
    DRIVER(X)
#undef X
} cu;

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "decode: %s\n", what);
    exit(1);
}

static void load(const char *path)
{
    void *lib = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    need(lib != NULL, "the driver was there a moment ago");
#define X(member, symbol, params)                 \
    {                                             \
        void *at = dlsym(lib, #symbol);           \
        need(at != NULL, #symbol " is missing");  \
        memcpy(&cu.member, &at, sizeof at);       \
    }
    DRIVER(X)
#undef X
}

/* bf16 of a small number that depends on i. */
static uint16_t number(uint32_t i)
{
    float f = (float)((int)((i * 2654435761u) >> 24) - 128) / 4096.0f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static CUdeviceptr tensor(size_t elements, uint32_t seed)
{
    uint16_t *host = (uint16_t *)malloc(elements * sizeof *host);
    CUdeviceptr at;
    size_t i;
    need(host != NULL, "out of memory");
    for (i = 0; i < elements; i++)
        host[i] = number((uint32_t)i + seed);
    need(!cu.malloc_(&at, elements * 2) && !cu.upload(at, host, elements * 2), "no device memory");
    free(host);
    return at;
}

/* Weights by their names: the norms are vectors, all others square. */
static CUdeviceptr bind(struct qkv_program *p, const char *name, int64_t rows, uint32_t seed)
{
    struct qkv_tensor t;
    struct qkv_error err;
    memset(&t, 0, sizeof t);
    t.dtype = QKV_BF16;
    t.rank = rows == 1 ? 1 : 2;
    t.dim[0] = rows == 1 ? HIDDEN : rows;
    t.dim[1] = rows == 1 ? 0 : HIDDEN;
    t.data = tensor((size_t)rows * HIDDEN, seed);
    if (qkv_bind(p, name, &t, &err) != QKV_OK)
        need(0, err.message);
    return t.data;
}

static void result(CUdeviceptr out, CUstream stream, uint16_t *to)
{
    need(!cu.synchronize(stream) && !cu.download(to, out, TOKENS * HIDDEN * 2), "the step failed on the GPU");
}

int main(int argc, char **argv)
{
    static uint16_t eager[TOKENS * HIDDEN], captured[TOKENS * HIDDEN], graphed[TOKENS * HIDDEN];
    struct qkv_options options;
    struct qkv_program *p;
    struct qkv_graph *graph;
    struct qkv_error err;
    CUdeviceptr out = 0;
    CUcontext ctx;
    CUstream stream;
    CUgraph g;
    CUgraphExec exec;
    int64_t rows = qkv_bucket(TOKENS); /* as emitted; 0: no bucket has room */
    unsigned i;
    memset(&options, 0, sizeof options);
    options.libcuda = argc > 1 ? argv[1] : NULL;
    need(rows > 0, "emit qkv with a bucket for at least 3 tokens");
    switch (qkv_create(&options, &p, &err)) {
    case QKV_OK:
        break;
    case QKV_E_NO_DRIVER:
    case QKV_E_NO_DEVICE:
        printf("skipped: %s\n", err.message);
        return 77;
    default:
        need(0, err.message);
    }
    load(options.libcuda);
    need(!cu.cuDevicePrimaryCtxRetain(&ctx, 0) && !cu.setCurrent(ctx) && !cu.streamCreate(&stream, CU_STREAM_NON_BLOCKING),
         "no stream");
    for (i = 0; i < QKV_N_TENSORS; i++) {
        const char *name = qkv_tensor_name(i);
        if (strcmp(name, "out") == 0)
            out = bind(p, name, rows, i);
        else
            bind(p, name, strcmp(name, "hidden") == 0 ? rows : strstr(name, "norm") ? 1 : HIDDEN, i);
    }
    /* A copy from memory that is not pinned may return while the last of it is on its way, and the stream, being non-blocking,
     * does not wait for it. */
    need(!cu.arrived(), "the tensors did not arrive");

    if (qkv_launch(p, TOKENS, stream, &err)) /* eager */
        need(0, err.message);
    result(out, stream, eager);

    need(!cu.beginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "no capture");
    if (qkv_launch(p, TOKENS, stream, &err)) /* joins the capture */
        need(0, err.message);
    need(!cu.endCapture(stream, &g) && !cu.instantiate(&exec, g, 0) && !cu.launch(exec, stream), "the capture failed");
    result(out, stream, captured);

    if (qkv_graph_create(p, TOKENS, &graph, &err) || qkv_graph_launch(graph, stream, &err)) /* a graph of its own */
        need(0, err.message);
    result(out, stream, graphed);

    need(!memcmp(eager, captured, sizeof eager) && !memcmp(eager, graphed, sizeof eager), "the three ways differ");
    printf("%d tokens in the bucket of %d: eager, captured and graph agree; first value %04x\n", TOKENS, (int)rows, eager[0]);
    qkv_graph_destroy(graph);
    qkv_destroy(p);
    return 0;
}
