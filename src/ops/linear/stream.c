/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ops that stream weights have in common on the host: names, limits and sizes that match stream.cuh.
 */
#include "ops/linear/linear.h"

#include <stdlib.h>

const char *stem_stream_type(enum stem_dtype t)
{
    return t == STEM_BF16 ? "__nv_bfloat16" : t == STEM_F16 ? "__half" : "float";
}

bool stem_stream_is_float(enum stem_dtype t)
{
    return t == STEM_BF16 || t == STEM_F16 || t == STEM_F32;
}

bool stem_stream_fits(const struct stem_tensor *a, const struct stem_tensor *b, int64_t k)
{
    return a->dtype == b->dtype && (a->dtype == STEM_BF16 || a->dtype == STEM_F16) && k % 8 == 0 &&
           a->offset % 16 == 0 && b->offset % 16 == 0;
}

uint32_t stem_stream_block_smem(const struct stem_target *t)
{
    return (t->sm == 80 ? 163u : t->sm == 90 || t->sm == 100 ? 227u : 99u) << 10;
}

uint32_t stem_stream_sm_smem(const struct stem_target *t)
{
    return stem_stream_block_smem(t) + 1024;
}

uint32_t stem_stream_ring_bytes(uint32_t mt, uint32_t nt, uint32_t stages, uint32_t warps)
{
    return warps * stages * (16 * mt + 8 * nt) * 128;
}

uint32_t stem_stream_tile_bytes(uint32_t nt, uint32_t warps)
{
    return warps * 8 * nt * 20 * 4;
}

float stem_ref_dot(const float *a, const float *b, int64_t n)
{
    float part[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            part[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        part[i & 15] += a[i] * b[i];
    for (int width = 8; width; width >>= 1)
        for (int j = 0; j < width; j++)
            part[j] += part[j + width];
    return part[0];
}

void *stem_ref_alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        abort();
    return p;
}
