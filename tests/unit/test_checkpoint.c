/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights by the names that checkpoints use: what names stand for, tensors that make up a weight, files with an index and
 * without one, everything that can be wrong with them, and files with damaged bytes.
 */
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/mainstem_rt.h"

/* ---- files ---- */

static char dir[64];

struct given {
    const char *name, *dtype, *shape; /* "4, 8" */
    size_t bytes;
    uint8_t first; /* contents: first, first + 1, ... */
};

static void path_of(char path[200], const char *file)
{
    snprintf(path, 200, "%s/%s", dir, file);
}

static void write_file(const char *file, const void *data, size_t n)
{
    char path[200];
    path_of(path, file);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_FATAL(f && fwrite(data, 1, n, f) == n && !fclose(f));
}

/* Eight bytes of length, header, data; the number of bytes. */
static size_t build(uint8_t out[8192], const struct given *t, size_t n)
{
    size_t len = 8, at = 0;
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf((char *)out + len, 8192 - len,
                                "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? "," : "{",
                                t[i].name, t[i].dtype, t[i].shape, at, at + t[i].bytes);
        at += t[i].bytes;
    }
    len += (size_t)snprintf((char *)out + len, 8192 - len, n ? "}" : "{}");
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)(len - 8) >> 8 * i);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < t[i].bytes; k++)
            out[len++] = (uint8_t)(t[i].first + k);
    CU_ASSERT_FATAL(len <= 8192);
    return len;
}

static void write_tensors(const char *file, const struct given *t, size_t n)
{
    uint8_t text[8192];
    write_file(file, text, build(text, t, n));
}

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/checkpointXXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static void drop_dir(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CU_ASSERT_EQUAL(system(command), 0);
}

static struct stem_plan_buffer weight(const char *from, enum stem_dtype t, uint32_t rank, const int64_t *dim)
{
    struct stem_plan_buffer b = {.name = "w", .kind = STEM_BUFFER_WEIGHT, .dtype = t, .rank = rank, .from = from};
    b.bytes = stem_dtype_bits(t);
    for (uint32_t i = 0; i < rank; i++) {
        b.dim[i] = dim[i];
        b.bytes *= (uint64_t)dim[i];
    }
    b.bytes /= 8;
    return b;
}

/* ---- names ---- */

static void what_names_stand_for(void)
{
    static const int64_t dim[] = {3, 4, 2};
    static const struct {
        const char *from, *all; /* with blanks between them */
    } rows[] = {
        {"a.b", "a.b"},
        {"a.{*}.b", "a.0.b a.1.b a.2.b"},
        {"a.{*+10}", "a.10 a.11 a.12"},
        {"{x,yy}.w", "x.w yy.w"},
        {"a.{*}.{p,q}.w", "a.0.p.w a.0.q.w a.1.p.w a.1.q.w a.2.p.w a.2.q.w"},
        {"{up,down}{*}", "up0 down0 up1 down1 up2 down2"},
        {"a.{*}[1/2]", "a.0 a.1 a.2"},
        {"{xx,yy}[ :, 0 / 8 ]", "xx yy"},
        {"moe[3].w[1]", "moe[3].w[1]"}, /* brackets without a '/' are the name's */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_plan_buffer b = weight(rows[i].from, STEM_F32, 3, dim);
        char all[400] = "", name[40];
        uint32_t n = stem_weight_n_sources(&b);
        for (uint32_t k = 0; k < n; k++) {
            CU_ASSERT(stem_weight_source(&b, k, name, sizeof name));
            strcat(strcat(all, k ? " " : ""), name);
        }
        CU_ASSERT_STRING_EQUAL(all, rows[i].all);
        CU_ASSERT(!stem_weight_source(&b, n, name, sizeof name));
        CU_ASSERT(!stem_weight_source(&b, 0, name, 2));
    }
    struct stem_plan_buffer none = weight(NULL, STEM_F32, 3, dim);
    char name[40];
    CU_ASSERT_EQUAL(stem_weight_n_sources(&none), 0);
    CU_ASSERT(!stem_weight_source(&none, 0, name, sizeof name));
}

