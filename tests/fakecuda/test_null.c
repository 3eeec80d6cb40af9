/* SPDX-License-Identifier: Apache-2.0
 *
 * What callers leave out: NULL for each argument that is needed, in every exported function. Those with a status say
 * which argument it was; the others return nothing. The program runs afterwards as if nothing had happened.
 */
#include "jit.h"

#include <stdlib.h>

/* ---- functions with a status ---- */

static void refused(enum stem_status s, const struct stem_rt_error *err, const char *call, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%s is NULL", name);
    bool told = s == STEM_E_NULL && err->status == s && strstr(err->message, text);
    CU_ASSERT(told);
    if (!told)
        fprintf(stderr, "\n%s: %d \"%s\", not \"%s\"\n", call, s, err->message, text);
}

#define REFUSED(call, name) refused(call, &err, #call, name)

static void device(struct fixture *f)
{
    struct stem_rt_error err;
    struct stem_rt_info info;
    struct stem_rt *none = f->rt;
    struct CUstream_st *stream = (void *)&info;
    struct stem_timer *t = NULL;
    uint64_t at = 1;
    double us = 0;
    char bytes[4] = "";
    const struct stem_plan_buffer *b = stem_exec_buffer(f->e, 0, 0);
    REFUSED(stem_rt_open(NULL, NULL, &err), "rt");
    CU_ASSERT_NOT_EQUAL(stem_rt_open(&(struct stem_rt_options){.libcuda = "/nowhere/libcuda.so.1"}, &none, &err), STEM_OK);
    CU_ASSERT_PTR_NULL(none);
    REFUSED(stem_rt_info(NULL, &info, &err), "rt");
    REFUSED(stem_rt_info(f->rt, NULL, &err), "info");
    REFUSED(stem_rt_alloc(NULL, 4, &at, &err), "rt");
    CU_ASSERT_EQUAL(at, 0);
    REFUSED(stem_rt_alloc(f->rt, 4, NULL, &err), "at");
    REFUSED(stem_rt_upload(NULL, f->x, bytes, 4, &err), "rt");
    REFUSED(stem_rt_upload(f->rt, 0, bytes, 4, &err), "to");
    REFUSED(stem_rt_upload(f->rt, f->x, NULL, 4, &err), "from");
    CU_ASSERT_EQUAL(stem_rt_upload(f->rt, 0, NULL, 0, &err), STEM_OK);
    REFUSED(stem_rt_download(NULL, bytes, f->x, 4, &err), "rt");
    REFUSED(stem_rt_download(f->rt, NULL, f->x, 4, &err), "to");
    REFUSED(stem_rt_download(f->rt, bytes, 0, 4, &err), "from");
    REFUSED(stem_rt_copy(NULL, f->x, f->y, 4, f->stream, &err), "rt");
    REFUSED(stem_rt_copy(f->rt, 0, f->y, 4, f->stream, &err), "to");
    REFUSED(stem_rt_copy(f->rt, f->x, 0, 4, f->stream, &err), "from");
    REFUSED(stem_rt_fill(NULL, b, 0, f->x, &err), "rt");
    REFUSED(stem_rt_fill(f->rt, NULL, 0, f->x, &err), "b");
    REFUSED(stem_rt_fill(f->rt, b, 0, 0, &err), "at");
    REFUSED(stem_rt_stream_new(NULL, &stream, &err), "rt");
    CU_ASSERT_PTR_NULL(stream);
    REFUSED(stem_rt_stream_new(f->rt, NULL, &err), "stream");
    REFUSED(stem_rt_synchronize(NULL, f->stream, &err), "rt");
    REFUSED(stem_timer_new(NULL, &t, &err), "rt");
    REFUSED(stem_timer_new(f->rt, NULL, &err), "t");
    REFUSED(stem_timer_start(NULL, f->stream, &err), "t");
    REFUSED(stem_timer_stop(NULL, f->stream, &us, &err), "t");
    REFUSED(stem_timer_stop(NULL, f->stream, NULL, &err), "us");
}

