/* SPDX-License-Identifier: Apache-2.0
 *
 * As start.c, for a program that was emitted under the name `model`; and the floor: the same driver calls without a
 * program, which is what starting CUDA costs anybody.
 *
 *     start_emitted T [NS]       start_emitted floor [NS]
 */
#include "model.c"

#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "start_emitted: %s\n", what);
    exit(1);
}

/* The driver, a context, the kernels, one stream, one empty graph. */
static void floor_of(double start)
{
    struct model_program *p = (struct model_program *)calloc(1, sizeof *p);
    struct model_error e;
    CUstream stream;
    CUgraph g;
    CUgraphExec ge;
    need(!load_driver(p, &e) && !choose_device(p, &e), "no driver");
    p->d.ctx_push(p->ctx);
    double driver = now_ms();
    need(!p->d.module_load(&p->module, model_cubin(p->sm)), "no kernels");
    need(!p->d.stream_create(&stream, CU_STREAM_NON_BLOCKING, 0) && !p->d.graph_create(&g, 0) &&
             !p->d.graph_instantiate(&ge, g, 0) && !p->d.graph_launch(ge, stream) && !p->d.stream_synchronize(stream),
         "no graph");
    printf("| bare driver: context, module, empty graph | | | %.1f | | | | %.1f | %.1f |\n", driver - start, now_ms() - driver,
           now_ms() - start);
}

int main(int argc, char **argv)
{
    double main_ms = now_ms(), at[6];
    struct model_program *p;
    struct model_graph *g;
    struct model_error e;
    CUstream stream;
    CUdeviceptr memory;
    need(argc >= 2, "usage: start_emitted T|floor [NS]");
    double start = argc > 2 ? (double)(strtoull(argv[2], NULL, 10) / 1000) / 1e3 : main_ms;
    if (!strcmp(argv[1], "floor")) {
        floor_of(start);
        return 0;
    }
    int64_t T = atoll(argv[1]);
    size_t most = 1;
    need(!model_create(NULL, &p, &e), e.message);
    at[0] = now_ms();
    p->d.ctx_push(p->ctx);
    for (uint32_t i = 0; i < MODEL_N_TENSORS; i++)
        most = variants[0].shapes[i].bytes > most ? (size_t)variants[0].shapes[i].bytes : most;
    need(!p->d.mem_alloc(&memory, most) && !p->d.stream_create(&stream, CU_STREAM_NON_BLOCKING, 0), "memory");
    for (uint32_t i = 0; i < MODEL_N_TENSORS; i++) {
        struct model_tensor t;
        memset(&t, 0, sizeof t);
        t.data = memory;
        t.dtype = (enum model_dtype)tensors[i].dtype;
        t.rank = tensors[i].rank;
        memcpy(t.dim, variants[0].shapes[i].dim, sizeof t.dim);
        need(tensors[i].state || !model_bind(p, tensors[i].name, &t, &e), e.message);
    }
    at[1] = now_ms();
    need(!model_graph_create(p, T, &g, &e), e.message);
    at[2] = now_ms();
    need(!model_graph_launch(g, stream, &e) && !p->d.stream_synchronize(stream), e.message);
    at[3] = now_ms();
    printf("| emitted C | %.1f | | %.1f (driver and kernels) | | %.1f | %.1f | %.1f | %.1f |\n", main_ms - start,
           at[0] - main_ms, at[1] - at[0], at[2] - at[1], at[3] - at[2], at[3] - start);
    return 0;
}
