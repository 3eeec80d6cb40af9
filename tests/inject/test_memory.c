/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that runs out inside the injection library: whichever allocation fails, alone or with all after it, the
 * program's instantiation and update do what they do without the library, and its graphs have their edges. The linker
 * puts the functions below in place of malloc and its kin (--wrap), in everything but shared libraries.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include "inject/inject.h"
#include "lib.h"

enum { LAYERS = 5, NODES = 1 + 3 * LAYERS, EDGES = 4 * LAYERS, ADDED = LAYERS - 1 };

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void __real_free(void *p);
/* Visible, since the linker wraps the references of shared libraries, too (those of a sanitizer). */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void __wrap_free(void *p);
#pragma GCC visibility pop

static struct {
    bool on, all; /* all: also whatever comes after the one that fails */
    unsigned calls, fail_at;
    long held; /* allocated and not freed while `on` */
} memory;

static bool refused(void)
{
    if (!memory.on)
        return false;
    memory.calls++;
    return memory.calls == memory.fail_at || (memory.all && memory.calls > memory.fail_at);
}

void *__wrap_malloc(size_t bytes)
{
    if (refused())
        return NULL;
    memory.held += memory.on;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    if (refused())
        return NULL;
    memory.held += memory.on;
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    if (refused())
        return NULL;
    memory.held += memory.on && !p;
    return __real_realloc(p, bytes);
}

void __wrap_free(void *p)
{
    memory.held -= memory.on && p;
    __real_free(p);
}

static struct stem_inject state;
static void *driver;

static CUgraph layers(const struct lib *l, CUdeviceptr p)
{
    CUgraph g = NULL;
    CUgraphNode at[3] = {NULL};
    int value = 1;
    CUDA_KERNEL_NODE_PARAMS k = fakecuda_one_warp(l->set, (void *[]){&p, &value});
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddKernelNode_v2(&at[0], g, NULL, 0, &k));
    for (unsigned i = 0; i < LAYERS; i++) {
        OK(cuGraphAddKernelNode_v2(&at[1], g, &at[0], 1, &k));
        OK(cuGraphAddKernelNode_v2(&at[2], g, &at[0], 1, &k));
        OK(cuGraphAddKernelNode_v2(&at[0], g, &at[1], 2, &k));
    }
    return g;
}

static size_t edges_of(CUgraph g)
{
    size_t n = 0;
    OK(cuGraphGetEdges_v2(g, NULL, NULL, NULL, &n));
    return n;
}

static size_t enter(enum stem_inject_call call, const void *params, CUgraph g, uint64_t *slot)
{
    memory.on = true;
    stem_inject_enter(&state, call, params, 1, slot);
    memory.on = false;
    return edges_of(g);
}

static void leave(enum stem_inject_call call, const void *params, CUresult result, uint64_t *slot)
{
    memory.on = true;
    stem_inject_exit(&state, call, params, (int)result, slot);
    memory.on = false;
}

/* Instantiates g and updates the instance with `two`. Returns how many edges were added to the two. */
static size_t go(CUgraph g, CUgraph two)
{
    CUgraphExec e = NULL;
    CUgraphExecUpdateResultInfo info;
    uint64_t slot = 0;
    struct stem_inject_instantiate make = {&e, g};
    size_t during = enter(STEM_INJECT_INSTANTIATE, &make, g, &slot), added = during - EDGES;
    CU_ASSERT(during == EDGES || during == EDGES + ADDED);
    CUresult result = cuGraphInstantiateWithFlags(&e, g, 0);
    OK(result);
    leave(STEM_INJECT_INSTANTIATE, &make, result, &slot);
    /* What was added is known as long as the instance lives, whatever happened. */
    CU_ASSERT_EQUAL(stem_inject_tally_edges(&state.tally, e) != NULL, added != 0);
    struct stem_inject_update change = {e, two};
    during = enter(STEM_INJECT_UPDATE, &change, two, &slot);
    CU_ASSERT(during == EDGES || during == EDGES + ADDED);
    result = cuGraphExecUpdate_v2(e, two, &info);
    CU_ASSERT(result == CUDA_SUCCESS || memory.calls >= memory.fail_at);
    leave(STEM_INJECT_UPDATE, &change, result, &slot);
    enter(STEM_INJECT_DESTROY, &e, g, &slot);
    OK(cuGraphExecDestroy(e));
    leave(STEM_INJECT_DESTROY, &e, 0, &slot);
    return added + during - EDGES;
}

static void failing(bool all)
{
    bool done = false;
    size_t added = 0;
    unsigned k = 1;
    for (; !done && k < 2000; k++) {
        struct lib l = lib_open();
        struct stem_relane_api api;
        CU_ASSERT_FATAL(stem_relane_driver(STAND_IN, &api, &driver));
        struct stem_inject_options o = {.relane = true, .model = stem_lane_driver_find("580")};
        CUdeviceptr p = lib_ints(NODES);
        CUgraph g = layers(&l, p), two = layers(&l, p);
        char before[1024];
        strcpy(before, lib_edges(g));
        memory.calls = 0;
        memory.held = 0;
        memory.fail_at = k;
        memory.all = all;
        memory.on = true;
        stem_inject_init(&state, &o, &api);
        memory.on = false;
        added = go(g, two);
        done = memory.calls < k;
        UNIT_SAME_TEXT(lib_edges(g), before);
        UNIT_SAME_TEXT(lib_edges(two), before);
        CU_ASSERT_EQUAL(stem_inject_tally_known(&state.tally), 0);
        memory.on = true;
        stem_inject_free(&state);
        memory.on = false;
        CU_ASSERT_EQUAL(memory.held, 0);
        OK(cuGraphDestroy(g));
        OK(cuGraphDestroy(two));
        OK(cuMemFree_v2(p));
        dlclose(driver);
        lib_close(&l);
    }
    CU_ASSERT(done);
    CU_ASSERT(k > 20); /* else nothing was tried */
    CU_ASSERT_EQUAL(added, 2 * ADDED);
}

static void one(void)
{
    failing(false);
}

static void all_after(void)
{
    failing(true);
}

UNIT_MAIN("inject memory", {"one allocation fails", one}, {"and all after it", all_after})
