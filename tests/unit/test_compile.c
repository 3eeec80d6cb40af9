/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cache.h"
#include "runtime/fill.h"
#include "runtime/internal.h"
#include "runtime/mainstem_rt.h"

static char dir[] = "/tmp/stem-cache-XXXXXX";

static void empty_dir(void)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
            unlink(path);
    }
    if (d)
        closedir(d);
}

static int entries(char *path, size_t size)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            n++;
            snprintf(path, size, "%s/%s", dir, e->d_name);
        }
    if (d)
        closedir(d);
    return n;
}

static const struct stem_log no_log;

static void put_entry(struct stem_cache_key key)
{
    char data[1000];
    memset(data, 7, sizeof data);
    struct stem_cubin c = {.data = data, .bytes = sizeof data, .log = (char *)"a warning"};
    stem_cache_write(dir, key, &c, &no_log);
}

static bool intact(struct stem_cache_key key)
{
    struct stem_cubin c = {0};
    bool hit = stem_cache_read(dir, key, &c, &no_log);
    if (hit) {
        CU_ASSERT_EQUAL(c.bytes, 1000);
        CU_ASSERT_EQUAL(((char *)c.data)[999], 7);
        UNIT_SAME_TEXT(c.log, "a warning");
    }
    stem_cubin_free(&c);
    return hit;
}

static void keys_see_everything(void)
{
    const char *a[] = {"-DA"}, *b[] = {"-DA", ""};
    struct stem_cache_key k[] = {
        stem_cache_key("x", 90, NULL, 0, 13, 0), stem_cache_key("y", 90, NULL, 0, 13, 0),
        stem_cache_key("x", 80, NULL, 0, 13, 0), stem_cache_key("x", 90, a, 1, 13, 0),
        stem_cache_key("x", 90, b, 2, 13, 0),    stem_cache_key("x", 90, NULL, 0, 12, 9),
    };
    struct stem_cache_key again = stem_cache_key("x", 90, NULL, 0, 13, 0);
    CU_ASSERT(again.high == k[0].high && again.low == k[0].low);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            CU_ASSERT(k[i].high != k[j].high || k[i].low != k[j].low);
}

/* A damaged entry is a miss, and the next write replaces it. */
static void damaged_entries(void)
{
    static const struct {
        const char *what;
        long truncate_to; /* -1: no */
        long flip;        /* -1: no */
        long append;
    } table[] = {
        {"nothing in it", 0, -1, 0},
        {"half a header", 20, -1, 0},
        {"a header alone", 64, -1, 0},
        {"one byte short", 1072, -1, 0},
        {"magic", -1, 0, 0},
        {"another key", -1, 9, 0},
        {"size of the cubin", -1, 24, 0},
        {"huge size of the log", -1, 39, 0},
        {"a byte of the cubin", -1, 500, 0},
        {"a byte of the log", -1, 1070, 0},
        {"something behind it", -1, -1, 5},
    };
    struct stem_cache_key key = {1, 2};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char path[512];
        empty_dir();
        put_entry(key);
        CU_ASSERT(intact(key));
        CU_ASSERT_EQUAL_FATAL(entries(path, sizeof path), 1);
        int fd = open(path, O_RDWR);
        char byte;
        if (table[i].truncate_to >= 0)
            CU_ASSERT_EQUAL(ftruncate(fd, table[i].truncate_to), 0);
        if (table[i].flip >= 0) {
            CU_ASSERT_EQUAL(pread(fd, &byte, 1, table[i].flip), 1);
            byte ^= 0x40;
            CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, table[i].flip), 1);
        }
        if (table[i].append)
            CU_ASSERT_EQUAL(ftruncate(fd, 64 + 1000 + 9 + table[i].append), 0);
        close(fd);
        if (intact(key))
            fprintf(stderr, "believed: %s\n", table[i].what);
        CU_ASSERT(!intact(key));
        put_entry(key);
        CU_ASSERT(intact(key));
    }
    empty_dir();
}

static void places_that_cannot_be_written(void)
{
    char path[512], file[512];
    struct stem_cache_key key = {3, 4};
    snprintf(file, sizeof file, "%s/file", dir);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof path, "%s/file/below", dir);
    struct stem_cubin c = {.data = (char *)"x", .bytes = 1, .log = (char *)""}, out = {0};
    stem_cache_write(path, key, &c, &no_log);
    CU_ASSERT(!stem_cache_read(path, key, &out, &no_log));
    stem_cache_write("/proc/none", key, &c, &no_log);
    CU_ASSERT(!stem_cache_read("/proc/none", key, &out, &no_log));
    empty_dir();
}

