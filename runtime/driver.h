/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver as a table of functions, filled from driver.def.
 */
#ifndef STEM_RUNTIME_DRIVER_H
#define STEM_RUNTIME_DRIVER_H

#include "cuda_abi.h"
#include "mainstem_rt.h"

struct stem_driver {
    void *handle;
#define X(member, symbol, params) int(*member) params;
#include "driver.def"
#undef X
};

/* Loads libcuda and initialises it. `path` may be NULL. On failure nothing stays loaded. */
enum stem_status stem_driver_load(struct stem_driver *d, const char *path, struct stem_rt_error *err);
void stem_driver_unload(struct stem_driver *d);

#endif
