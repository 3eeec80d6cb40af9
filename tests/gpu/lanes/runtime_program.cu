// SPDX-License-Identifier: Apache-2.0
//
// A program of the CUDA runtime that knows nothing of lanes: graphs whose layers fork, the side branch recorded first,
// with child graphs, memory nodes, conditional nodes, other nodes, updates, threads, and a fork. Prints a line for each
// case: what came out, as a checksum. runtime.sh builds it with the static and the shared runtime and runs it alone,
// under `mainstem audit`, and under `mainstem relane`.
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t e_ = (call);                                                                         \
        if (e_ != cudaSuccess) {                                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_));       \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

enum { SIZE = 4096, LAYERS = 12 };

__global__ void step(float *out, const float *a, const float *b, float k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < SIZE)
        out[i] = a[i] * k + b[i] * (1 - k);
}

__global__ void choose(cudaGraphConditionalHandle h, unsigned value)
{
    cudaGraphSetConditional(h, value);
}

__global__ void count_down(cudaGraphConditionalHandle h, int *left)
{
    *left -= 1;
    cudaGraphSetConditional(h, *left > 0);
}

// What a case works on. x is what comes out.
struct State {
    cudaStream_t main, side;
    cudaEvent_t event;
    float *x, *y, *z, *start;
};

static State open_state(float seed)
{
    State s;
    float host[SIZE];
    uint32_t r = 12345 + (uint32_t)(seed * 1000);
    for (int i = 0; i < SIZE; i++) {
        r = r * 1664525u + 1013904223u;
        host[i] = (float)(r >> 8) / (1 << 24);
    }
    CHECK(cudaStreamCreateWithFlags(&s.main, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&s.side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&s.event, cudaEventDisableTiming));
    for (float **p : {&s.x, &s.y, &s.z, &s.start})
        CHECK(cudaMalloc(p, sizeof host));
    for (float *p : {s.x, s.y, s.z, s.start})
        CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    return s;
}

static void close_state(State &s)
{
    for (float *p : {s.x, s.y, s.z, s.start})
        CHECK(cudaFree(p));
    CHECK(cudaEventDestroy(s.event));
    CHECK(cudaStreamDestroy(s.main));
    CHECK(cudaStreamDestroy(s.side));
}

