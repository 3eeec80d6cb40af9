/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of linear with weights that have scales.
 */
#include "ops/epilogue.h"
#include "ops/linear/even.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/linear/wide.h"
#include "ops/rule.h"

/* Expression for operand i's address. */
static const char *pointer(const struct stem_concrete *c, uint32_t i, struct stem_arena *a)
{
    return stem_format_operand(c, i) ? stem_arena_printf(a, "p%u", i) : "nullptr";
}

static void lower_plain(const struct stem_concrete *c, struct stem_arena *a, struct stem_lowered *l)
{
    const char *format = stem_format_name(c->operand[1].dtype), *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_linear_plain_%s_%s%s%s", stem_dtype_name(c->operand[1].dtype),
                                           stem_dtype_name(c->operand[c->n_in].dtype), stem_format_tag(c, 2, a),
                                           c->operand[0].dtype == STEM_F8E4M3 ? "_x8" : "");
    struct stem_store s;
    stem_epilogue_store(c, kernel, "n", a, &s, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, s.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(128) %s(%s *x, const void *w, %s%s%s *y, "
        "int m, int n, int k)\n{\n    stem_linear_packed_plain<%s, %s>(%s, w, p2, %s, %s, m, n, k);\n}\n",
        define, l->kernel, stem_format_x_type(c), stem_format_rest(c, 2, a), s.params, y, format, s.pair ? "true" : "false",
        stem_format_x(c, 4, a), pointer(c, 3, a), s.make);
    l->grid[0] = (uint32_t)((l->scalars[1].i / (s.pair ? 2 : 1) + 3) / 4);
    l->grid[1] = (uint32_t)((l->scalars[0].i + 7) / 8);
    l->block[0] = 128;
}

static bool fits(const struct stem_concrete *c, int64_t k)
{
    const struct stem_tensor *w = &c->operand[1], *scale = &c->operand[2];
    return c->operand[0].offset % 16 == 0 && w->offset % 16 == 0 && scale->offset % 16 == 0 &&
           k % (w->dtype == STEM_F8E4M3 ? 16 : 256) == 0;
}

void stem_linear_lower_packed(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                              struct stem_lowered *l)
{
    static const char *const headers[] = {"common", "pointwise", "stream", "linear", "formats", "linear_packed"};
    int64_t m = l->scalars[0].i, n = l->scalars[1].i, k = l->scalars[2].i;
    enum stem_dtype type = c->operand[1].dtype;
    struct stem_epilogue e;
    bool pair = stem_epilogue_get(c->def, c->attrs, &e) && e.pair;
    int64_t columns = pair ? n / 2 : n;
    for (uint32_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    struct stem_even_product p = {type, m, columns, k, pair, c->operand[0].dtype == STEM_F8E4M3};
    struct stem_even_shape s;
    struct stem_wide_shape wide;
    if (!fits(c, k) || (pair && columns % 8) || !stem_even_shape(&p, t, &s)) {
        lower_plain(c, a, l);
        return;
    }
    uint32_t weights = 3u << 1 | (stem_format_operand(c, 3) ? 1u << 3 : 0);
    bool early = (c->constant & weights) == weights;
    l->early = early ? weights : 0;
    if (stem_wide_shape(&p, t, &wide))
        stem_wide_lower(c, &p, &wide, early, a, l);
    else
        stem_even_lower(c, &p, &s, early, a, l);
}