static void parts_of_tensors(void)
{
    static const struct {
        const char *from;
        uint32_t axis, part, parts; /* parts 0: none */
    } rows[] = {
        {"a", 0, 0, 0},          {"a[1]", 0, 0, 0},         {"a[0/1]", 0, 0, 0},       {"a[3/8]", 0, 3, 8},
        {"a[:, 3/8]", 1, 3, 8}, {"a[:,65535/65536]", 1, 65535, 65536}, {"b[2][ 7 / 9 ]", 0, 7, 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_plan_buffer b = weight(rows[i].from, STEM_F32, 2, (int64_t[]){3, 4});
        uint32_t axis = 0, part = 0, parts = 0;
        CU_ASSERT_EQUAL(stem_weight_part(&b, &axis, &part, &parts), rows[i].parts != 0);
        CU_ASSERT(axis == rows[i].axis && part == rows[i].part && parts == rows[i].parts);
    }
    uint32_t n;
    CU_ASSERT(!stem_weight_part(NULL, &n, &n, &n));
}

static void what_is_no_name(void)
{
    static const int64_t dim[] = {3, 4};
    static const struct {
        const char *from;
        uint32_t rank;
        const char *wrong;
    } rows[] = {
        {"", 2, "empty"},           {"a{", 2, "without a '}'"},     {"a}", 2, "without a '{'"},   {"{a}", 2, "two names"},
        {"{}", 2, "two names"},     {"{*}{*}", 2, "two {*}"},       {"{a,b}{c,d}", 2, "two lists"}, {"{*-1}", 2, "{*+N}"},
        {"{*+}", 2, "{*+N}"},       {"{*+1x}", 2, "{*+N}"},         {"{*+99999999999}", 2, "{*+N}"}, {"{{a,b}}", 2, "inside of braces"},
        {"a[8/8]", 2, "R below N"}, {"a[1/]", 2, "[R/N]"},          {"a[:, :, 1/2]", 2, "[R/N]"}, {"a[-1/2]", 2, "[R/N]"},
        {"a[1/2/3]", 2, "[R/N]"},   {"a[1/99999]", 2, "at most 65536"}, {"[1/2]", 2, "no tensor"},  {"a[1/9999999]", 2, "[R/N]"},
        {"a[0/2].w", 2, "ends the names"}, {"a[0/2", 2, "ends the names"}, {"a[:, 0/2] ", 2, "ends the names"}, {"a[0/2][0/2]", 2, "ends"},
        {"a[0/2][1]", 2, "ends the names"},
        {"a\n", 2, "control"},      {"{*}", 0, "first size"},       {"{a,b}", 0, "along a size"},  {"{*}{a,b}", 1, "along a size"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_plan_buffer b = weight(rows[i].from, STEM_F32, rows[i].rank, dim);
        const char *wrong = stem_weight_fault(&b);
        bool told = wrong && strstr(wrong, rows[i].wrong);
        CU_ASSERT(told);
        CU_ASSERT_EQUAL(stem_weight_n_sources(&b), 0);
        if (!told)
            fprintf(stderr, "\n%s: %s\n", rows[i].from, wrong ? wrong : "nothing");
    }
    char longest[1200];
    memset(longest, 'a', sizeof longest);
    longest[1100] = 0;
    struct stem_plan_buffer b = weight(longest, STEM_F32, 2, dim);
    CU_ASSERT_PTR_NOT_NULL(stem_weight_fault(&b));
}

/* ---- tensors ---- */

static const struct given tensors[] = {
    {"own", "F32", "2, 2", 16, 1},
    {"q", "BF16", "4, 3", 24, 10},
    {"k", "BF16", "2, 3", 12, 40},
    {"v", "BF16", "1, 3", 6, 60},
    {"e.0.g", "U8", "2, 4", 8, 0},
    {"e.0.u", "U8", "1, 4", 4, 8},
    {"e.1.g", "U8", "2, 4", 8, 12},
    {"e.1.u", "U8", "1, 4", 4, 20},
    {"e.2.g", "U8", "2, 4", 8, 24},
    {"s.0", "F32", "", 4, 0},
    {"s.1", "F32", "1", 4, 4},
    {"col", "F32", "5, 1", 20, 0},
    {"packed", "U8", "4, 4", 16, 0},  /* [4, 8] of 4 bits */
    {"words", "I32", "4, 1", 16, 0},  /* the same in words */
    {"p.0", "U8", "1, 4", 4, 0},      /* [1, 8] of 4 bits */
    {"p.1", "I32", "1, 1", 4, 4},
    {"model.layers.3.mlp.gate.weight", "F8_E4M3", "2, 2", 4, 7},
};

static enum stem_status read_weight(const struct stem_plan_buffer *b, bool strict, uint8_t *to, bool *found,
                                    struct stem_rt_error *err)
{
    struct stem_safetensors *f = NULL;
    enum stem_status s = stem_safetensors_open(dir, &f, err);
    CU_ASSERT_EQUAL_FATAL(s, STEM_OK);
    s = stem_safetensors_read(f, b, strict, to, found, err);
    stem_safetensors_close(f);
    return s;
}

static void tensors_of_a_weight(void)
{
    static const struct {
        const char *from;
        enum stem_dtype dtype;
        uint32_t rank;
        int64_t dim[3];
        int first[14]; /* of each run of bytes, and its length, -1 at the end */
    } rows[] = {
        {"own", STEM_F32, 2, {2, 2}, {1, 16, -1}},
        {"{q,k,v}", STEM_BF16, 2, {7, 3}, {10, 24, 40, 12, 60, 6, -1}}, /* rows are not the same number */
        {"{k,q}", STEM_BF16, 2, {6, 3}, {40, 12, 10, 24, -1}},
        {"e.{*}.{g,u}", STEM_U8, 3, {2, 3, 4}, {0, 24, -1}}, /* contents count on from tensor to tensor */
        {"e.{*+1}.g", STEM_U8, 3, {2, 2, 4}, {12, 8, 24, 8, -1}},
        {"s.{*}", STEM_F32, 1, {2}, {0, 8, -1}},             /* scalars as [] and as [1] */
        {"s.{*}", STEM_F32, 2, {2, 1}, {0, 8, -1}},
        {"{s.0,s.1}", STEM_F32, 1, {2}, {0, 8, -1}},
        {"col", STEM_F32, 1, {5}, {0, 20, -1}},
        {"q", STEM_BF16, 3, {2, 2, 3}, {10, 24, -1}}, /* rows that are split */
        {"packed", STEM_NVFP4, 2, {4, 8}, {0, 16, -1}},
        {"words", STEM_NVFP4, 2, {4, 8}, {0, 16, -1}},
        {"p.{*}", STEM_NVFP4, 2, {2, 8}, {0, 8, -1}},
        {"{p.0,p.1}", STEM_NVFP4, 2, {2, 8}, {0, 8, -1}},
        {"{packed,p.0}", STEM_NVFP4, 2, {5, 8}, {0, 16, 0, 4, -1}},
        {"q[1/2]", STEM_BF16, 2, {2, 3}, {22, 12, -1}}, /* rows 2 and 3 */
        {"q[2/4]", STEM_BF16, 2, {1, 3}, {22, 6, -1}},
        {"q[:, 1/3]", STEM_BF16, 2, {4, 1}, {12, 2, 18, 2, 24, 2, 30, 2, -1}}, /* the middle column */
        {"q[1/2]", STEM_BF16, 3, {1, 2, 3}, {22, 12, -1}},                     /* and then split */
        {"{q,k}[1/2]", STEM_BF16, 2, {3, 3}, {22, 12, 46, 6, -1}},             /* of each its second half */
        {"e.{*}.g[1/2]", STEM_U8, 3, {3, 1, 4}, {4, 4, 16, 4, 28, 4, -1}},
        {"e.{*}.g[:, 1/2]", STEM_U8, 3, {3, 2, 2}, {2, 2, 6, 2, 14, 2, 18, 2, 26, 2, 30, 2, -1}},
        {"packed[3/4]", STEM_NVFP4, 2, {1, 8}, {12, 4, -1}},
        {"packed[:, 1/2]", STEM_NVFP4, 2, {4, 4}, {2, 2, 6, 2, 10, 2, 14, 2, -1}},
        {"model.layers.3.mlp.gate.weight", STEM_F8E4M3, 2, {2, 2}, {7, 4, -1}},
        {"model.layers.3.mlp.gate.weight", STEM_U8, 2, {2, 2}, {7, 4, -1}}, /* bytes hold anything of 8 bits */
    };
    make_dir();
    write_tensors("model.safetensors", tensors, sizeof tensors / sizeof *tensors);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_plan_buffer b = weight(rows[i].from, rows[i].dtype, rows[i].rank, rows[i].dim);
        struct stem_rt_error err;
        uint8_t got[256], want[256];
        size_t n = 0;
        bool found = false;
        for (int k = 0; rows[i].first[k] >= 0; k += 2)
            for (int j = 0; j < rows[i].first[k + 1]; j++)
                want[n++] = (uint8_t)(rows[i].first[k] + j);
        CU_ASSERT_EQUAL_FATAL(n, b.bytes);
        enum stem_status s = read_weight(&b, true, got, &found, &err);
        bool right = !s && found && !memcmp(got, want, n);
        CU_ASSERT(right);
        if (!right)
            fprintf(stderr, "\n%s, row %zu: \"%s\"\n", rows[i].from, i, err.message);
    }
    /* The weight's own name goes first. */
    struct stem_plan_buffer b = weight("q", STEM_F32, 2, (int64_t[]){2, 2});
    uint8_t got[16];
    bool found;
    b.name = "own";
    CU_ASSERT_EQUAL(read_weight(&b, true, got, &found, NULL), STEM_OK);
    CU_ASSERT(found && got[0] == 1);
    /* But not before a part of itself. */
    b = weight("own[1/2]", STEM_F32, 2, (int64_t[]){1, 2});
    b.name = "own";
    CU_ASSERT_EQUAL(read_weight(&b, true, got, &found, NULL), STEM_OK);
    CU_ASSERT(found && got[0] == 9);
    drop_dir();
}

static void tensors_that_do_not_fit(void)
{
    static const struct {
        const char *from;
        enum stem_dtype dtype;
        uint32_t rank;
        int64_t dim[3];
        enum stem_status status;
        const char *message;
    } rows[] = {
        {"own", STEM_F32, 2, {2, 3}, STEM_E_WRONG_SHAPE, "'own' is F32[2, 2], the program wants F32[2, 3] for its weight 'w'"},
        {"own", STEM_BF16, 2, {2, 2}, STEM_E_WRONG_DTYPE, "'own' is F32[2, 2], the program wants BF16[2, 2]"},
        {"q", STEM_BF16, 2, {3, 4}, STEM_E_WRONG_SHAPE, "wants BF16[3, 4]"},
        {"q", STEM_BF16, 3, {2, 3, 2}, STEM_E_WRONG_SHAPE, "wants BF16[2, 3, 2]"},
        {"{q,k}", STEM_BF16, 2, {7, 3}, STEM_E_WRONG_SHAPE, "'q' and what follows it up to 'k' have 36 bytes, the program wants 42"},
        {"{q,own}", STEM_BF16, 2, {6, 3}, STEM_E_WRONG_DTYPE, "'own' is F32[2, 2], the program wants BF16[rows, 3]"},
        {"{q,k}", STEM_BF16, 2, {6, 2}, STEM_E_WRONG_SHAPE, "'q' is BF16[4, 3], the program wants BF16[rows, 2]"},
        {"e.{*}.g", STEM_U8, 3, {3, 3, 4}, STEM_E_WRONG_SHAPE, "'e.0.g' is U8[2, 4], the program wants U8[3, 4]"},
        {"e.{*}.{g,u}", STEM_U8, 3, {3, 3, 4}, STEM_E_MISSING, "has no tensor 'e.2.u', which is wanted for weight 'w'; the nearest is 'e."},
        {"packed", STEM_NVFP4, 2, {4, 16}, STEM_E_WRONG_SHAPE, "the program wants U8 with 32 bytes"},
        {"p.{*}", STEM_NVFP4, 2, {2, 16}, STEM_E_WRONG_SHAPE, "'p.0' is U8[1, 4], the program wants nvfp4[16]"},
        {"own", STEM_NVFP4, 2, {4, 8}, STEM_E_WRONG_DTYPE, "'own' is F32[2, 2], the program wants U8 with 16 bytes"},
        {"model.layers.3.mlp.gates.weight", STEM_F8E4M3, 2, {2, 2}, STEM_E_MISSING, "the nearest is 'model.layers.3.mlp.gate.weight'"},
        {"nothing.like.it.at.all", STEM_F32, 1, {2}, STEM_E_MISSING, "has no tensor 'nothing.like.it.at.all', which is wanted for weight 'w'"},
        {"q[0/3]", STEM_BF16, 2, {1, 3}, STEM_E_WRONG_SHAPE, "'q' has 4 rows, which are no 3 equal parts, as weight 'w' wants"},
        {"words[:, 0/2]", STEM_NVFP4, 2, {4, 4}, STEM_E_WRONG_SHAPE, "'words' has 1 columns, which are no 2 equal parts"},
        {"q[:, 0/3]", STEM_BF16, 2, {4, 2}, STEM_E_WRONG_SHAPE, "part 0 of 3 of 'q' is BF16[4, 1], the program wants BF16[4, 2]"},
        {"s.1[:, 0/2]", STEM_F32, 1, {1}, STEM_E_WRONG_SHAPE, "'s.1' has 1 sizes, and weight 'w' wants a part of its columns"},
        {NULL, STEM_F32, 1, {2}, STEM_E_MISSING, "has no tensor 'w'"},
    };
    make_dir();
    write_tensors("model.safetensors", tensors, sizeof tensors / sizeof *tensors);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_plan_buffer b = weight(rows[i].from, rows[i].dtype, rows[i].rank, rows[i].dim);
        struct stem_rt_error err = {0};
        uint8_t got[256] = {0};
        bool found = true;
        enum stem_status s = read_weight(&b, true, got, &found, &err);
        bool told = s == rows[i].status && err.status == s && strstr(err.message, rows[i].message) && !found;
        for (size_t k = 0; k < sizeof got; k++)
            told = told && !got[k]; /* nothing was copied */
        CU_ASSERT(told);
        if (!told)
            fprintf(stderr, "\n%s, row %zu: %d \"%s\"\n", rows[i].from, i, s, err.message);
    }
    /* None of it is no error unless it must be there; a part always is. */
    struct stem_plan_buffer none = weight("x.{*}", STEM_F32, 1, (int64_t[]){2}), part = weight("s.{*}", STEM_F32, 1, (int64_t[]){3});
    struct stem_rt_error err;
    bool found = true;
    CU_ASSERT_EQUAL(read_weight(&none, false, NULL, &found, &err), STEM_OK);
    CU_ASSERT(!found && !err.message[0]);
    CU_ASSERT_EQUAL(read_weight(&part, false, NULL, &found, &err), STEM_E_MISSING);
    drop_dir();
}

