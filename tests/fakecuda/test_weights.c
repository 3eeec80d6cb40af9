/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights from host arrays and .safetensors files.
 */
#include "jit.h"

#include <stdlib.h>
#include <unistd.h>

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
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[4,0]}}", 256, STEM_E_FORMAT, "are no span", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,128]}}", 256, STEM_E_FORMAT,
         "'w' does not have as many bytes", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"w\":{}}", 256, STEM_E_FORMAT,
         "duplicate", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]}}", 260, STEM_E_FORMAT,
         "the bytes from 256 of its data on belong to no tensor", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[4,260]}}", 260, STEM_E_FORMAT,
         "the bytes from 0 to 3 of its data belong to no tensor", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[252,260]}}",
         260, STEM_E_FORMAT, "tensors 'w' and 'x' overlap", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         256, STEM_OK, NULL, 1},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"__metadata__\":5}", 256, STEM_E_FORMAT,
         "__metadata__ is no object of strings", 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]},\"__metadata__\":{\"a\":1}}", 256, STEM_E_FORMAT,
         "__metadata__ is no object of strings", 0},
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

/* ---- by the names of a checkpoint ---- */

static const char named_text[] = "module named;\n"
                                 "const OFFSET = 3;\n"
                                 "layer l[i](x: f32[2, 4]) -> f32[2, 4] {\n"
                                 "  weight w: f32[2, 4] = \"layers.{i + OFFSET}.{*}.{a,b}\";\n"
                                 "  return x * w;\n"
                                 "}\n"
                                 "model m(x: f32[2, 4]) -> f32[2, 4] {\n"
                                 "  weight own: f32[4], scale: f32[4] = \"scale\", part: f32[2, 4] = \"part[:, {OFFSET - 2}/2]\";\n"
                                 "  return l[1](l[0](x)) * own + scale + part;\n"
                                 "}\n";

/* Two layers of [2, 4]: four tensors each, of one element but for b, which has three; contents count on. */
static void write_checkpoint(char path[], bool whole)
{
    char header[2000];
    float data[40];
    size_t len = 8, at = 0;
    for (int i = 0; i < 40; i++)
        data[i] = (float)i;
    for (int layer = 3; layer < 5; layer++)
        for (int k = 0; k < 2; k++)
            for (int b = 0; b < 2; b++) {
                size_t n = b ? 12 : 4;
                len += (size_t)snprintf(header + len, sizeof header - len,
                                        "%s\"layers.%d.%d.%c\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
                                        at ? "," : "{", layer, k, b ? 'b' : 'a', b ? 3 : 1, at, at + n);
                at += n;
            }
    len += (size_t)snprintf(header + len, sizeof header - len, ",\"own\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[64,80]}");
    len += (size_t)snprintf(header + len, sizeof header - len, ",\"part\":{\"dtype\":\"F32\",\"shape\":[2,8],\"data_offsets\":[96,160]}");
    len += (size_t)snprintf(header + len, sizeof header - len, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[80,96]}",
                            whole ? "scale" : "unasked_for");
    header[len++] = '}';
    uint64_t n = len - 8;
    memcpy(header, &n, 8);
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT(write(fd, header, len) == (ssize_t)len && write(fd, data, sizeof data) == sizeof data);
    close(fd);
}

/* Two rows of 4, the second halves of rows of 8. */
static bool second_halves(const struct stem_exec *e, const char *name, float first)
{
    const float *at = (const float *)(uintptr_t)stem_exec_address(e, stem_exec_find(e, name));
    bool right = at != NULL;
    for (int i = 0; i < 8 && right; i++)
        right = at[i] == first + (float)(i < 4 ? 4 + i : 8 + i);
    return right;
}

/* Values from `first` on in device memory, which is the host's. */
static bool counts_from(const struct stem_exec *e, const char *name, int n, float first)
{
    const float *at = (const float *)(uintptr_t)stem_exec_address(e, stem_exec_find(e, name));
    bool right = at != NULL;
    for (int i = 0; i < n && right; i++)
        right = at[i] == first + (float)i;
    return right;
}

/* The plan as JSON keeps where weights are. */
static void as_json(const struct stem_plan *p)
{
    char *json = stem_plan_to_json(p), *error = NULL;
    struct stem_plan *read = stem_plan_from_json(json, strlen(json), &error);
    char *again = read ? stem_plan_to_json(read) : NULL;
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"from\":\"layers.4.{*}.{a,b}\""));
    CU_ASSERT(again && !strcmp(json, again));
    stem_plan_free(read);
    free(json);
    free(again);
    free(error);
}

static void named(void)
{
    for (int whole = 0; whole < 2; whole++) {
        struct stem_jit *jit = stem_jit_text("named.stem", named_text, sizeof named_text - 1, NULL);
        char path[] = "/tmp/namedXXXXXX";
        struct plan_runner runner;
        struct stem_safetensors *f;
        struct stem_rt_error err = {0};
        struct stem_rt *rt = NULL;
        struct stem_exec *e = NULL;
        uint32_t loaded = 0;
        fakecuda_reset();
        CU_ASSERT_PTR_NOT_NULL_FATAL(stem_jit_plan(jit));
        as_json(stem_jit_plan(jit));
        plan_runner_install(&runner, stem_jit_plan(jit), 0);
        CU_ASSERT_EQUAL_FATAL(stem_rt_open(&jit_stand_in, &rt, &err), STEM_OK);
        CU_ASSERT_EQUAL_FATAL(stem_exec_new(rt, stem_jit_plan(jit), NULL, &e, &err), STEM_OK);
        write_checkpoint(path, whole);
        CU_ASSERT_EQUAL_FATAL(stem_safetensors_open(path, &f, &err), STEM_OK);
        enum stem_status s = stem_exec_load_all(e, f, &err);
        CU_ASSERT_EQUAL(s, whole ? STEM_OK : STEM_E_MISSING);
        if (!whole) {
            CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "has no tensor 'scale'"));
            CU_ASSERT_EQUAL(stem_exec_address(e, stem_exec_find(e, "own")), 0); /* nothing was copied */
            CU_ASSERT_EQUAL(stem_exec_load(e, f, &loaded, &err), STEM_OK);
            CU_ASSERT_EQUAL(loaded, 4);
        }
        CU_ASSERT(counts_from(e, "l[0].w", 8, 0));
        CU_ASSERT(counts_from(e, "l[1].w", 8, 8));
        CU_ASSERT(counts_from(e, "own", 4, 16));
        CU_ASSERT(second_halves(e, "part", 24));
        CU_ASSERT(whole ? counts_from(e, "scale", 4, 20) : stem_exec_address(e, stem_exec_find(e, "scale")) == 0);
        stem_safetensors_close(f);
        unlink(path);
        stem_exec_free(e);
        stem_rt_close(rt);
        stem_jit_free(jit);
    }
}

UNIT_MAIN("weights", {"files", files}, {"copies that fail", copies_that_fail},
          {"by the names of a checkpoint", named})
