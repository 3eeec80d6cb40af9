/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's own kernels under the stand-in driver.
 */
#include "plan_runner.h"

#include <string.h>

#include "fakecuda.h"
#include "runtime/fill.h"

void plan_runner_define_builtin(void)
{
    fakecuda_define_kernel("stem_builtin_fill", 3, (size_t[]){8, 8, sizeof(struct stem_fill_rule)});
    fakecuda_define_kernel("stem_builtin_delay", 1, (size_t[]){8});
}

static void fill(unsigned char *at, unsigned long long n, const struct stem_fill_rule *r)
{
    if (!fakecuda_touch(at, (n * (unsigned)r->bits + 7) / 8, true, "stem_builtin_fill"))
        return;
    for (unsigned long long i = 0; i < n; i++) {
        unsigned code = stem_fill_element(r, i);
        switch (r->bits) { /* each its own copy: one whose length varies is a call */
        case 4: at[i / 2] = (unsigned char)(i % 2 ? (at[i / 2] & 15) | code << 4 : code); break;
        case 8: at[i] = (unsigned char)code; break;
        case 16: memcpy(at + i * 2, &code, 2); break;
        default: memcpy(at + i * 4, &code, 4); break;
        }
    }
}

bool plan_runner_builtin(const char *kernel, void *const *params)
{
    if (strcmp(kernel, "stem_builtin_fill") == 0)
        fill(*(unsigned char **)params[0], *(unsigned long long *)params[1], params[2]);
    else if (strcmp(kernel, "stem_builtin_delay") != 0)
        return false;
    return true;
}
