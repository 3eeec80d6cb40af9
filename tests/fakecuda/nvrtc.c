/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for NVRTC in the same shared object: every source compiles to an image that the stand-in driver loads.
 * The image says which architecture it is for, and carries the source's text, so that a cache keyed by content behaves as it would.
 */
#include "core.h"

#include <string.h>

typedef struct fc_program *nvrtcProgram;

struct fc_program {
    char *source, *image;
    size_t bytes;
    bool compiled;
};

enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_INVALID_INPUT = 3, NVRTC_ERROR_INVALID_PROGRAM = 4, NVRTC_ERROR_INVALID_OPTION = 5 };

int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *n);
int nvrtcGetSupportedArchs(int *archs);
int nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int n, const char *const *headers,
                       const char *const *names);
int nvrtcDestroyProgram(nvrtcProgram *p);
int nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options);
int nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes);
int nvrtcGetCUBIN(nvrtcProgram p, char *image);
int nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes);
int nvrtcGetProgramLog(nvrtcProgram p, char *log);
const char *nvrtcGetErrorString(int error);

FC_API int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

static const int archs[] = {80, 90, 100, 120};

FC_API int nvrtcGetNumSupportedArchs(int *n)
{
    *n = (int)(sizeof archs / sizeof archs[0]);
    return NVRTC_SUCCESS;
}

FC_API int nvrtcGetSupportedArchs(int *out)
{
    memcpy(out, archs, sizeof archs);
    return NVRTC_SUCCESS;
}

FC_API const char *nvrtcGetErrorString(int error)
{
    return error == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}

FC_API int nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int n,
                              const char *const *headers, const char *const *names)
{
    (void)name, (void)n, (void)headers, (void)names;
    if (!out || !source)
        return NVRTC_ERROR_INVALID_INPUT;
    struct fc_program *p = fc_alloc(sizeof *p);
    p->source = fc_alloc(strlen(source) + 1);
    strcpy(p->source, source);
    *out = p;
    return NVRTC_SUCCESS;
}

FC_API int nvrtcDestroyProgram(nvrtcProgram *p)
{
    if (!p || !*p)
        return NVRTC_ERROR_INVALID_PROGRAM;
    free((*p)->image);
    free((*p)->source);
    free(*p);
    *p = NULL;
    return NVRTC_SUCCESS;
}

FC_API int nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options)
{
    int sm = 0;
    bool known = false;
    if (!p)
        return NVRTC_ERROR_INVALID_PROGRAM;
    for (int i = 0; i < n && !sm; i++)
        sscanf(options[i], "--gpu-architecture=sm_%d", &sm);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        known = known || archs[i] == sm;
    if (!known)
        return NVRTC_ERROR_INVALID_OPTION;
    p->bytes = strlen(p->source) + 32;
    p->image = fc_alloc(p->bytes);
    snprintf(p->image, p->bytes, "fakecubin sm_%d\n%s", sm, p->source);
    p->compiled = true;
    return NVRTC_SUCCESS;
}

FC_API int nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes)
{
    if (!p || !bytes || !p->compiled)
        return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = p->bytes;
    return NVRTC_SUCCESS;
}

FC_API int nvrtcGetCUBIN(nvrtcProgram p, char *image)
{
    if (!p || !image || !p->compiled)
        return NVRTC_ERROR_INVALID_PROGRAM;
    memcpy(image, p->image, p->bytes);
    return NVRTC_SUCCESS;
}

FC_API int nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes)
{
    if (!p || !bytes)
        return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = 1;
    return NVRTC_SUCCESS;
}

FC_API int nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    if (!p || !log)
        return NVRTC_ERROR_INVALID_PROGRAM;
    *log = '\0';
    return NVRTC_SUCCESS;
}
