/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of linear with weights that have scales.
 */
#include "ops/epilogue.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

/* Expression for operand i's address. */
static const char *pointer(const struct stem_concrete *c, uint32_t i, struct stem_arena *a)
{
    return stem_format_operand(c, i) ? stem_arena_printf(a, "p%u", i) : "nullptr";
}

static void lower_plain(const struct stem_concrete *c, struct stem_arena *a, struct stem_lowered *l)
{
    const char *format = stem_format_name(c->operand[1].dtype), *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_linear_plain_%s_%s%s", stem_dtype_name(c->operand[1].dtype),
                                           stem_dtype_name(c->operand[c->n_in].dtype), stem_format_tag(c, 2, a));
    struct stem_store s;
    stem_epilogue_store(c, kernel, "n", a, &s, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, s.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(128) %s(const __nv_bfloat16 *x, const void *w, %s%s%s *y, "
        "int m, int n, int k)\n{\n    stem_linear_packed_plain<%s, %s>(x, w, p2, %s, %s, m, n, k);\n}\n",
        define, l->kernel, stem_format_rest(c, 2, a), s.params, y, format, s.pair ? "true" : "false",
        pointer(c, 3, a), s.make);
    l->grid[0] = (uint32_t)((l->scalars[1].i / (s.pair ? 2 : 1) + 3) / 4);
    l->grid[1] = (uint32_t)((l->scalars[0].i + 7) / 8);
    l->block[0] = 128;
}

void stem_linear_lower_packed(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                              struct stem_lowered *l)
{
    (void)t;
    l->headers[2] = "formats";
    l->headers[3] = "linear_packed";
    lower_plain(c, a, l);
}