/* ---- several files ---- */

static enum stem_status open_it(const char *file, uint32_t *n, struct stem_rt_error *err)
{
    struct stem_safetensors *f = NULL;
    char path[200];
    path_of(path, file);
    enum stem_status s = stem_safetensors_open(path, &f, err);
    *n = 0;
    if (f)
        stem_safetensors_list(f, n);
    stem_safetensors_close(f);
    return s;
}

static void shards(void)
{
    static const char index_file[] = "model.safetensors.index.json";
    static const struct {
        const char *index;
        enum stem_status status;
        uint32_t n;
        const char *message;
    } rows[] = {
        {"{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}", STEM_OK, 3, ""},
        /* `both` is in two files: the index says which one counts. */
        {"{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\",\"both\":\"1.safetensors\"}}", STEM_OK, 3, ""},
        {"{\"weight_map\":{\"b\":\"1.safetensors\"}}", STEM_E_FORMAT, 0, "tensor 'b' is not in '1.safetensors', where the index has it"},
        {"{\"weight_map\":{\"a\":\"3.safetensors\"}}", STEM_E_FILE, 0, "/3.safetensors', which the checkpoint's index names: No such file"},
        {"{\"weight_map\":{\"a\":\"../1.safetensors\"}}", STEM_E_FORMAT, 0, "tensor 'a' is in no file beside the index"},
        {"{\"weight_map\":{\"a\":\"..\"}}", STEM_E_FORMAT, 0, "no file beside the index"},
        {"{\"weight_map\":{\"a\":\"\"}}", STEM_E_FORMAT, 0, "no file beside the index"},
        {"{\"weight_map\":{\"a\":1}}", STEM_E_FORMAT, 0, "no file beside the index"},
        {"{\"weight_map\":{}}", STEM_E_FORMAT, 0, "it has no weight_map"},
        {"[]", STEM_E_FORMAT, 0, "it has no weight_map"},
        {"{", STEM_E_FORMAT, 0, "is no index of a checkpoint"},
    };
    const struct given one[] = {{"a", "U8", "4", 4, 1}, {"both", "U8", "1", 1, 9}}, two[] = {{"b", "U8", "2", 2, 5}, {"both", "U8", "2", 2, 9}};
    struct stem_rt_error err;
    uint32_t n;
    make_dir();
    CU_ASSERT_EQUAL(open_it("", &n, &err), STEM_E_FILE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "there is no .safetensors file in"));
    CU_ASSERT_EQUAL(open_it(index_file, &n, &err), STEM_E_FILE);
    write_tensors("1.safetensors", one, 2);
    write_tensors("2.safetensors", two, 2);
    CU_ASSERT_EQUAL(open_it("", &n, &err), STEM_E_FORMAT); /* no index: which `both`? */
    CU_ASSERT(strstr(err.message, "tensor 'both' is in '1.safetensors' and in '2.safetensors'") ||
                           strstr(err.message, "tensor 'both' is in '2.safetensors' and in '1.safetensors'"));
    write_tensors("2.safetensors", two, 1);
    CU_ASSERT_EQUAL(open_it("", &n, &err), STEM_OK);
    CU_ASSERT_EQUAL(n, 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_tensors("2.safetensors", two, i == 1 ? 2 : 1);
        write_file(index_file, rows[i].index, strlen(rows[i].index));
        for (int way = 0; way < 2; way++) {
            enum stem_status s = open_it(way ? index_file : "", &n, &err);
            bool right = s == rows[i].status && n == rows[i].n && (!s || strstr(err.message, rows[i].message));
            CU_ASSERT(right);
            if (!right)
                fprintf(stderr, "\n%s: %d, %u tensors, \"%s\"\n", rows[i].index, s, (unsigned)n, err.message);
        }
    }
    drop_dir();
}

