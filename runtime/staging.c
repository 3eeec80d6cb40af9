/* SPDX-License-Identifier: Apache-2.0 */
#include "staging.h"

#include <stdlib.h>

#include "internal.h"

struct stem_staging {
    struct stem_rt *rt;
    struct CUstream_st *stream;
    void *piece;
    size_t bytes;
    bool locked; /* the piece is page-locked, not malloc'd */
};

/* Page-locked memory is scarce on some machines: other memory does, slower. */
static bool new_piece(struct stem_staging *s)
{
    s->locked = s->rt->d.mem_host_alloc(&s->piece, s->bytes, 0) == 0;
    if (!s->locked)
        s->piece = malloc(s->bytes);
    return s->piece != NULL;
}

enum stem_status stem_staging_new(struct stem_rt *rt, size_t bytes, struct stem_staging **out, struct stem_rt_error *err)
{
    struct stem_staging *s = stem_zalloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    *s = (struct stem_staging){.rt = rt, .bytes = bytes ? bytes : 1};
    enum stem_status status = stem_enter(rt, err);
    if (!status) {
        status = stem_new_stream(rt, 0, &s->stream, err);
        if (!status && !new_piece(s))
            status = stem_fail(err, STEM_E_MEMORY, "out of memory");
        stem_leave(rt);
    }
    if (status)
        stem_staging_free(s);
    else
        *out = s;
    return status;
}

void stem_staging_free(struct stem_staging *s)
{
    if (!s)
        return;
    bool entered = stem_enter_to_free(s->rt);
    stem_drop_stream(s->rt, s->stream);
    if (s->locked)
        s->rt->d.mem_free_host(s->piece);
    else
        free(s->piece);
    if (entered)
        stem_leave(s->rt);
    free(s);
}

enum stem_status stem_staging_read(struct stem_staging *s, uint64_t from, size_t bytes, const void **data,
                                   struct stem_rt_error *err)
{
    enum stem_status status = stem_enter(s->rt, err);
    if (status)
        return status;
    int code = s->rt->d.memcpy_to_host(s->piece, from, bytes, s->stream);
    if (!code)
        code = s->rt->d.stream_synchronize(s->stream);
    stem_leave(s->rt);
    *data = s->piece;
    return code ? stem_fail_cuda(err, &s->rt->d, code, "cuMemcpyDtoHAsync") : STEM_OK;
}
