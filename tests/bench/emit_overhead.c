/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time of emitted code's launches against the bare driver calls: the same launches, records and waits, with
 * parameters prepared beforehand, in a loop. Compiled together with emitted sources, whose tables it looks into.
 */
#include "qkv.c"

#include <time.h>

enum { RUNS = 501 };

static double now_us(void)
{
    static time_t first; /* in microseconds since 1970 a double has steps of a quarter */
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    first = first ? first : t.tv_sec;
    return (double)(t.tv_sec - first) * 1e6 + (double)t.tv_nsec / 1e3;
}

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "emit_overhead: %s\n", what);
    exit(1);
}

/* ---- the bare calls ---- */

struct bare {
    CUlaunchConfig config;
    CUlaunchAttribute attr;
    CUfunction fn;
    uint64_t value[MAX_PARAMS + 1];
    void *param[MAX_PARAMS + 1];
};

static void prepare(struct qkv_program *p, const struct variant *v, CUstream stream, struct bare *b)
{
    for (uint32_t i = 0; i < v->n_ops; i++) {
        const struct op *op = &v->ops[i];
        uint32_t n = set_params(p, v, op, p->variant[0].address);
        memset(&b[i], 0, sizeof b[i]);
        memcpy(b[i].value, p->value, n * sizeof p->value[0]);
        for (uint32_t k = 0; k < n; k++)
            b[i].param[k] = &b[i].value[k];
        b[i].fn = p->kernel[op->what];
        b[i].config.gridDimX = op->grid[0];
        b[i].config.gridDimY = op->grid[1];
        b[i].config.gridDimZ = op->grid[2];
        b[i].config.blockDimX = op->block[0];
        b[i].config.blockDimY = op->block[1];
        b[i].config.blockDimZ = op->block[2];
        b[i].config.sharedMemBytes = op->smem;
        b[i].config.hStream = op->stream ? p->stream[op->stream] : stream;
        b[i].attr.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        b[i].attr.value.programmaticStreamSerializationAllowed = 1;
        b[i].config.attrs = op->programmatic ? &b[i].attr : NULL;
        b[i].config.numAttrs = op->programmatic;
    }
}

static void bare_launch(struct qkv_program *p, const struct variant *v, CUstream stream, struct bare *b)
{
    const struct segment *s = &v->segments[0];
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const struct step *x = &v->steps[s->first_step + i];
        CUstream on = x->stream ? p->stream[x->stream] : stream;
        if (x->kind == STEP_OP)
            need(!p->d.launch(&b[x->index].config, b[x->index].fn, b[x->index].param, NULL), "a launch failed");
        else if (x->kind == STEP_RECORD)
            p->d.event_record(p->event[x->index], on);
        else if (x->kind == STEP_WAIT)
            p->d.stream_wait(on, p->event[x->index], 0);
    }
}

/* ---- measuring: each run is waited for outside the measured time, so that no queue fills up ---- */

struct job {
    struct qkv_program *p;
    struct qkv_graph *g, *g2; /* two graphs of the same bucket */
    struct bare *b;
    CUstream stream, other;
    unsigned n; /* launches so far */
};

static void run_bare(struct job *j)
{
    bare_launch(j->p, &variants[0], j->stream, j->b);
}

static void run_eager(struct job *j)
{
    need(qkv_launch(j->p, variants[0].dim[0], j->stream, NULL) == QKV_OK, "qkv_launch failed");
}

static void bare_graph(struct job *j, struct qkv_graph *g, CUstream stream)
{
    need(!j->p->d.graph_launch(g->part[0].exec, stream), "cuGraphLaunch failed");
}

static void graph(struct qkv_graph *g, CUstream stream)
{
    need(qkv_graph_launch(g, stream, NULL) == QKV_OK, "qkv_graph_launch failed");
}

/* One graph, one stream. */
static void run_bare_graph(struct job *j)
{
    bare_graph(j, j->g, j->stream);
}

static void run_graph(struct job *j)
{
    graph(j->g, j->stream);
}

/* One graph, two streams in turn; two graphs in turn, one stream; two graphs, each on a stream of its own. */
static void run_bare_streams(struct job *j)
{
    bare_graph(j, j->g, j->n++ % 2 ? j->other : j->stream);
}

static void run_streams(struct job *j)
{
    graph(j->g, j->n++ % 2 ? j->other : j->stream);
}

static void run_bare_graphs(struct job *j)
{
    bare_graph(j, j->n++ % 2 ? j->g2 : j->g, j->stream);
}

static void run_graphs(struct job *j)
{
    graph(j->n++ % 2 ? j->g2 : j->g, j->stream);
}

