/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights from host arrays and .safetensors files.
 */
#include "jit.h"

static void files(void)
{
    static const struct {
        const char *header;
        size_t data;
        enum stem_status status;
        const char *message; /* or NULL, and how many weights were loaded */
        uint32_t loaded;
    } rows[] = {
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"__metadata__\":{\"a\":\"b\"}}", 256,
         STEM_OK, NULL, 1},
        {"{\"other\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]}}", 256, STEM_OK, NULL, 0},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, STEM_OK, NULL, 0}, /* not a weight */
        {"{}", 0, STEM_OK, NULL, 0},
        {"[]", 0, STEM_E_FORMAT, "its header is no object", 0},
        {"{", 0, STEM_E_FORMAT, "is not a .safetensors file", 0},
        {"{\"w\":1}", 0, STEM_E_FORMAT, "tensor 'w' has no dtype", 0},
        {"{\"w\":{\"dtype\":\"F32\"}}", 0, STEM_E_FORMAT, "tensor 'w' has no shape", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, STEM_E_FORMAT, "'w' has no shape",
         0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, STEM_E_FORMAT,
         "impossible", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64]}}", 0, STEM_E_FORMAT, "'w' has no data_offsets", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]}}", 255, STEM_E_FORMAT,
         "'w' lies outside of the file", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[4,0]}}", 256, STEM_E_FORMAT, "outside", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,128]}}", 256, STEM_E_FORMAT,
         "'w' does not have as many bytes", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"w\":{}}", 256, STEM_E_FORMAT,
         "duplicate", 0},
    };
    struct fixture f;
    jit_setup(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t loaded = 0;
        enum stem_status s = jit_with_file(&f, rows[i].header, rows[i].data, &loaded);
        bool ok = s == rows[i].status && loaded == rows[i].loaded &&
                  (!rows[i].message || strstr(f.err.message, rows[i].message));
        CU_ASSERT(ok);
        if (!ok)
            fprintf(stderr, "\n%s: %d \"%s\"\n", rows[i].header, s, f.err.message);
    }
    jit_teardown(&f);
}

/* Every driver call of a copy from the host fails once: the caller's binding is as it was. */
static void copies_that_fail(void)
{
    static float w[N];
    for (uint64_t n = 1;; n++) {
        struct fixture f;
        jit_setup(&f);
        uint32_t i = stem_exec_find(f.e, "w");
        struct stem_array a = jit_array(f.x, 1, jit_shape_w);
        CU_ASSERT_EQUAL(stem_exec_bind_array(f.e, i, &a, &f.err), STEM_OK);
        a.at = (uint64_t)(uintptr_t)w;
        fakecuda_fail_call(n, CUDA_ERROR_UNKNOWN);
        enum stem_status s = stem_exec_bind_host(f.e, i, &a, &f.err);
        bool failed = fakecuda_failed();
        fakecuda_fail_call(0, 0);
        CU_ASSERT_EQUAL(s == STEM_OK, stem_exec_address(f.e, i) != f.x);
        CU_ASSERT(!failed || s == STEM_E_CUDA || s == STEM_OK);
        jit_teardown(&f);
        if (!failed)
            break;
    }
}

UNIT_MAIN("weights", {"files", files}, {"copies that fail", copies_that_fail})
