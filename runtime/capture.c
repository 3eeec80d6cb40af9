/* SPDX-License-Identifier: Apache-2.0
 *
 * What captures streams are in.
 */
#include "exec.h"

#include <string.h>

enum stem_status stem_capture_of(struct stem_rt *rt, struct CUstream_st *stream, struct stem_capture *c,
                                 struct stem_rt_error *err)
{
    const struct stem_cuda_edge *edges = NULL;
    memset(c, 0, sizeof *c);
    if (!stream)
        return STEM_OK;
    int code = rt->d.stream_capture_info(stream, &c->status, &c->id, &c->graph, &c->nodes, &edges, &c->n_nodes);
    return code ? stem_fail_cuda(err, &rt->d, code, "cuStreamGetCaptureInfo") : STEM_OK;
}

enum stem_status stem_check_side_streams(const struct stem_exec *e, const struct stem_capture *main,
                                         struct stem_rt_error *err)
{
    for (uint32_t i = 1; i < e->plan->n_streams; i++) {
        struct stem_capture c;
        enum stem_status s = stem_capture_of(e->rt, e->streams[i], &c, err);
        if (s)
            return s;
        if (c.status == STEM_CUDA_CAPTURE_NONE ||
            (main->status == STEM_CUDA_CAPTURE_ACTIVE && c.status == STEM_CUDA_CAPTURE_ACTIVE && c.id == main->id))
            continue;
        return stem_fail(err, STEM_E_CAPTURE,
                         "stream %s of program %s is part of another capture that has not ended: end it first",
                         e->plan->streams[i], e->plan->name);
    }
    return STEM_OK;
}
