/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds libraries of the CUDA Toolkit (NVRTC, CUPTI) on machines that keep it in different places: an installed
 * toolkit, a distribution's packages, or the wheels that Python packages bring along.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "internal.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "nvrtc.h"

#ifndef STEM_CUDA_HOME
#define STEM_CUDA_HOME ""
#endif

static const char *const toolkit_dirs[] = {"lib64",        "lib", "targets/*/lib", "extras/CUPTI/lib64",
                                           "nvidia/*/lib", NULL};
static const char *const wheel_dirs[] = {"lib/python3*/site-packages/nvidia/*/lib",
                                         "lib/python3*/dist-packages/nvidia/*/lib",
                                         "lib/python3/dist-packages/nvidia/*/lib", NULL};

/* RTLD_NODELETE: these libraries keep threads and thread-local state, and do not expect to be unmapped. */
static void *open_library(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_matching(const char *root, const char *dir, const char *name)
{
    void *handle = NULL;
    char *pattern = stem_format("%s/%s/%s", root, dir, name);
    glob_t found;
    if (!pattern || glob(pattern, 0, NULL, &found)) {
        free(pattern);
        return NULL;
    }
    for (size_t i = 0; i < found.gl_pathc && !handle; i++)
        handle = open_library(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
    return handle;
}

static void *open_below(const char *root, const char *const *dirs, const char *name)
{
    void *handle = NULL;
    for (size_t i = 0; root && root[0] && dirs[i] && !handle; i++)
        handle = open_matching(root, dirs[i], name);
    return handle;
}

static void *open_wheel(const char *name)
{
    void *handle = open_below(getenv("VIRTUAL_ENV"), wheel_dirs, name);
    const char *home = getenv("HOME");
    char *local = home ? stem_format("%s/.local", home) : NULL;
    if (!handle && local)
        handle = open_below(local, wheel_dirs, name);
    free(local);
    if (!handle)
        handle = open_below("/usr/local", wheel_dirs, name);
    if (!handle)
        handle = open_below("/usr", wheel_dirs, name);
    return handle;
}

void *stem_cuda_library(const char *name, const char *const *sonames, char **why)
{
    const char *chosen = getenv("MAINSTEM_CUDA");
    *why = NULL;
    if (chosen && chosen[0]) {
        void *handle = open_below(chosen, toolkit_dirs, name);
        if (!handle)
            *why = stem_format("MAINSTEM_CUDA is %s, and no %s there can be loaded", chosen, name);
        return handle;
    }
    void *handle = open_below(STEM_CUDA_HOME, toolkit_dirs, name);
    for (size_t i = 0; sonames[i] && !handle; i++)
        handle = open_library(sonames[i]);
    if (!handle)
        handle = open_below("/usr/local/cuda", toolkit_dirs, name);
    if (!handle)
        handle = open_wheel(name);
    if (!handle)
        *why = stem_format("no %s in %s%sthe loader's path, /usr/local/cuda or Python's nvidia packages", name,
                           STEM_CUDA_HOME, STEM_CUDA_HOME[0] ? ", " : "");
    return handle;
}