static void run_bare_both(struct job *j)
{
    unsigned i = j->n++ % 2;
    bare_graph(j, i ? j->g2 : j->g, i ? j->other : j->stream);
}

static void run_both(struct job *j)
{
    unsigned i = j->n++ % 2;
    graph(i ? j->g2 : j->g, i ? j->other : j->stream);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Time for each of `n` launches in a row; then they are waited for. */
static double timed(struct job *j, void (*run)(struct job *), int n)
{
    double start = now_us(), end;
    for (int i = 0; i < n; i++)
        run(j);
    end = now_us();
    j->p->d.stream_synchronize(j->stream);
    j->p->d.stream_synchronize(j->other);
    return (end - start) / n;
}

/* Medians of launches of the one and the other kind by turns, so that both see the same clock rate and caches. */
static void compare(struct job *j, const char *what, int n, void (*bare)(struct job *), void (*ours)(struct job *))
{
    static double a[RUNS], b[RUNS];
    unsigned turn = j->n;
    for (int i = 0; i < RUNS; i++) {
        j->n = turn + (unsigned)i; /* the same stream and graph for both */
        a[i] = timed(j, bare, n);
        j->n = turn + (unsigned)i;
        b[i] = timed(j, ours, n);
    }
    qsort(a, RUNS, sizeof *a, by_value);
    qsort(b, RUNS, sizeof *b, by_value);
    printf("| %s | %.3f us | %.3f us | %.3f |\n", what, a[RUNS / 2], b[RUNS / 2], b[RUNS / 2] / a[RUNS / 2]);
}

/* What a launch of a graph cannot do without: whether the stream captures. */
static void run_capture(struct job *j)
{
    CUstreamCaptureStatus status;
    j->p->d.stream_is_capturing(j->stream, &status);
    run_bare_graph(j);
}

int main(void)
{
    struct qkv_error err;
    struct job j;
    memset(&j, 0, sizeof j);
    need(qkv_create(NULL, &j.p, &err) == QKV_OK, err.message);
    j.p->d.ctx_push(j.p->ctx);
    need(!j.p->d.stream_create(&j.stream, CU_STREAM_NON_BLOCKING, 0), "no stream");
    need(!j.p->d.stream_create(&j.other, CU_STREAM_NON_BLOCKING, 0), "no stream");
    for (uint32_t i = 0; i < QKV_N_TENSORS; i++) {
        struct qkv_tensor t;
        memset(&t, 0, sizeof t);
        t.dtype = (enum qkv_dtype)tensors[i].dtype;
        t.rank = tensors[i].rank;
        memcpy(t.dim, variants[0].shapes[i].dim, sizeof t.dim);
        need(!j.p->d.mem_alloc(&t.data, variants[0].shapes[i].bytes), "no device memory");
        j.p->d.memset_d8(t.data, 0, variants[0].shapes[i].bytes, j.stream);
        need(qkv_bind(j.p, tensors[i].name, &t, &err) == QKV_OK, err.message);
    }
    need(qkv_graph_create(j.p, variants[0].dim[0], &j.g, &err) == QKV_OK, err.message);
    need(qkv_graph_create(j.p, variants[0].dim[0], &j.g2, &err) == QKV_OK, err.message);
    j.b = (struct bare *)calloc(variants[0].n_ops, sizeof *j.b);
    need(j.b != NULL, "out of memory");
    prepare(j.p, &variants[0], j.stream, j.b);
    printf("| %u ops, CPU time per launch | bare driver calls | emitted code | ratio |\n|---|---|---|---|\n", (unsigned)variants[0].n_ops);
    compare(&j, "eager, waited for", 1, run_bare, run_eager);
    compare(&j, "graph, waited for", 1, run_bare_graph, run_graph);
    compare(&j, "graph, 16 in a row", 16, run_bare_graph, run_graph);
    compare(&j, "graph, two streams by turns, waited for", 1, run_bare_streams, run_streams);
    compare(&j, "two graphs by turns, one stream, waited for", 1, run_bare_graphs, run_graphs);
    compare(&j, "two graphs by turns, one stream, 16 in a row", 16, run_bare_graphs, run_graphs);
    compare(&j, "bare graph with cuStreamIsCapturing, waited for", 1, run_bare_graph, run_capture);
    compare(&j, "bare graph against itself, waited for", 1, run_bare_graph, run_bare_graph);
    compare(&j, "two graphs, each on a stream of its own: an event each", 1, run_bare_both, run_both);
    compare(&j, "graph, after that: an event each", 1, run_bare_graph, run_graph);
    qkv_graph_destroy(j.g);
    qkv_graph_destroy(j.g2);
    qkv_destroy(j.p);
    return 0;
}
