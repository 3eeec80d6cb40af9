/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole models and the names of their published checkpoints: files made here with the names, shapes and dtypes that the
 * published ones have (sizes smaller) are all that the programs in examples/models want, and no tensor is left over.
 */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "pipeline.h"
#include "runtime/mainstem_rt.h"

struct tensor {
    const char *name; /* %d: the layer, then the expert */
    int low, high;    /* layers; -1: none */
    int experts;      /* 0: none */
    int rows, cols;   /* cols 0: a vector */
};

/* Contents tell tensor and element: the number of the tensor in the file, then the element, both as bf16 bits. */
struct writer {
    char *header;
    size_t len, at;
    uint16_t *data;
    uint32_t n;
};

static void put(struct writer *w, const char *name, const struct tensor *t)
{
    size_t n = (size_t)t->rows * (size_t)(t->cols ? t->cols : 1);
    char shape[40];
    snprintf(shape, sizeof shape, t->cols ? "%d,%d" : "%d", t->rows, t->cols);
    w->header = realloc(w->header, w->len + 400);
    w->len += (size_t)sprintf(w->header + w->len, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                              w->n ? "," : "{", name, shape, 2 * w->at, 2 * (w->at + n));
    w->data = realloc(w->data, 2 * (w->at + n));
    for (size_t i = 0; i < n; i++)
        w->data[w->at + i] = (uint16_t)(w->n * 977 + i);
    w->at += n;
    w->n++;
}

static void write_checkpoint(const char *path, const struct tensor *t, struct writer *w)
{
    char name[200];
    memset(w, 0, sizeof *w);
    for (; t->name; t++)
        for (int l = t->low; l <= t->high; l++)
            for (int e = 0; e < (t->experts ? t->experts : 1); e++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(name, sizeof name, t->name, l, e);
#pragma GCC diagnostic pop
                put(w, name, t);
            }
    w->len += (size_t)sprintf(w->header + w->len, "}");
    uint64_t len = w->len;
    FILE *f = fopen(path, "wb");
    CU_ASSERT_FATAL(f && fwrite(&len, 1, 8, f) == 8 && fwrite(w->header, 1, w->len, f) == w->len &&
                    fwrite(w->data, 2, w->at, f) == w->at && !fclose(f));
}

/* Each element of the file is in one weight, so the sums over both are the same. */
static void every_weight(const char *model, const char *const *defines, const struct tensor *table)
{
    const char *top = getenv("SRCDIR") ? getenv("SRCDIR") : ".";
    char path[1000], file[] = "/tmp/namesXXXXXX";
    const char *dims[] = {"T=2"};
    struct stem_compile_args args = {.path = path, .options = stem_options_default(), .dims = dims, .n_dims = 1, .defines = defines};
    struct stem_safetensors *f = NULL;
    struct stem_rt_error err = {0};
    struct writer w;
    uint64_t in_file = 0, in_weights = 0, bytes = 0;
    close(mkstemp(file));
    snprintf(path, sizeof path, "%s/examples/models/%s.stem", top, model);
    while (defines[args.n_defines])
        args.n_defines++;
    struct stem_compiled *c = stem_pipeline(&args);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c->plan);
    write_checkpoint(file, table, &w);
    for (size_t i = 0; i < w.at; i++)
        in_file += w.data[i];
    CU_ASSERT_EQUAL_FATAL(stem_safetensors_open(file, &f, &err), STEM_OK);
    for (uint32_t i = 0; i < c->plan->n_external; i++) {
        const struct stem_plan_buffer *b = &c->plan->variants[0].buffers[i];
        bool found = false;
        if (b->kind != STEM_BUFFER_WEIGHT)
            continue;
        uint16_t *to = malloc(b->bytes);
        enum stem_status s = stem_safetensors_read(f, b, true, to, &found, &err);
        CU_ASSERT_EQUAL(s, STEM_OK);
        if (s)
            fprintf(stderr, "\n%s: %s: \"%s\"\n", model, b->name, err.message);
        for (uint64_t k = 0; !s && k < b->bytes / 2; k++)
            in_weights += to[k];
        bytes += b->bytes;
        free(to);
    }
    CU_ASSERT_EQUAL(bytes, 2 * w.at);
    CU_ASSERT_EQUAL(in_weights, in_file);
    stem_safetensors_close(f);
    stem_compiled_free(c);
    free(w.header);
    free(w.data);
    unlink(file);
}

