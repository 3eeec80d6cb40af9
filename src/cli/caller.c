/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/caller.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

struct CUgraphExec_st;
struct CUctx_st;

struct stem_caller_graph {
    void *lib;
    struct CUctx_st *ctx;
    struct CUgraph_st *graph;
    struct CUgraphExec_st *exec;
    int (*set_current)(struct CUctx_st *);
    int (*get_device)(int *, int);
    int (*retain)(struct CUctx_st **, int);
    int (*release)(int);
    int (*begin)(struct CUstream_st *, int);
    int (*end)(struct CUstream_st *, struct CUgraph_st **);
    int (*instantiate)(struct CUgraphExec_st **, struct CUgraph_st *, unsigned long long);
    int (*launch)(struct CUgraphExec_st *, struct CUstream_st *);
    int (*exec_destroy)(struct CUgraphExec_st *);
    int (*graph_destroy)(struct CUgraph_st *);
};

static bool failed(struct stem_rt_error *err, const char *call, int result)
{
    *err = (struct stem_rt_error){.status = STEM_E_CUDA, .cuda = result, .op = STEM_NONE};
    snprintf(err->message, sizeof err->message, "the caller's %s: CUDA error %d", call, result);
    return false;
}

static bool find(void *lib, const char *name, void *fn)
{
    void *p = dlsym(lib, name);
    memcpy(fn, &p, sizeof p); /* ISO C has no cast from object to function pointers */
    return p != NULL;
}

static bool load(struct stem_caller_graph *g, struct stem_rt_error *err)
{
    const char *path = getenv("MAINSTEM_LIBCUDA");
    g->lib = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (g->lib && find(g->lib, "cuCtxSetCurrent", &g->set_current) &&
        find(g->lib, "cuDevicePrimaryCtxRetain", &g->retain) &&
        find(g->lib, "cuDevicePrimaryCtxRelease_v2", &g->release) && find(g->lib, "cuDeviceGet", &g->get_device) &&
        find(g->lib, "cuStreamBeginCapture_v2", &g->begin) && find(g->lib, "cuStreamEndCapture", &g->end) &&
        find(g->lib, "cuGraphInstantiateWithFlags", &g->instantiate) && find(g->lib, "cuGraphLaunch", &g->launch) &&
        find(g->lib, "cuGraphExecDestroy", &g->exec_destroy) && find(g->lib, "cuGraphDestroy", &g->graph_destroy))
        return true;
    return failed(err, "dlopen of the driver", 0);
}

static bool capture(struct stem_caller_graph *g, struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                    struct stem_rt_error *err)
{
    enum { THREAD_LOCAL = 1 };
    int r = g->begin(stream, THREAD_LOCAL);
    if (r)
        return failed(err, "cuStreamBeginCapture", r);
    bool fine = stem_exec_record(e, variant, stream, err) == STEM_OK;
    r = g->end(stream, &g->graph);
    if (!fine)
        return false;
    if (r)
        return failed(err, "cuStreamEndCapture", r);
    r = g->instantiate(&g->exec, g->graph, 0);
    return r ? failed(err, "cuGraphInstantiate", r) : true;
}

struct stem_caller_graph *stem_caller_capture(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                              struct stem_rt_error *err)
{
    struct stem_caller_graph *g = stem_xmalloc(sizeof *g);
    memset(g, 0, sizeof *g);
    int device, r;
    if (!load(g, err))
        goto fail;
    if ((r = g->get_device(&device, 0)) || (r = g->retain(&g->ctx, device)) || (r = g->set_current(g->ctx))) {
        failed(err, "context", r);
        goto fail;
    }
    if (capture(g, e, variant, stream, err))
        return g;
fail:
    stem_caller_free(g);
    return NULL;
}

bool stem_caller_launch(struct stem_caller_graph *g, struct CUstream_st *stream, struct stem_rt_error *err)
{
    int r = g->launch(g->exec, stream);
    return r ? failed(err, "cuGraphLaunch", r) : true;
}

void stem_caller_free(struct stem_caller_graph *g)
{
    if (!g)
        return;
    int device;
    if (g->exec)
        g->exec_destroy(g->exec);
    if (g->graph)
        g->graph_destroy(g->graph);
    if (g->ctx) {
        g->set_current(NULL);
        if (!g->get_device(&device, 0))
            g->release(device);
    }
    if (g->lib)
        dlclose(g->lib);
    free(g);
}
