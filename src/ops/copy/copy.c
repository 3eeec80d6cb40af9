/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: a contiguous copy of a tensor of any strides. Moves bits, so every element type is exact.
 */
#include "ops/copy/copy.h"

#include <stdlib.h>

#include "ops/rule.h"
#include "ops/strided.h"

enum { THREADS = 128 };

static bool infer(struct stem_infer *c)
{
    c->out[0] = c->in[0];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t bytes = stem_tensor_extent(&c->operand[1]);
    *cost =
        (struct stem_cost){.bytes_read = bytes, .bytes_written = bytes, .blocks = (uint32_t)((bytes + 2047) / 2048)};
}

void stem_copy_bytes(const struct stem_concrete *c, struct stem_tensor *t)
{
    for (int i = 0; i < 2; i++) {
        uint32_t last = c->operand[i].rank - 1;
        t[i] = c->operand[i];
        if (!stem_dtype_packed(t[i].dtype))
            continue;
        bool pairs = t[i].rank && t[i].dim[last] % 2 == 0 && t[i].stride[last] == 1;
        for (uint32_t d = 0; pairs && d < last; d++) {
            pairs = t[i].stride[d] % 2 == 0;
            t[i].stride[d] /= 2;
        }
        if (!pairs)
            abort(); /* the builder makes no such view: halves of bytes have no address */
        t[i].dim[last] /= 2;
        t[i].dtype = STEM_U8;
    }
}

static void lower(const struct stem_concrete *c, const struct stem_target *target, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    struct stem_tensor t[2];
    struct stem_walk w;
    struct stem_out o = {0};
    (void)target;
    stem_copy_bytes(c, t);
    stem_walk_init(&w, t, 2);
    uint32_t bytes = stem_dtype_bits(t[0].dtype) / 8, width = stem_walk_width(&w, t, 16 / bytes);
    bool wide = stem_walk_wide(&w);
    const char *index = wide ? "unsigned long long" : "unsigned", *type = stem_c_bits(bytes);
    stem_out_printf(&o,
                    "const %s *x, %s *y, %s n)\n"
                    "{\n"
                    "    stem_wait();\n"
                    "    stem_launch_dependents();\n"
                    "    %s e = ((%s)blockIdx.x * %d + threadIdx.x) * %u;\n"
                    "    if (e >= n)\n"
                    "        return;\n",
                    type, type, index, index, index, THREADS, width);
    stem_walk_print(&w, index, &o);
    stem_out_printf(&o, "    stem_store(y + e, stem_load<%u>(x + o0));\n}\n", width);
    uint64_t threads = w.elements / width;
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(arena, "stem_copy_", o.text, o.len),
        .headers = {"common"},
        .grid = {(uint32_t)((threads + THREADS - 1) / THREADS), 1, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = wide ? STEM_SCALAR_I64 : STEM_SCALAR_I32, .i = (int64_t)w.elements}},
        .n_scalars = 1,
        .waits = true,
    };
    l->code = stem_arena_printf(arena, "extern \"C\" __global__ void __launch_bounds__(%d) %s(%s", THREADS, l->kernel,
                                stem_out_text(&o));
    stem_out_free(&o);
}

const struct stem_op_def stem_op_copy = {
    .name = "copy",
    .blurb = "a contiguous copy",
    .params = {{"x", STEM_MODE_IN, false, true}},
    .n_params = 1,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_copy_reference,
};
