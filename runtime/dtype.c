/* SPDX-License-Identifier: Apache-2.0 */
#include "dtype.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t bits;
} table[] = {
#define X(suffix, name, bits) {name, bits},
    STEM_DTYPES(X)
#undef X
};

const char *stem_dtype_name(enum stem_dtype t)
{
    return (unsigned)t < STEM_N_DTYPES ? table[t].name : "?";
}

uint32_t stem_dtype_bits(enum stem_dtype t)
{
    return (unsigned)t < STEM_N_DTYPES ? table[t].bits : 0;
}

enum stem_dtype stem_dtype_from_name(const char *name)
{
    int i = 0;
    while (i < STEM_N_DTYPES && (!name || strcmp(table[i].name, name)))
        i++;
    return (enum stem_dtype)i;
}
