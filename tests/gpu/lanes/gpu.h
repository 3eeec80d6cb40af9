/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes as they are: builds a graph on the device, instantiates it, replays it once and reads which stream CUPTI
 * shows for each kernel, memcpy and memset. The driver and CUPTI are loaded when the program runs.
 */
#ifndef STEM_TESTS_GPU_LANES_GPU_H
#define STEM_TESTS_GPU_LANES_GPU_H

#include <stdio.h>

#include "lanes/lanes.h"

/* NULL, or why there is no device to measure on (a text that lives for ever). */
const char *gpu_open(const char *cupti_path);
void gpu_close(void);
/* "580.159.04"-like is not to be had from the driver API; this is the CUDA version it speaks, and the device. */
void gpu_describe(char *text, size_t size, unsigned *cuda_version);

struct gpu_how {
    const char *dot; /* also prints the graph: plain to DOT.plain.dot, verbose to DOT.verbose.dot */
    unsigned copy;   /* transfers: 1 from the host, 2 to the host, 3 within the host */
    uint32_t bytes;  /* memsets and memcpys of so many bytes; 0: few, by which their records are told apart */
    uint32_t element; /* memsets in elements of 1, 2 or 4 bytes; 0: 1 */
    FILE *records;   /* CUPTI's records as text */
    void (*before)(struct CUgraph_st *graph, void *user); /* what else is done to the graph before it is instantiated */
    void *user;
};

/* Measured lanes into lane[0 .. n-1], renumbered by first appearance; STEM_NO_LANE for what the trace does not show.
 * NULL if measured; else why not. `how` may be NULL. Graphs with kind "other" cannot be built. */
const char *gpu_measure(const struct stem_lane_graph *g, const struct gpu_how *how, uint32_t *lane);

#endif