/* What a writer that was killed left goes after an hour; what one may still be writing stays. */
static void left_behind(void)
{
    static const char *const names[] = {".new-aaaaaa", ".new-bbbbbb", "other"};
    struct timespec ago[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}};
    struct stem_cache_key key = {5, 6};
    char path[3][512];
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", dir, names[i]);
        close(open(path[i], O_CREAT | O_WRONLY, 0600));
        if (i != 1)
            CU_ASSERT(!utimensat(AT_FDCWD, path[i], ago, 0));
    }
    put_entry(key);
    CU_ASSERT(access(path[0], F_OK) && !access(path[1], F_OK) && !access(path[2], F_OK));
    CU_ASSERT(intact(key));
    empty_dir();
}

static void *writer(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++)
        put_entry((struct stem_cache_key){5, 6});
    return NULL;
}

static void concurrent_writers(void)
{
    pthread_t t[4];
    char path[512];
    struct stem_cache_key key = {5, 6};
    empty_dir();
    put_entry(key);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, writer, NULL), 0);
    for (int i = 0; i < 200; i++)
        CU_ASSERT(intact(key));
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CU_ASSERT_EQUAL(entries(path, sizeof path), 1);
    empty_dir();
}

static void cache_directories(void)
{
    static const struct {
        const char *chosen, *cache, *xdg, *home, *expected;
    } table[] = {
        {"/a", "/b", "/c", "/d", "/a"},
        {"", "/b", "/c", "/d", "none"},
        {NULL, "/b", "/c", "/d", "/b"},
        {NULL, "", "/c", "/d", "none"},
        {NULL, NULL, "/c", "/d", "/c/mainstem"},
        {NULL, NULL, "relative", "/d", "/d/.cache/mainstem"},
        {NULL, NULL, NULL, "/d", "/d/.cache/mainstem"},
        {NULL, NULL, NULL, NULL, "none"},
    };
    static const char *const names[] = {"MAINSTEM_CACHE", "XDG_CACHE_HOME", "HOME"};
    char *saved[3];
    for (int i = 0; i < 3; i++)
        saved[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *values[] = {table[i].cache, table[i].xdg, table[i].home};
        for (int k = 0; k < 3; k++)
            values[k] ? setenv(names[k], values[k], 1) : unsetenv(names[k]);
        char *got = stem_cache_dir(table[i].chosen);
        UNIT_SAME_TEXT(got ? got : "none", table[i].expected);
        free(got);
    }
    for (int i = 0; i < 3; i++) {
        saved[i] ? setenv(names[i], saved[i], 1) : unsetenv(names[i]);
        free(saved[i]);
    }
}

static void nvrtc_is_missing(void)
{
    struct stem_compiler *c;
    struct stem_rt_error err;
    struct stem_cubin out;
    struct stem_compiler_options o = {.nvrtc = "/nowhere/libnvrtc.so", .cache_dir = ""};
    CU_ASSERT_EQUAL(stem_compiler_open(&o, &c, &err), STEM_OK);
    CU_ASSERT_EQUAL(stem_compile(c, "", "t.cu", 90, NULL, 0, &out, &err), STEM_E_NO_NVRTC);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "/nowhere/libnvrtc.so"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "MAINSTEM_CUDA"));
    stem_cubin_free(&out);
    stem_compiler_close(c);
    setenv("MAINSTEM_CUDA", "/nowhere", 1);
    o.nvrtc = NULL;
    CU_ASSERT_EQUAL(stem_compiler_open(&o, &c, &err), STEM_OK);
    CU_ASSERT_EQUAL(stem_compile(c, "", "t.cu", 90, NULL, 0, &out, &err), STEM_E_NO_NVRTC);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "MAINSTEM_CUDA is /nowhere"));
    unsetenv("MAINSTEM_CUDA");
    stem_compiler_close(c);
}