/* ---- damage ---- */

static uint64_t rng = 1;

static uint32_t pick(uint32_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

/* Bytes changed, left out and cut off: whatever opens can be read, and nothing outside of it is touched. */
static void damaged_bytes(void)
{
    static const char index_text[] = "{\"weight_map\":{\"own\":\"a.safetensors\",\"q\":\"a.safetensors\",\"s.0\":\"a.safetensors\"}}";
    uint8_t good[8192], bad[8192];
    size_t n = build(good, tensors, sizeof tensors / sizeof *tensors), n_index = sizeof index_text - 1;
    unsigned opened = 0;
    make_dir();
    for (int round = 0; round < 3000; round++) {
        bool index = round % 3 == 0;
        size_t len = index ? n_index : n, head = index ? n_index : n - 200;
        memcpy(bad, index ? (const uint8_t *)index_text : good, len);
        for (uint32_t i = 0, edits = 1 + pick(2); i < edits; i++)
            bad[pick((uint32_t)head)] = pick(2) ? (uint8_t)pick(256) : (uint8_t)"0123456789,[]{}\":"[pick(17)];
        if (pick(4) == 0)
            len -= pick((uint32_t)len);
        write_file("a.safetensors", index ? good : bad, index ? n : len);
        write_file("model.safetensors.index.json", index ? (const void *)bad : index_text, index ? len : n_index);
        struct stem_safetensors *f = NULL;
        if (stem_safetensors_open(dir, &f, NULL))
            continue;
        opened++;
        static const char *const from[] = {"own", "{q,k,v}", "e.{*}.{g,u}", "s.{*}", "packed", "q[1/2]", "e.{*}.g[:, 1/2]"};
        for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
            struct stem_plan_buffer b = weight(from[i], i < 2 || i == 5 ? STEM_BF16 : i == 4 ? STEM_NVFP4 : STEM_U8, 3, (int64_t[]){2, 3, 4});
            uint8_t *to = malloc(b.bytes);
            bool found;
            stem_safetensors_read(f, &b, false, to, &found, NULL);
            free(to);
        }
        stem_safetensors_close(f);
    }
    fprintf(stderr, "(%u opened) ", opened);
    CU_ASSERT(opened > 50);
    drop_dir();
}

UNIT_MAIN("checkpoints", {"what names stand for", what_names_stand_for}, {"parts of tensors", parts_of_tensors},
          {"what is no name", what_is_no_name},
          {"tensors of a weight", tensors_of_a_weight}, {"tensors that do not fit", tensors_that_do_not_fit},
          {"several files", shards}, {"damaged bytes", damaged_bytes})