static void compiler(struct fixture *f)
{
    struct stem_rt_error err;
    struct stem_cubin cubin;
    struct stem_compiler *c = stem_rt_compiler(f->rt);
    uint32_t sm;
    REFUSED(stem_compiler_open(NULL, NULL, &err), "c");
    REFUSED(stem_compile(NULL, "", "a.cu", 90, NULL, 0, &cubin, &err), "c");
    REFUSED(stem_compile(c, NULL, "a.cu", 90, NULL, 0, &cubin, &err), "source");
    REFUSED(stem_compile(c, "", "a.cu", 90, NULL, 1, &cubin, &err), "options");
    REFUSED(stem_compile(c, "", "a.cu", 90, NULL, 0, NULL, &err), "out");
    CU_ASSERT_EQUAL(stem_compiler_archs(NULL, &sm, 1, &err), 0);
    refused(err.status, &err, "stem_compiler_archs", "c");
    CU_ASSERT_EQUAL(stem_compiler_archs(c, NULL, 1, &err), 0);
    refused(err.status, &err, "stem_compiler_archs", "sm");
}

static void program(struct fixture *f)
{
    static const struct stem_extern nameless[1];
    const struct stem_exec_options no_table = {.n_externs = 1}, no_name = {.externs = nameless, .n_externs = 1};
    const struct stem_array a = jit_array(f->x, 2, jit_shape4);
    struct stem_rt_error err;
    struct stem_exec *e = f->e;
    uint32_t variant, n;
    int64_t t = 1;
    REFUSED(stem_exec_new(NULL, f->plan, NULL, &e, &err), "rt");
    CU_ASSERT_PTR_NULL(e);
    e = f->e;
    REFUSED(stem_exec_new(f->rt, NULL, NULL, &e, &err), "plan");
    CU_ASSERT_PTR_NULL(e);
    e = f->e;
    CU_ASSERT_NOT_EQUAL(stem_exec_new(f->rt, f->plan, &(struct stem_exec_options){.memory = 9}, &e, &err), STEM_OK);
    CU_ASSERT_PTR_NULL(e);
    REFUSED(stem_exec_new(f->rt, f->plan, NULL, NULL, &err), "exec");
    REFUSED(stem_exec_new(f->rt, f->plan, &no_table, &e, &err), "options.externs");
    REFUSED(stem_exec_new(f->rt, f->plan, &no_name, &e, &err), "options.externs[0].name");
    CU_ASSERT_EQUAL(stem_exec_new(f->rt, NULL, NULL, &e, NULL), STEM_E_NULL);
    REFUSED(stem_exec_bind(NULL, 0, f->x, 4, &err), "e");
    REFUSED(stem_exec_bind_own(NULL, 0, &err), "e");
    REFUSED(stem_exec_check_array(NULL, 0, &a, true, &err), "e");
    REFUSED(stem_exec_bind_array(NULL, 0, &a, &err), "e");
    REFUSED(stem_exec_bind_host(NULL, 0, &a, &err), "e");
    REFUSED(stem_exec_load(f->e, NULL, &n, &err), "file");
    REFUSED(stem_exec_load_all(f->e, NULL, &err), "file");
    REFUSED(stem_exec_variant(NULL, &t, &variant, &err), "e");
    REFUSED(stem_exec_variant(f->e, &t, NULL, &err), "variant");
    CU_ASSERT_EQUAL(stem_exec_variant(f->e, NULL, &variant, &err), STEM_E_NULL);
    REFUSED(stem_exec_reset_state(NULL, &err), "e");
    REFUSED(stem_exec_fill(NULL, 0, 0, &err), "e");
    REFUSED(stem_exec_prepare(NULL, &err), "e");
    CU_ASSERT_EQUAL(stem_exec_bind_array(f->e, 0, NULL, &err), STEM_E_NULL);
    CU_ASSERT_EQUAL(stem_exec_bind_host(f->e, 0, NULL, &err), STEM_E_NULL);
}