static void compiling(void)
{
    struct stem_compiler *c;
    struct stem_rt_error err;
    struct stem_cubin a, b;
    struct stem_compiler_options o = {.cache_dir = dir};
    const char *source = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
                         "extern \"C\" __global__ void k(__half *p, __nv_bfloat16 *q) { p[0] = (float)q[0]; }\n";
    CU_ASSERT_EQUAL_FATAL(stem_compiler_open(&o, &c, &err), STEM_OK);
    enum stem_status s = stem_compile(c, source, "t.cu", 90, NULL, 0, &a, &err);
    if (s == STEM_E_NO_NVRTC) {
        fprintf(stderr, "skipped: %s\n", err.message);
        stem_compiler_close(c);
        return;
    }
    if (s)
        fprintf(stderr, "%s\n%s\n", err.message, a.log);
    CU_ASSERT_EQUAL_FATAL(s, STEM_OK);
    CU_ASSERT(!a.cached);
    CU_ASSERT_EQUAL(memcmp(a.data, "\177ELF", 4), 0);
    CU_ASSERT_EQUAL(stem_compile(c, source, "t.cu", 90, NULL, 0, &b, &err), STEM_OK);
    CU_ASSERT(b.cached);
    CU_ASSERT(a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0);
    stem_cubin_free(&a);
    stem_cubin_free(&b);

    /* #line makes the message point at the user's file; the log is returned. */
    const char *wrong = "#line 41 \"model.stem\"\nextern \"C\" __global__ void k() { nonsense; }\n";
    CU_ASSERT_EQUAL(stem_compile(c, wrong, "t.cu", 90, NULL, 0, &a, &err), STEM_E_COMPILE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "model.stem(41): error"));
    CU_ASSERT_PTR_NOT_NULL(strstr(a.log, "nonsense"));
    stem_cubin_free(&a);

    /* The built-in kernels, on every generation. */
    static const uint32_t generations[] = {80, 90, 100, 120};
    for (int i = 0; i < 4; i++) {
        s = stem_compile(c, stem_builtin_source(), "builtin.cu", generations[i], NULL, 0, &a, &err);
        if (s)
            fprintf(stderr, "%s\n", a.log ? a.log : err.message);
        CU_ASSERT_EQUAL(s, STEM_OK);
        CU_ASSERT(!s && strlen(a.log) < 2);
        stem_cubin_free(&a);
    }

    /* An architecture between two known ones gets the lower of its generation; an unknown generation says so. */
    const char *plain = "extern \"C\" __global__ void k() {}\n";
    CU_ASSERT_EQUAL(stem_compile(c, plain, "t.cu", 99, NULL, 0, &a, &err), STEM_OK);
    stem_cubin_free(&a);
    CU_ASSERT_EQUAL(stem_compile(c, plain, "t.cu", 990, NULL, 0, &a, &err), STEM_E_ARCH);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "makes no cubins for sm_990"));
    stem_cubin_free(&a);
    stem_compiler_close(c);
    empty_dir();
}

