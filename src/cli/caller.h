/* SPDX-License-Identifier: Apache-2.0
 *
 * A foreign engine in miniature: begins a capture on its own stream, has a program recorded into it, and owns the graph. It
 * calls the driver by itself, as an engine that embeds Mainstem would.
 */
#ifndef STEM_CLI_CALLER_H
#define STEM_CLI_CALLER_H

#include "runtime/mainstem_rt.h"

struct stem_caller_graph;

/* NULL with *err set after a failure; the stream is not capturing then. */
struct stem_caller_graph *stem_caller_capture(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                              struct stem_rt_error *err);
bool stem_caller_launch(struct stem_caller_graph *g, struct CUstream_st *stream, struct stem_rt_error *err);
void stem_caller_free(struct stem_caller_graph *g);

#endif
