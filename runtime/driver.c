/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the CUDA driver by name. The entry points are looked up with the version suffix they are used with, so what
 * is called is what driver.def declares, whatever the driver's age.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { LEAST_VERSION = 12040 };

static enum stem_status look_up(struct stem_driver *d, const char *path, struct stem_rt_error *err)
{
    const char *missing = NULL;
#define X(member, symbol, params)                                                                                    \
    {                                                                                                                \
        void *at = dlsym(d->handle, #symbol);                                                                        \
        memcpy(&d->member, &at, sizeof at);                                                                          \
        if (!at && !missing)                                                                                         \
            missing = #symbol;                                                                                       \
    }
#include "driver.def"
#undef X
    if (missing)
        return stem_fail(err, d->init ? STEM_E_OLD_DRIVER : STEM_E_NO_DRIVER,
                         "%s has no %s: a CUDA driver of version 12.4 or later (550 or later) is needed", path,
                         missing);
    return STEM_OK;
}

static enum stem_status initialise(struct stem_driver *d, const char *path, struct stem_rt_error *err)
{
    int version = 0;
    int code = d->init(0);
    if (code == STEM_CUDA_ERROR_NO_DEVICE)
        return stem_fail(err, STEM_E_NO_DEVICE, "the CUDA driver finds no GPU");
    if (code)
        return stem_fail_cuda(err, d, code, "cuInit");
    if ((code = d->driver_version(&version)))
        return stem_fail_cuda(err, d, code, "cuDriverGetVersion");
    if (version < LEAST_VERSION)
        return stem_fail(err, STEM_E_OLD_DRIVER, "%s is of CUDA %d.%d: 12.4 or later is needed", path, version / 1000,
                         version % 1000 / 10);
    return STEM_OK;
}

enum stem_status stem_driver_load(struct stem_driver *d, const char *path, struct stem_rt_error *err)
{
    memset(d, 0, sizeof *d);
    if (!path)
        path = getenv("MAINSTEM_LIBCUDA");
    if (!path || !path[0])
        path = "libcuda.so.1";
    d->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!d->handle) {
        const char *why = dlerror();
        return stem_fail(err, STEM_E_NO_DRIVER, "no CUDA driver: %s (set MAINSTEM_LIBCUDA if it lies elsewhere)",
                         why ? why : path);
    }
    enum stem_status s = look_up(d, path, err);
    if (!s)
        s = initialise(d, path, err);
    if (s)
        stem_driver_unload(d);
    return s;
}

void stem_driver_unload(struct stem_driver *d)
{
    if (d->handle)
        dlclose(d->handle);
    d->handle = NULL;
}