static void qwen3(void)
{
    static const char *const defines[] = {"LAYERS=3",  "HIDDEN=128", "VOCAB=256", "HEADS=4",     "GROUPS=2",    "HEAD=64",
                                          "EXPERTS=8", "TOPK=2",     "INTER=32",  "CONTEXT=256", "SEQUENCES=4", NULL};
    static const struct tensor table[] = {
        {"model.embed_tokens.weight", 0, 0, 0, 256, 128},
        {"model.norm.weight", 0, 0, 0, 128, 0},
        {"lm_head.weight", 0, 0, 0, 256, 128},
        {"model.layers.%d.input_layernorm.weight", 0, 2, 0, 128, 0},
        {"model.layers.%d.post_attention_layernorm.weight", 0, 2, 0, 128, 0},
        {"model.layers.%d.self_attn.q_proj.weight", 0, 2, 0, 256, 128},
        {"model.layers.%d.self_attn.k_proj.weight", 0, 2, 0, 128, 128},
        {"model.layers.%d.self_attn.v_proj.weight", 0, 2, 0, 128, 128},
        {"model.layers.%d.self_attn.o_proj.weight", 0, 2, 0, 128, 256},
        {"model.layers.%d.self_attn.q_norm.weight", 0, 2, 0, 64, 0},
        {"model.layers.%d.self_attn.k_norm.weight", 0, 2, 0, 64, 0},
        {"model.layers.%d.mlp.gate.weight", 0, 2, 0, 8, 128},
        {"model.layers.%d.mlp.experts.%d.gate_proj.weight", 0, 2, 8, 32, 128},
        {"model.layers.%d.mlp.experts.%d.up_proj.weight", 0, 2, 8, 32, 128},
        {"model.layers.%d.mlp.experts.%d.down_proj.weight", 0, 2, 8, 128, 32},
        {0}};
    every_weight("qwen3_30b_a3b", defines, table);
}

static void deepseek_v2(void)
{
    static const char *const defines[] = {"LAYERS=3",  "HIDDEN=128", "VOCAB=256", "HEADS=4",   "LATENT=64",
                                          "NOPE=64",   "ROPE=64",    "HEAD=64",   "EXPERTS=8", "TOPK=2",
                                          "INTER=32",  "SHARED=64",  "DENSE=96",  "CONTEXT=256", "SEQUENCES=4", NULL};
    static const struct tensor table[] = {
        {"model.embed_tokens.weight", 0, 0, 0, 256, 128},
        {"model.norm.weight", 0, 0, 0, 128, 0},
        {"lm_head.weight", 0, 0, 0, 256, 128},
        {"model.layers.%d.input_layernorm.weight", 0, 2, 0, 128, 0},
        {"model.layers.%d.post_attention_layernorm.weight", 0, 2, 0, 128, 0},
        {"model.layers.%d.self_attn.q_proj.weight", 0, 2, 0, 4 * 128, 128},
        {"model.layers.%d.self_attn.kv_a_proj_with_mqa.weight", 0, 2, 0, 128, 128},
        {"model.layers.%d.self_attn.kv_a_layernorm.weight", 0, 2, 0, 64, 0},
        {"model.layers.%d.self_attn.kv_b_proj.weight", 0, 2, 0, 4 * 128, 64},
        {"model.layers.%d.self_attn.o_proj.weight", 0, 2, 0, 128, 256},
        {"model.layers.%d.mlp.gate_proj.weight", 0, 0, 0, 96, 128},
        {"model.layers.%d.mlp.up_proj.weight", 0, 0, 0, 96, 128},
        {"model.layers.%d.mlp.down_proj.weight", 0, 0, 0, 128, 96},
        {"model.layers.%d.mlp.gate.weight", 1, 2, 0, 8, 128},
        {"model.layers.%d.mlp.experts.%d.gate_proj.weight", 1, 2, 8, 32, 128},
        {"model.layers.%d.mlp.experts.%d.up_proj.weight", 1, 2, 8, 32, 128},
        {"model.layers.%d.mlp.experts.%d.down_proj.weight", 1, 2, 8, 128, 32},
        {"model.layers.%d.mlp.shared_experts.gate_proj.weight", 1, 2, 0, 64, 128},
        {"model.layers.%d.mlp.shared_experts.up_proj.weight", 1, 2, 0, 64, 128},
        {"model.layers.%d.mlp.shared_experts.down_proj.weight", 1, 2, 0, 128, 64},
        {0}};
    every_weight("deepseek_v2_lite", defines, table);
}

UNIT_MAIN("names of published checkpoints", {"Qwen3-30B-A3B", qwen3}, {"DeepSeek-V2-Lite", deepseek_v2})
