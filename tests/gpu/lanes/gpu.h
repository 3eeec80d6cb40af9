/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes as they are: builds a graph on the device, instantiates it, replays it once and reads which stream CUPTI
 * shows for each kernel. The driver and CUPTI are loaded when the program runs.
 */
#ifndef STEM_TESTS_GPU_LANES_GPU_H
#define STEM_TESTS_GPU_LANES_GPU_H

#include "lanes/lanes.h"

/* NULL, or why there is no device to measure on (a text that lives for ever). */
const char *gpu_open(const char *cupti_path);
void gpu_close(void);
/* "580.159.04"-like is not to be had from the driver API; this is the CUDA version it speaks, and the device. */
void gpu_describe(char *text, size_t size, unsigned *cuda_version);

/* Measured lanes into lane[0 .. n-1], renumbered by first appearance; STEM_NO_LANE for what the trace does not show.
 * NULL if measured; else why not. `dot` not NULL: also prints the graph, plain to dot.plain.dot, verbose to
 * dot.verbose.dot. Graphs with conditional nodes or kind "other" cannot be built. */
const char *gpu_measure(const struct stem_lane_graph *g, const char *dot, uint32_t *lane);

#endif