static void launches(struct fixture *f)
{
    const struct stem_launch_options o = {.delay_op = STEM_NONE};
    struct stem_rt_error err;
    struct stem_graph *g = NULL;
    REFUSED(stem_exec_launch(NULL, 1, f->stream, &err), "e");
    REFUSED(stem_exec_launch_with(NULL, 1, f->stream, &o, &err), "e");
    REFUSED(stem_exec_launch_with(f->e, 1, f->stream, NULL, &err), "options");
    REFUSED(stem_exec_record(NULL, 1, f->stream, &err), "e");
    REFUSED(stem_graph_new(NULL, 1, STEM_GRAPH_BY_NODES, &g, &err), "e");
    REFUSED(stem_graph_new(f->e, 1, STEM_GRAPH_BY_NODES, NULL, &err), "graph");
    REFUSED(stem_graph_launch(NULL, f->stream, &err), "g");
    REFUSED(stem_graph_update(NULL, &err), "g");
}

static void files_and_audit(struct fixture *f)
{
    const struct stem_plan_buffer *b = stem_exec_buffer(f->e, 0, 0);
    const struct stem_audit_record *records;
    struct stem_rt_error err;
    struct stem_safetensors *file = NULL;
    uint32_t n;
    bool found = true;
    REFUSED(stem_safetensors_open(NULL, &file, &err), "path");
    REFUSED(stem_safetensors_open("/nowhere", NULL, &err), "f");
    REFUSED(stem_safetensors_check(NULL, NULL, b, &err), "f");
    REFUSED(stem_safetensors_read(NULL, b, true, NULL, &found, &err), "f");
    CU_ASSERT(!found);
    REFUSED(stem_safetensors_read(NULL, b, true, NULL, NULL, &err), "found");
    REFUSED(stem_audit_start(NULL, NULL, &err), "audit");
    REFUSED(stem_audit_take(NULL, &records, &n, &err), "a");
    REFUSED(stem_audit_take(NULL, NULL, &n, &err), "records");
    REFUSED(stem_audit_stop(NULL, &records, &n, &err), "a");
    REFUSED(stem_audit_stop(NULL, &records, NULL, &err), "n");
}

static void statuses(void)
{
    struct fixture f;
    jit_setup(&f);
    jit_bind_all(&f);
    struct fakecuda_counts before = fakecuda_counts();
    device(&f);
    compiler(&f);
    program(&f);
    launches(&f);
    files_and_audit(&f);
    struct fakecuda_counts after = fakecuda_counts();
    CU_ASSERT_EQUAL(before.streams, after.streams);
    CU_ASSERT_EQUAL(before.allocations, after.allocations);
    CU_ASSERT_EQUAL(before.context_references, after.context_references);
    CU_ASSERT(jit_result_right(&f, 1, 3));
    jit_teardown(&f);
}

/* ---- functions without one ---- */

