/* SPDX-License-Identifier: Apache-2.0
 *
 * stem_graph_relane on the device: graphs of layers that fork, the side branch created first, measured as they are
 * and after the call. The lanes measured are the lanes that the report tells, before and after, and few.
 *
 * Exit status: 0 all right, 1 not, 77 no device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "lanes/mainstem_lanes.h"

static void relane(struct CUgraph_st *graph, void *user)
{
    stem_graph_relane(graph, NULL, user);
}

static uint32_t lanes_in(const uint32_t *lane, uint32_t n)
{
    uint32_t lanes = 0;
    for (uint32_t v = 0; v < n; v++)
        if (lane[v] != STEM_NO_LANE && lane[v] + 1 > lanes)
            lanes = lane[v] + 1;
    return lanes;
}

/* L layers: side branches of `length` kernels, the last branch first, then a main branch of 3 kernels; a join. With
 * `child` each join is a child graph of two kernels. */
static struct stem_lane_graph pattern(struct stem_arena *a, uint32_t branches, uint32_t layers, uint32_t length,
                                      bool child)
{
    uint32_t outer = 1 + layers * ((branches - 1) * length + 4), n = outer + (child ? 2 * layers : 0);
    uint32_t m = 0, next = 1, inner = outer, fork = 0;
    struct stem_lane_edge *e = STEM_NEW_ARRAY(a, struct stem_lane_edge, 2 * n);
    uint8_t *kind = STEM_NEW_ARRAY(a, uint8_t, n);
    uint32_t *within = STEM_NEW_ARRAY(a, uint32_t, n);
    for (uint32_t v = 0; v < n; v++)
        within[v] = STEM_NO_NODE;
    for (uint32_t l = 0; l < layers; l++) {
        uint32_t tail[8];
        for (uint32_t b = 0; b < branches; b++) {
            tail[b] = fork;
            for (uint32_t i = 0; i < (b + 1 < branches ? length : 3); i++) {
                e[m++] = (struct stem_lane_edge){tail[b], next, false};
                tail[b] = next++;
            }
        }
        for (uint32_t b = 0; b < branches; b++)
            e[m++] = (struct stem_lane_edge){tail[b], next, false};
        fork = next++;
        if (child) {
            kind[fork] = STEM_LANE_CHILD;
            within[inner] = within[inner + 1] = fork;
            e[m++] = (struct stem_lane_edge){inner, inner + 1, false};
            inner += 2;
        }
    }
    return (struct stem_lane_graph){.n = n, .kind = kind, .within = child ? within : NULL, .edges = e, .n_edges = m};
}

static bool check(const char *name, const struct stem_lane_graph *g, uint32_t most, struct stem_arena *a)
{
    uint32_t *lane = STEM_NEW_ARRAY(a, uint32_t, g->n);
    struct stem_relane_report r = {0};
    struct gpu_how how = {.before = relane, .user = &r};
    const char *why = gpu_measure(g, NULL, lane);
    uint32_t before = why ? 0 : lanes_in(lane, g->n);
    if (!why)
        why = gpu_measure(g, &how, lane);
    uint32_t after = why ? 0 : lanes_in(lane, g->n);
    bool good = !why && r.status == STEM_RELANE_DONE && before == r.lanes_before && after == r.lanes_after &&
                after < before && after <= most;
    printf("%-35s %5u nodes, lanes %u -> %u measured, %u -> %u predicted, %u edges added%s%s%s\n", name, g->n, before,
           after, r.lanes_before, r.lanes_after, r.added, good ? "" : "  FAIL", why ? ": " : "", why ? why : "");
    return good;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t branches, layers, length, most;
        bool child;
    } rows[] = {
        {"40 layers", 2, 40, 1, 3, false},
        {"61 layers", 2, 61, 1, 3, false},
        {"61 layers, branches of 5", 2, 61, 5, 3, false},
        {"40 layers, three branches", 3, 40, 2, 3, false},
        {"40 layers, five branches", 5, 40, 1, 5, false},
        {"40 layers that end in child graphs", 2, 40, 1, 3, true},
    };
    const char *why = gpu_open(argc > 1 ? argv[1] : NULL);
    if (why) {
        printf("skipped: %s\n", why);
        return strncmp(why, "no ", 3) == 0 ? 77 : 1;
    }
    bool good = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_lane_graph g = pattern(a, rows[i].branches, rows[i].layers, rows[i].length, rows[i].child);
        good &= check(rows[i].name, &g, rows[i].most, a);
        stem_arena_free(a);
    }
    gpu_close();
    return good ? 0 : 1;
}
