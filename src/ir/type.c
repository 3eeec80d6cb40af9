/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/type.h"

void stem_type_print(const struct stem_dims *d, const struct stem_strtab *strings, const struct stem_type *t,
                     struct stem_out *o)
{
    stem_out_str(o, stem_dtype_name(t->dtype));
    stem_out_char(o, '[');
    for (uint32_t i = 0; i < t->rank; i++) {
        stem_out_str(o, i ? ", " : "");
        stem_dim_print(d, strings, t->dim[i], o);
    }
    stem_out_char(o, ']');
}