static uint64_t checksum(const State &s)
{
    static thread_local float host[SIZE];
    CHECK(cudaMemcpy(host, s.x, sizeof host, cudaMemcpyDeviceToHost));
    uint64_t h = 1469598103934665603u;
    const unsigned char *bytes = (const unsigned char *)host;
    for (size_t i = 0; i < sizeof host; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

static void launch(const State &s, cudaStream_t stream, float *out, const float *a, const float *b, float k)
{
    step<<<SIZE / 256, 256, 0, stream>>>(out, a, b, k);
    CHECK(cudaGetLastError());
    (void)s;
}

static void layers(const State &s, int n, float k)
{
    for (int i = 0; i < n; i++) {
        CHECK(cudaEventRecord(s.event, s.main));
        CHECK(cudaStreamWaitEvent(s.side, s.event, 0));
        launch(s, s.side, s.y, s.x, s.start, k);
        launch(s, s.main, s.z, s.x, s.start, k / 2);
        launch(s, s.main, s.z, s.z, s.start, k / 3);
        CHECK(cudaEventRecord(s.event, s.side));
        CHECK(cudaStreamWaitEvent(s.main, s.event, 0));
        launch(s, s.main, s.x, s.y, s.z, 0.5f);
    }
}

static cudaGraph_t record_layers(const State &s, int n, float k)
{
    cudaGraph_t g;
    CHECK(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    layers(s, n, k);
    CHECK(cudaStreamEndCapture(s.main, &g));
    return g;
}

static uint64_t use(const State &s, cudaGraph_t g, int replays)
{
    cudaGraphExec_t e;
    CHECK(cudaGraphInstantiate(&e, g, 0));
    for (int i = 0; i < replays; i++)
        CHECK(cudaGraphLaunch(e, s.main));
    CHECK(cudaStreamSynchronize(s.main));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    return checksum(s);
}

static uint64_t plain(const State &s)
{
    return use(s, record_layers(s, LAYERS, 0.3f), 3);
}

static uint64_t child_graphs(const State &s)
{
    cudaGraph_t inner = record_layers(s, LAYERS, 0.4f), outer = record_layers(s, LAYERS, 0.2f);
    size_t n = 0;
    CHECK(cudaGraphGetNodes(outer, NULL, &n));
    std::vector<cudaGraphNode_t> nodes(n);
    CHECK(cudaGraphGetNodes(outer, nodes.data(), &n));
    cudaGraphNode_t node;
    CHECK(cudaGraphAddChildGraphNode(&node, outer, &nodes[n - 1], 1, inner));
    CHECK(cudaGraphDestroy(inner));
    return use(s, outer, 3);
}

static uint64_t memory_nodes(const State &s)
{
    cudaGraph_t g;
    float *t;
    CHECK(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    layers(s, LAYERS / 2, 0.3f);
    CHECK(cudaMallocAsync(&t, SIZE * sizeof *t, s.main));
    launch(s, s.main, t, s.x, s.y, 0.25f);
    layers(s, LAYERS / 2, 0.6f);
    launch(s, s.main, s.x, t, s.x, 0.25f);
    CHECK(cudaFreeAsync(t, s.main));
    CHECK(cudaStreamEndCapture(s.main, &g));
    return use(s, g, 3);
}

// Body graphs are filled by recording into them.
static void fill(const State &s, cudaGraph_t body, float k, cudaGraphConditionalHandle handle, int *left)
{
    CHECK(cudaStreamBeginCaptureToGraph(s.main, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal));
    layers(s, 3, k);
    if (left)
        count_down<<<1, 1, 0, s.main>>>(handle, left);
    cudaGraph_t same;
    CHECK(cudaStreamEndCapture(s.main, &same));
}

static uint64_t conditional_nodes(const State &s, cudaGraphConditionalNodeType type)
{
    cudaGraph_t g = record_layers(s, LAYERS, 0.35f);
    cudaGraphConditionalHandle handle;
    int *left = NULL, loops = 4;
    CHECK(cudaMalloc(&left, sizeof *left));
    CHECK(cudaMemcpy(left, &loops, sizeof loops, cudaMemcpyHostToDevice));
    CHECK(cudaGraphConditionalHandleCreate(&handle, g, 1, cudaGraphCondAssignDefault));
    size_t n = 0;
    CHECK(cudaGraphGetNodes(g, NULL, &n));
    std::vector<cudaGraphNode_t> nodes(n);
    CHECK(cudaGraphGetNodes(g, nodes.data(), &n));
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = handle;
    p.conditional.type = type;
    p.conditional.size = 1;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, g, &nodes[n - 1], NULL, 1, &p));
#else
    CHECK(cudaGraphAddNode(&node, g, &nodes[n - 1], 1, &p));
#endif
    fill(s, p.conditional.phGraph_out[0], 0.45f, handle, type == cudaGraphCondTypeWhile ? left : NULL);
    uint64_t sum = use(s, g, type == cudaGraphCondTypeWhile ? 1 : 3);
    CHECK(cudaFree(left));
    return sum;
}

static void CUDART_CB on_host(void *user)
{
    ++*(int *)user;
}

static uint64_t other_nodes(const State &s)
{
    static int calls;
    cudaGraph_t g;
    cudaEvent_t outside;
    CHECK(cudaEventCreateWithFlags(&outside, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    layers(s, LAYERS / 2, 0.3f);
    CHECK(cudaMemcpyAsync(s.y, s.x, SIZE * sizeof(float), cudaMemcpyDeviceToDevice, s.main));
    CHECK(cudaMemsetAsync(s.z, 0, SIZE * sizeof(float), s.main));
    CHECK(cudaEventRecordWithFlags(outside, s.main, cudaEventRecordExternal));
    CHECK(cudaLaunchHostFunc(s.main, on_host, &calls));
    launch(s, s.main, s.x, s.y, s.z, 0.9f);
    layers(s, LAYERS / 2, 0.6f);
    CHECK(cudaStreamEndCapture(s.main, &g));
    uint64_t sum = use(s, g, 3);
    CHECK(cudaEventDestroy(outside));
    return sum + (uint64_t)calls;
}

// An instance of one recording, updated with another.
static uint64_t updates(const State &s)
{
    cudaGraph_t one = record_layers(s, LAYERS, 0.3f), two = record_layers(s, LAYERS, 0.7f);
    cudaGraphExec_t e;
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphInstantiate(&e, one, 0));
    CHECK(cudaGraphLaunch(e, s.main));
    for (int i = 0; i < 6; i++) {
        CHECK(cudaGraphExecUpdate(e, i % 2 ? one : two, &info));
        CHECK(cudaGraphLaunch(e, s.main));
    }
    CHECK(cudaStreamSynchronize(s.main));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(one));
    CHECK(cudaGraphDestroy(two));
    return checksum(s);
}

static uint64_t many(const State &s)
{
    uint64_t sum = 0;
    for (int i = 0; i < 60; i++)
        sum = sum * 31 + use(s, record_layers(s, 1 + i % 20, 0.3f), 1);
    return sum;
}

struct Worker {
    pthread_t thread;
    uint64_t sum;
    int number;
};

static void *work(void *user)
{
    Worker *w = (Worker *)user;
    State s = open_state((float)w->number);
    for (int i = 0; i < 10; i++)
        w->sum = w->sum * 31 + (i % 3 == 2 ? updates(s) : plain(s));
    close_state(s);
    return NULL;
}

static uint64_t threads(const State &)
{
    Worker w[6] = {};
    uint64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        w[i].number = i;
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(w[i].thread, NULL);
        sum = sum * 31 + w[i].sum;
    }
    return sum;
}

// A child that leaves by exit(), with whatever it inherited.
static uint64_t forks(const State &s)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        exit(7);
    int status = 0;
    waitpid(pid, &status, 0);
    return plain(s) + (uint64_t)WEXITSTATUS(status);
}

static uint64_t if_nodes(const State &s)
{
    return conditional_nodes(s, cudaGraphCondTypeIf);
}

static uint64_t while_nodes(const State &s)
{
    return conditional_nodes(s, cudaGraphCondTypeWhile);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint64_t (*run)(const State &);
    } cases[] = {{"plain", plain},       {"child graph", child_graphs}, {"memory nodes", memory_nodes},
                 {"if node", if_nodes},  {"while node", while_nodes},   {"memcpy, memset, event, host", other_nodes},
                 {"updates", updates},   {"many graphs", many},         {"threads", threads},
                 {"fork", forks}};
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        printf("skipped: no GPU\n");
        return 77;
    }
    for (auto &c : cases) {
        if (argc > 1 && strcmp(argv[1], c.name))
            continue;
        State s = open_state(1);
        printf("%-30s %016llx\n", c.name, (unsigned long long)c.run(s));
        fflush(stdout);
        close_state(s);
    }
    return 0;
}
