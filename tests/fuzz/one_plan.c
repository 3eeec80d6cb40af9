/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold for every text that is read as a plan, a table or a graph: a plan that was read is written to a text that
 * reads and writes the same, and the verifier and the lane model take it; so is a table of costs; graphs that were read can
 * be judged and written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costs/costs.h"
#include "lanes/lanes.h"
#include "lanes/read.h"
#include "one_input.h"
#include "runtime/plan.h"
#include "verify/verify.h"

static _Noreturn void broken(const char *what, const char *detail)
{
    fprintf(stderr, "broken promise: %s\n%s\n", what, detail);
    abort();
}

static void write_and_read(const struct stem_plan *p)
{
    char *first = stem_plan_to_json(p), *error = NULL;
    struct stem_plan *again = first ? stem_plan_from_json(first, strlen(first), &error) : NULL;
    if (!again)
        broken("a written plan does not read", error ? error : "");
    char *second = stem_plan_to_json(again);
    if (!second || strcmp(first, second) != 0)
        broken("a written plan is written differently", second ? second : "");
    stem_plan_free(again);
    free(first);
    free(second);
}

static void judge(const struct stem_plan *p)
{
    struct stem_diags *q = stem_diags_new(0);
    struct stem_out o = {0};
    bool safe = stem_verify(p, q);
    if (safe == (stem_diags_errors(q) != 0))
        broken("the verdict is not what the diagnostics say", "");
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    stem_out_free(&o);
    stem_diags_free(q);
}

bool stem_fuzz_plan(const char *text, size_t len)
{
    char *error = NULL;
    struct stem_plan *p = stem_plan_from_json(text, len, &error);
    if (!p == !error)
        broken(p ? "a plan and an error" : "no plan and no error", error ? error : "");
    bool good = p != NULL;
    if (p) {
        write_and_read(p);
        judge(p);
    }
    stem_plan_free(p);
    free(error);
    return good;
}

/* ---- graphs ---- */

static void predict(const struct stem_lane_case *c, struct stem_arena *a)
{
    struct stem_lanes lanes;
    struct stem_out o = {0};
    if (c->graph.n > 2000 || !stem_lanes_predict(NULL, &c->graph, a, &lanes))
        return;
    if (lanes.n != c->graph.n)
        broken("lanes for another number of nodes", "");
    stem_lane_write_line(&o, "again", &c->graph, lanes.lane);
    stem_out_free(&o);
}

bool stem_fuzz_graph(const char *text, size_t len)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_diags *q = stem_diags_new(0);
    struct stem_lane_cases cases = {0};
    struct stem_out o = {0};
    struct stem_source *s = stem_source_new(a, "fuzz", text, len);
    stem_diags_set_source(q, s);
    bool good = stem_lane_read(s, a, q, &cases);
    if (good != (stem_diags_errors(q) == 0))
        broken("the verdict is not what the diagnostics say", text);
    for (uint32_t i = 0; good && i < cases.len && i < 20; i++)
        predict(&cases.at[i], a);
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    stem_out_free(&o);
    stem_diags_free(q);
    stem_arena_free(a);
    return good;
}

/* ---- tables of costs ---- */

static char *write_costs(const struct stem_costs *c)
{
    struct stem_out o = {0};
    stem_costs_write(c, &o);
    stem_out_text(&o);
    return o.text;
}

bool stem_fuzz_costs(const char *text, size_t len)
{
    struct stem_arena *a = stem_arena_new();
    const char *error = NULL;
    struct stem_costs *c = stem_costs_read(text, len, a, &error);
    if (!c == !error)
        broken(c ? "a table and an error" : "no table and no error", error ? error : "");
    bool good = c != NULL;
    if (c) {
        char *first = write_costs(c);
        struct stem_costs *again = stem_costs_read(first, strlen(first), a, &error);
        if (!again)
            broken("a written table does not read", error);
        char *second = write_costs(again);
        if (strcmp(first, second) != 0)
            broken("a written table is written differently", second);
        free(first);
        free(second);
        stem_costs_free(again);
    }
    stem_costs_free(c);
    stem_arena_free(a);
    return good;
}
