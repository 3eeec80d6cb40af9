/* SPDX-License-Identifier: Apache-2.0
 *
 * Time from the start of a process to the end of its first replay, by phases: a program that compiles through libmainstem,
 * or reads a plan, and replays a graph once.
 *
 *     start FILE DIMS [NS]    a .stem file, or a plan as JSON; "T=4"; nanoseconds since 1970 when the process was started
 *
 * Weights are not loaded: all external buffers lie in one allocation as large as the largest. Prints a Markdown row.
 */
#include <mainstem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct stem_rt_error err;

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "start: %s: %s\n", what, err.message);
    exit(1);
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    need(f && !fseek(f, 0, SEEK_END), path);
    *n = (size_t)ftell(f);
    char *text = malloc(*n + 1);
    rewind(f);
    need(text && fread(text, 1, *n, f) == *n, path);
    fclose(f);
    text[*n] = 0;
    return text;
}

/* Everything bound to one piece of memory. */
static void bind(struct stem_rt *rt, struct stem_exec *e, const struct stem_plan *p)
{
    uint64_t at, most = 1;
    for (uint32_t i = 0; i < p->n_external; i++)
        most = p->variants[0].buffers[i].bytes > most ? p->variants[0].buffers[i].bytes : most;
    need(!stem_rt_alloc(rt, most, &at, &err), "memory");
    for (uint32_t i = 0; i < p->n_external; i++)
        if (p->variants[0].buffers[i].kind != STEM_BUFFER_STATE)
            need(!stem_exec_bind(e, i, at, most, &err), "bind");
}

int main(int argc, char **argv)
{
    double at[8], main_ms = now_ms();
    need(argc >= 3, "usage: start FILE DIMS [NS]");
    double start = argc > 3 ? (double)(strtoull(argv[3], NULL, 10) / 1000) / 1e3 : main_ms;
    const char *const dims[] = {argv[2]};
    struct stem_program_options o = {.dims = dims, .n_dims = 1};
    struct stem_jit *jit = NULL;
    const struct stem_plan *p;
    size_t len = strlen(argv[1]);
    if (len > 5 && !strcmp(argv[1] + len - 5, ".json")) {
        char *text = read_file(argv[1], &len);
        char *why = NULL;
        p = stem_plan_from_json(text, len, &why);
        need(p != NULL, why ? why : argv[1]);
        free(text);
    } else {
        jit = stem_jit_file(argv[1], &o);
        p = stem_jit_plan(jit);
        need(p != NULL, stem_jit_text_of_messages(jit));
    }
    at[0] = now_ms();
    struct stem_rt *rt;
    struct stem_exec *e;
    struct stem_graph *g;
    struct CUstream_st *stream;
    need(!stem_rt_open(NULL, &rt, &err), "driver");
    at[1] = now_ms();
    need(!stem_exec_new(rt, p, NULL, &e, &err), "kernels");
    at[2] = now_ms();
    bind(rt, e, p);
    at[3] = now_ms();
    need(!stem_rt_stream_new(rt, &stream, &err) && !stem_graph_new(e, 0, STEM_GRAPH_BY_NODES, &g, &err), "graph");
    at[4] = now_ms();
    need(!stem_graph_launch(g, stream, &err) && !stem_rt_synchronize(rt, stream, &err), "replay");
    at[5] = now_ms();
    printf("| %s | %.1f | %.1f | %.1f | %.1f (%s, %.1f) | %.1f | %.1f | %.1f | %.1f |\n", jit ? "`.stem`" : "plan as JSON",
           main_ms - start, at[0] - main_ms, at[1] - at[0], at[2] - at[1],
           stem_exec_cubin(e)->cached ? "cached" : "compiled", stem_exec_cubin(e)->ms, at[3] - at[2], at[4] - at[3],
           at[5] - at[4], at[5] - start);
    return 0;
}
