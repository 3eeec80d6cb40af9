/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs that measure kernels have in common: random arrays, comparison, and times of launches.
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "arrays.h"

enum { LAUNCHES = 24 };

template <class E> static double error_of(const E *a, const E *b, size_t n)
{
    std::vector<E> x(n), y(n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(x.data(), a, n * sizeof(E), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(y.data(), b, n * sizeof(E), cudaMemcpyDeviceToHost));
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)(float)x[i] - (double)(float)y[i];
        if (!(v == v))
            return NAN;
        d += v * v;
        s += (double)(float)y[i] * (double)(float)y[i];
    }
    return sqrt(d / (s + 1e-300));
}

static int failures;
template <class E>
static void compare(const std::string &what, E *out, const E *ref, size_t n, const std::function<void()> &run)
{
    E *second;
    snprintf(current, sizeof current, "%s", what.c_str());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMalloc(&second, n * sizeof(E)));
    CHECK(cudaMemset(out, 0xff, n * sizeof(E)));
    run();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(second, out, n * sizeof(E), cudaMemcpyDeviceToDevice));
    double e = error_of(out, ref, n);
    CHECK(cudaMemset(out, 0xff, n * sizeof(E)));
    run();
    bool same = true;
    std::vector<char> a(n * sizeof(E)), b(n * sizeof(E));
    CHECK(cudaMemcpy(a.data(), out, a.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b.data(), second, b.size(), cudaMemcpyDeviceToHost));
    same = memcmp(a.data(), b.data(), a.size()) == 0;
    bool good = e < (sizeof(E) == 4 ? 1e-5 : 5e-3) && same;
    failures += !good;
    if (!good || getenv("VERBOSE"))
        printf("%-6s %-46s error %.2e %s\n", good ? "ok" : "FAIL", what.c_str(), e, same ? "" : "BITS DIFFER");
    CHECK(cudaFree(second));
}

static int replays = 20; /* that count */

/* Median over replays of a graph of LAUNCHES launches, for each launch, in microseconds. */
static double time_of(const std::function<void(int, cudaStream_t)> &launch)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t a, b;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < LAUNCHES; i++)
        launch(i, s);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> times;
    for (int i = 0; i < replays + 3; i++) {
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, a, b));
        if (i >= 3)
            times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(s));
    return times[times.size() / 2] * 1e3 / LAUNCHES;
}

struct shape {
    int tokens, k, experts, hidden, inter;
    int tile() const { return std::min(std::min(tokens, 64), STEM_GROUP_PAIRS / k); }
    int tiles() const { return (tokens + tile() - 1) / tile(); }
};

/* Ids as a router gives them (distinct for each token); `wild`: with repeats and ids out of range. */
static std::vector<int> make_ids(const shape &d, unsigned seed, bool wild)
{
    std::vector<int> ids;
    srand(seed);
    for (int t = 0; t < d.tokens; t++) {
        std::set<int> taken;
        for (int j = 0; j < d.k; j++) {
            int id = rand() % d.experts;
            while (!wild && taken.count(id))
                id = rand() % d.experts;
            taken.insert(id);
            if (wild && rand() % 7 == 0)
                id = rand() % 2 ? -1 - rand() % 3 : d.experts + rand() % 3;
            ids.push_back(id);
        }
    }
    return ids;
}