static void filling(void)
{
    float f[4];
    uint16_t h[4096];
    struct stem_plan_buffer b = {
        .name = "norm", .kind = STEM_BUFFER_WEIGHT, .dtype = STEM_F32, .rank = 1, .dim = {4}, .bytes = sizeof f};
    stem_fill_host(&b, 1, f);
    for (int i = 0; i < 4; i++)
        CU_ASSERT(f[i] >= 0.5f && f[i] < 1.5f);
    float first = f[0];
    stem_fill_host(&b, 2, f);
    CU_ASSERT(f[0] != first);

    b.name = "moe[0].gate_bias";
    stem_fill_host(&b, 1, f);
    for (int i = 0; i < 4; i++)
        CU_ASSERT(f[i] >= -0.05f && f[i] < 0.05f);

    int32_t slot[8];
    b = (struct stem_plan_buffer){
        .name = "slot", .kind = STEM_BUFFER_INPUT, .dtype = STEM_I32, .rank = 1, .dim = {8}, .bytes = sizeof slot};
    stem_fill_host(&b, 1, slot);
    for (int i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(slot[i], i); /* distinct, whatever the seed */
    for (int n = 1; n <= 40; n++) { /* of -3 .. n - 4: the largest first, then all in turn */
        bool seen[40] = {false};
        int32_t many[48];
        b.dim[0] = 48, b.bytes = sizeof many, b.low = -3, b.high = n - 4;
        stem_fill_host(&b, 1, many);
        CU_ASSERT_EQUAL(many[0], n - 4);
        for (int i = 0; i < 48; i++) {
            CU_ASSERT_FATAL(many[i] >= -3 && many[i] < n - 3);
            CU_ASSERT(i >= n || !seen[many[i] + 3]);
            seen[many[i] + 3] = true;
        }
    }

    b = (struct stem_plan_buffer){
        .name = "w", .kind = STEM_BUFFER_WEIGHT, .dtype = STEM_F16, .rank = 2, .dim = {1, 4096}, .bytes = sizeof h};
    stem_fill_host(&b, 1, h);
    struct stem_fill_rule r = stem_fill_rule(&b, 1);
    double sum = 0;
    for (int i = 0; i < 4096; i++) {
        float v = stem_fill_value(&r, (unsigned)i);
        CU_ASSERT(v >= -r.scale && v < r.scale);
        sum += (double)v * (double)v;
    }
    CU_ASSERT(sum > 0.95 && sum < 1.05); /* a product with it keeps the variance */

    static const struct {
        enum stem_dtype t;
        float v;
        unsigned code;
    } codes[] = {
        {STEM_BF16, 1.0f, 0x3f80},     {STEM_BF16, 0x1.01p0f, 0x3f80}, {STEM_BF16, 0x1.03p0f, 0x3f82},
        {STEM_F16, -2.0f, 0xc000},     {STEM_F16, 0x1p-24f, 1},        {STEM_F16, 0x1p-25f, 0},
        {STEM_F16, 65519.0f, 0x7bff},  {STEM_F16, 1e9f, 0x7bff},       {STEM_F8E4M3, 448.0f, 0x7e},
        {STEM_F8E4M3, -0x1p-9f, 0x81}, {STEM_F8E4M3, 1.0625f, 0x38},   {STEM_NVFP4, 6.0f, 7},
        {STEM_NVFP4, -0.5f, 9},        {STEM_NVFP4, 0.2f, 0},          {STEM_NVFP4, 2.5f, 4},
        {STEM_F32, 0.1f, 0x3dcccccd},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        b.dtype = codes[i].t;
        r = stem_fill_rule(&b, 1);
        CU_ASSERT_EQUAL(stem_fill_encode(&r, codes[i].v), codes[i].code);
    }
}

/* A row of weights in a format, as random weights have them: about the variance that keeps a product's. */
static void filling_formats(void)
{
    static const struct {
        enum stem_dtype type, scale;
        const char *name;
        int64_t group;
        double code; /* mean square of the codes */
    } rows[] = {
        {STEM_F8E4M3, STEM_F32, "m.w_scale", 128, 448.0 * 448 / 3},
        {STEM_INT4, STEM_BF16, "m.w_scale", 32, 17.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_plan_buffer s = {.name = rows[i].name, .kind = STEM_BUFFER_WEIGHT, .dtype = rows[i].scale, .rank = 2,
                                     .dim = {64, 4096 / rows[i].group}};
        struct stem_fill_rule r = stem_fill_rule(&s, 3);
        double sum = 0;
        for (unsigned k = 0; k < 2048; k++) {
            double v = stem_fill_value(&r, k);
            CU_ASSERT(v > 0);
            sum += v * v / 2048;
        }
        double gain = sum * rows[i].code * 4096;
        CU_ASSERT(gain > 0.7 && gain < 1.5);
    }
    struct stem_plan_buffer b = {.name = "m.w", .kind = STEM_BUFFER_WEIGHT, .dtype = STEM_INT4, .bytes = 512, .rank = 2,
                                 .dim = {4, 256}};
    uint8_t data[512];
    uint32_t seen[16] = {0};
    stem_fill_host(&b, 1, data);
    for (int k = 0; k < 1024; k++)
        seen[data[k / 2] >> (k % 2 * 4) & 15]++;
    CU_ASSERT_EQUAL(seen[0], 0); /* codes mean -7 .. 7: no mean */
    for (int k = 1; k < 16; k++)
        CU_ASSERT(seen[k] > (k == 8 ? 90 : 30) && seen[k] < (k == 8 ? 170 : 110));
    b.name = "m.w_scale_2"; /* a whole tensor's */
    b.dtype = STEM_F32;
    b.rank = 1;
    struct stem_fill_rule whole = stem_fill_rule(&b, 1);
    for (unsigned k = 0; k < 100; k++)
        CU_ASSERT(stem_fill_value(&whole, k) >= 0.5f / 256 && stem_fill_value(&whole, k) < 1.5f / 256);
}

static const struct unit_test tests[] = {
    {"keys see everything", keys_see_everything},
    {"damaged entries are replaced", damaged_entries},
    {"places that cannot be written", places_that_cannot_be_written},
    {"what killed writers left", left_behind},
    {"concurrent writers", concurrent_writers},
    {"cache directories", cache_directories},
    {"NVRTC is missing", nvrtc_is_missing},
    {"compiling", compiling},
    {"filling", filling},
    {"filling formats", filling_formats},
};

int main(void)
{
    if (!mkdtemp(dir))
        return 99;
    int rc = unit_run("compile", tests, sizeof tests / sizeof *tests);
    rmdir(dir);
    return rc;
}