static void compilations(void)
{
    const struct stem_program_options no_dims = {.n_dims = 1}, no_defines = {.n_defines = 1};
    const struct {
        struct stem_jit *jit;
        const char *said;
    } rows[] = {
        {stem_jit_file(NULL, NULL), "stem_jit_file: path is NULL"},
        {stem_jit_text(NULL, "", 0, NULL), "stem_jit_text: name is NULL"},
        {stem_jit_text("a.stem", NULL, 3, NULL), "stem_jit_text: text is NULL"},
        {stem_jit_text("a.stem", "", 0, &no_dims), "options.dims is NULL"},
        {stem_jit_text("a.stem", "", 0, &no_defines), "options.defines is NULL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t n = 0;
        const struct stem_message *m = stem_jit_messages(rows[i].jit, &n);
        CU_ASSERT_PTR_NULL(stem_jit_plan(rows[i].jit));
        CU_ASSERT_EQUAL_FATAL(n, 1);
        CU_ASSERT_EQUAL(m->kind, STEM_MESSAGE_ERROR);
        CU_ASSERT_PTR_NOT_NULL(strstr(m->text, rows[i].said));
        CU_ASSERT_PTR_NOT_NULL(strstr(stem_jit_text_of_messages(rows[i].jit), rows[i].said));
        stem_jit_free(rows[i].jit);
    }
    uint32_t n = 7;
    CU_ASSERT_PTR_NULL(stem_jit_plan(NULL));
    CU_ASSERT_PTR_NULL(stem_jit_messages(NULL, &n));
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_PTR_NULL(stem_jit_messages(NULL, NULL));
    CU_ASSERT_STRING_EQUAL(stem_jit_text_of_messages(NULL), "");
    stem_jit_free(NULL);
}

static void plans(void)
{
    struct stem_plan *p = stem_plan_new();
    struct stem_plan_edge *edges = (void *)&p;
    char *error = NULL, name[8];
    int64_t dim = 1;
    CU_ASSERT_PTR_NULL(stem_plan_to_json(NULL));
    CU_ASSERT_PTR_NULL(stem_plan_from_json(NULL, 3, &error));
    CU_ASSERT(error && !strcmp(error, "text is NULL"));
    free(error);
    CU_ASSERT_PTR_NULL(stem_plan_from_json("{", 1, NULL));
    CU_ASSERT_PTR_NULL(stem_plan_alloc(NULL, 8));
    CU_ASSERT_PTR_NULL(stem_plan_strdup(p, NULL));
    CU_ASSERT_EQUAL(stem_plan_find_variant(NULL, &dim), STEM_NONE);
    CU_ASSERT_EQUAL(stem_plan_derive_edges(NULL, 1, &edges), STEM_NONE);
    CU_ASSERT_PTR_NULL(edges);
    CU_ASSERT_EQUAL(stem_tensor_elements(NULL), 0);
    CU_ASSERT_EQUAL(stem_tensor_extent(NULL), 0);
    CU_ASSERT(!stem_tensor_contiguous(NULL));
    CU_ASSERT_EQUAL(stem_weight_n_sources(NULL), 0);
    CU_ASSERT_PTR_NOT_NULL(stem_weight_fault(NULL));
    CU_ASSERT(!stem_weight_source(NULL, 0, name, sizeof name));
    CU_ASSERT_EQUAL(stem_dtype_from_name(NULL), STEM_N_DTYPES);
    stem_plan_free(p);
    stem_plan_free(NULL);
}

static void queries(void)
{
    struct stem_graph_info info = {.n_nodes = 7};
    struct fixture f;
    uint32_t n = 7, *counts = &n;
    jit_setup(&f);
    CU_ASSERT_PTR_NULL(stem_rt_compiler(NULL));
    CU_ASSERT_PTR_NULL(stem_compiler_nvrtc(NULL));
    CU_ASSERT_PTR_NULL(stem_compiler_include(NULL));
    CU_ASSERT_EQUAL(stem_exec_find(NULL, "x"), STEM_NONE);
    CU_ASSERT_EQUAL(stem_exec_find(f.e, NULL), STEM_NONE);
    CU_ASSERT_PTR_NULL(stem_exec_cubin(NULL));
    CU_ASSERT_PTR_NULL(stem_exec_buffer(NULL, 0, 0));
    CU_ASSERT_EQUAL(stem_exec_address(NULL, 0), 0);
    CU_ASSERT_EQUAL(stem_exec_slab(NULL), 0);
    stem_graph_info(NULL, NULL);
    stem_graph_info(NULL, &info);
    CU_ASSERT_EQUAL(info.n_nodes, 0);
    CU_ASSERT_PTR_NULL(stem_graph_cuda(NULL, 0));
    CU_ASSERT_PTR_NULL(stem_safetensors_list(NULL, &n));
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_PTR_NULL(stem_safetensors_find(NULL, "w"));
    CU_ASSERT_EQUAL(stem_audit_lanes(NULL, &counts), STEM_NONE);
    CU_ASSERT_PTR_NULL(counts);
    CU_ASSERT_EQUAL(stem_audit_dropped(NULL), 0);
    jit_teardown(&f);
}

/* What frees takes NULL, with or without the device. */
static void frees(void)
{
    stem_rt_close(NULL);
    stem_rt_free(NULL, 256);
    stem_rt_stream_free(NULL, NULL);
    stem_timer_free(NULL);
    stem_compiler_close(NULL);
    stem_cubin_free(NULL);
    stem_exec_free(NULL);
    stem_graph_free(NULL);
    stem_safetensors_close(NULL);
    stem_audit_free(NULL);
    CU_PASS("nothing fell");
}

UNIT_MAIN("what callers leave out", {"statuses", statuses}, {"compilations", compilations}, {"plans", plans}, {"queries", queries}, {"frees", frees})
