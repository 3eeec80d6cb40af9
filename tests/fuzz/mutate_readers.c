/* SPDX-License-Identifier: Apache-2.0
 *
 * A short, deterministic fuzz run over what else is read: programs as text, plans, graphs, tables of costs. The texts are what the
 * compiler writes for examples and cases, with bytes, words and numbers changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutation.h"
#include "one_input.h"
#include "tests/cases/kit.h"

#define ROUNDS 150 /* for each text */

static const char *const ir_words[] = {
    "op",
    "value",
    "buffer",
    "temp",
    "input",
    "output",
    "state",
    "view",
    "next",
    "inout",
    "consume",
    "release",
    "pin s1",
    "on s0",
    "after o0",
    "dep data o0 -> o1",
    "order o0",
    "wait o1 for o0 segment g0",
    "wait end",
    "use b0",
    "segment g1",
    "dead",
    "resource \"r\"",
    "v0",
    "v1",
    "o1",
    "b0",
    "s1",
    "d0",
    "l0",
    "0",
    "1",
    "4294967295",
    "9223372036854775807",
    "-1",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ";",
    "=",
    "\"",
    "f32",
    "bf16[4, 4]",
    "nvfp4",
    "int4",
    "offset 64",
    "stride [1, 1]",
    "rmsnorm",
    "linear",
};
static const char *const plan_words[] = {
    "\"kind\"",   "\"op\"",     "\"wait\"",
    "\"record\"", "\"temp\"",   "\"extern\"",
    "\"launch\"", "\"full\"",   "\"programmatic\"",
    "null",       "true",       "[]",
    "{}",         "0",          "1",
    "-1",         "4294967295", "18446744073709551615",
    "1e308",      "[",          "]",
    "{",          "}",          ",",
    ":",          "\"",
};
static const char *const graph_words[] = {
    "->",
    "{",
    "}",
    "[",
    "]",
    ";",
    "\"",
    "digraph",
    "subgraph",
    "label=\"graph_1\"",
    "label=\"{KERNEL\n| {ID | 1 | x}}\"",
    "programmatic",
    "=",
    ",",
    "<",
    ">",
    "|",
    "0>1",
    "1>2p",
    "kkm",
    "-",
    "4294967295",
    "0",
};
static const char *const cost_words[] = {"\"us\"", "\"op\"", "\"pairs\"", "\"early_us\"", "[0,0,1,1]", "[0,1,1.5,-2]", "{}", "[]", "null",
                                         "0", "-1", "1e308", "0.00001", "4294967296", "[", "]", "{", "}", ",", ":", "\""};
static const char costs[] =
    "{\"mainstem_costs\":1,\"gpus\":[\n{\"name\":\"g\",\"sm\":90,\"bandwidth\":4.1e12,\"ops\":[\n"
    " {\"op\":\"linear(bf16[1,8]) bf16[1,8]\",\"kernel\":\"00000000000000ff\",\"us\":4.000,\"early_us\":3.000},\n"
    " {\"op\":\"a\",\"kernel\":\"0000000000000002\",\"us\":2.500}],\"pairs\":[\n [0,1,1.250,-0.500],\n [1,1,2,1]]},\n"
    "{\"name\":\"h\",\"sm\":80,\"ops\":[],\"pairs\":[]}]}\n";
static const char dot[] =
    "digraph dot {\nsubgraph cluster_1 {\nlabel=\"graph_1\" graph[style=\"dashed\"];\n"
    "\"graph_1_node_1\"[style=\"bold\" shape=\"record\" label=\"{KERNEL\n| {ID | 1 (topoId: 1) | "
    "f\\<\\<\\<2,128,0\\>\\>\\>}\n}\"];\n"
    "\"graph_1_node_0\"[style=\"bold\" shape=\"record\" label=\"{KERNEL\n| {ID | 0 (topoId: 4) | g}\n}\"];\n"
    "\"graph_1_node_2\"[label=\"{\nMEMCPY\n| {{ID | node handle} | {2 (topoId: 0) | 0x0}}\n}\"];\n"
    "\"graph_1_node_0\" -> \"graph_1_node_1\" [headlabel=0];\n\"graph_1_node_1\" -> \"graph_1_node_2\";\n}\n}\n";
static const char lines[] = "a 5 kkcmh | 0>1 1>2 2>3p 3>4\nb 4 | 0>1 0>2 1>3 2>3 | 0 0 1 0\n# c\nc 3 | | 0 1 2\n";

struct format {
    const char *name;
    bool (*take)(const char *text, size_t len);
    const char *const *words;
    size_t n_words;
    unsigned good, total;
};

static void rounds(struct format *f, const char *text)
{
    size_t len = strlen(text), room = len + 4096;
    char *copy = malloc(room + 1);
    if (!f->take(text, len)) {
        fprintf(stderr, "%s: a sound text is refused:\n%.2000s\n", f->name, text);
        exit(1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = len;
        memcpy(copy, text, len);
        for (uint32_t k = 1 + mutation_below(4); k > 0; k--)
            n = mutation(copy, n, room, f->words, f->n_words);
        copy[n] = '\0';
        f->good += f->take(copy, n);
        f->total++;
    }
    free(copy);
}

/* The program as it comes from the text, and as the passes leave it; the plan. */
static void program(struct format *ir, struct format *plan, const char *path, const char *options)
{
    struct kit k = kit_compile_file(path, options);
    struct stem_out o = {0};
    char *json = k.plan ? stem_plan_to_json(k.plan) : NULL;
    if (!json) {
        fprintf(stderr, "%s: %s\n", path, k.said);
        exit(1);
    }
    stem_program_print(k.compiled->programs[0], &o);
    rounds(ir, stem_out_text(&o));
    rounds(plan, json);
    stem_out_free(&o);
    free(json);
    kit_free(&k);
}

#define WORDS(list) list, sizeof list / sizeof *list

int main(void)
{
    struct format f[] = {{"ir", stem_fuzz_ir, WORDS(ir_words), 0, 0},
                         {"plan", stem_fuzz_plan, WORDS(plan_words), 0, 0},
                         {"graph", stem_fuzz_graph, WORDS(graph_words), 0, 0},
                         {"costs", stem_fuzz_costs, WORDS(cost_words), 0, 0}};
    program(&f[0], &f[1], "examples/dual_stream_moe.stem", "LAYERS=2 SETS=1");
    program(&f[0], &f[1], "examples/inline_kernel.stem", "");
    program(&f[0], &f[1], "examples/piecewise.stem", "");
    program(&f[0], &f[1], "tests/cases/c08_inplace.stem", "--copy");
    program(&f[0], &f[1], "tests/cases/c15_workspaces.stem", "");
    for (int i = 0; i < 5; i++) {
        rounds(&f[2], dot);
        rounds(&f[2], lines);
        rounds(&f[3], costs);
    }
    int status = 0;
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        printf("%s: %u texts, %u of them sound\n", f[i].name, f[i].total, f[i].good);
        status |= f[i].good == 0 || f[i].good == f[i].total; /* else the mutations show nothing */
    }
    return status;
}
