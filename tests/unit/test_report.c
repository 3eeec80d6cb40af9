/* SPDX-License-Identifier: Apache-2.0
 *
 * The report's parts on plans written by hand: repeats, times, the drawing, texts that are no UTF-8, comparison.
 */
#include "unit.h"

#include "report/report.h"
#include "report/text8.h"

/* Ops by name and stream, one microsecond each; edges as given. */
struct small {
    struct stem_plan plan;
    struct stem_plan_variant v;
    struct stem_plan_op op[64];
};

static const char *const streams[] = {"main", "side"};

static void small(struct small *s, const char *const *names, const uint32_t *on, uint32_t n,
                  const struct stem_plan_edge *edges, uint32_t n_edges)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < n; i++)
        s->op[i] = (struct stem_plan_op){.name = names[i],
                                         .kind = "k",
                                         .work = STEM_WORK_MEMSET,
                                         .stream = on ? on[i] : 0,
                                         .layer = STEM_NONE,
                                         .resource = STEM_NONE,
                                         .est_us = 1};
    s->v = (struct stem_plan_variant){.ops = s->op, .n_ops = n, .edges = edges, .n_edges = n_edges};
    s->plan = (struct stem_plan){
        .name = "p", .sm = 90, .streams = streams, .n_streams = 2, .variants = &s->v, .n_variants = 1};
}

static void patterns(void)
{
    static const char *const table[][2] = {{"moe[3].x", "moe[*].x"},
                                           {"a[10].b[7]", "a[*].b[*]"},
                                           {"x", "x"},
                                           {"", ""},
                                           {"a[]", "a[]"},
                                           {"a[1", "a[1"},
                                           {"a[x]", "a[x]"},
                                           {"[0]", "[*]"}};
    struct stem_arena *a = stem_arena_new();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        UNIT_SAME_TEXT(stem_name_pattern(table[i][0], a), table[i][1]);
    stem_arena_free(a);
}

/* Letters are ops, alike if the letter is the same; the folds as "first period count;". */
static void repeats(void)
{
    static const char *const table[][2] = {
        {"", ""},
        {"abc", "0 3 1;"},
        {"abababab", "0 8 1;"}, /* saves too little */
        {"xaaaaaaaaaaaaaaaaaaay", "0 1 1;1 1 19;20 1 1;"},
        {"abcabcabcabcabcabcabc", "0 3 7;"},
        {"zabcdabcdabcdabcdabcdabq", "0 1 1;1 4 5;21 3 1;"},
    };
    struct stem_arena *a = stem_arena_new();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *names[64];
        uint32_t n = (uint32_t)strlen(table[i][0]);
        struct small s;
        struct stem_alike alike;
        struct stem_folds folds;
        struct stem_out o = {0};
        for (uint32_t k = 0; k < n; k++)
            names[k] = stem_arena_printf(a, "layer[%u].%c", k, table[i][0][k]);
        small(&s, names, NULL, n, NULL, 0);
        stem_alike_find(&s.v, a, &alike);
        stem_folds_find(&s.v, &alike, a, &folds);
        for (uint32_t k = 0; k < folds.len; k++)
            stem_out_printf(&o, "%u %u %u;", folds.at[k].first, folds.at[k].period, folds.at[k].count);
        UNIT_SAME_TEXT(stem_out_text(&o), table[i][1]);
        stem_out_free(&o);
    }
    stem_arena_free(a);
}

static const char *const fork_names[] = {"x", "a", "b", "s", "out"};
static const uint32_t fork_streams[] = {0, 0, 0, 1, 0};
static const struct stem_plan_edge fork_edges[] = {
    {0, 1, 0, 0}, {1, 2, 0, 0}, {0, 3, 0, 0}, {2, 4, 0, 0}, {3, 4, 0, 0}};

static void timeline(void)
{
    struct small s;
    struct stem_timeline t;
    struct stem_arena *a = stem_arena_new();
    small(&s, fork_names, fork_streams, 5, fork_edges, 5);
    s.op[3].est_us = 5;
    stem_timeline_estimate(&s.v, 2, a, &t);
    static const double start[] = {0, 1, 2, 1, 6};
    static const bool critical[] = {true, false, false, true, true};
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT(t.start[i] == start[i]);
        CU_ASSERT(t.critical[i] == critical[i]);
    }
    CU_ASSERT(t.length == 7);
    s.op[4].segment = 1; /* begins when all of segment 0 has ended */
    s.v.n_edges = 3;
    stem_timeline_estimate(&s.v, 2, a, &t);
    CU_ASSERT(t.start[4] == 6);
    stem_arena_free(a);
}

static void drawings(void)
{
    static const struct {
        const char *name; /* of op 1 */
        bool ascii;
        const char *text;
    } table[] = {
        {"a", true, "ops, 5 ops, 4.0 us\n  main - x -+- a - b -+- out -\n  side      +- s -----+\n"},
        {"a", false, "ops, 5 ops, 4.0 us\n  main ─ x ─┬─ a ─ b ─┬─ out ─\n  side      └─ s ─────┘\n"},
        {"\xc3\xbc", false, "ops, 5 ops, 4.0 us\n  main ─ x ─┬─ ü ─ b ─┬─ out ─\n  side      └─ s ─────┘\n"},
        {"\xc3\xbc", true, "ops, 5 ops, 4.0 us\n  main - x -+- ? - b -+- out -\n  side      +- s -----+\n"},
        {"\xff\x1b[", true, "ops, 5 ops, 4.0 us\n  main - x -+- ??[ - b -+- out -\n  side      +- s -------+\n"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *names[5];
        struct small s;
        struct stem_out o = {0};
        memcpy(names, fork_names, sizeof names);
        names[1] = table[i].name;
        small(&s, names, fork_streams, 5, fork_edges, 5);
        stem_schedule_text(&s.plan, &s.v, (struct stem_text_style){100, table[i].ascii}, &o);
        UNIT_SAME_TEXT(stem_out_text(&o), table[i].text);
        stem_out_free(&o);
    }
}

static void json_texts(void)
{
    static const char *const table[][2] = {{"plain", "\"plain\""},
                                           {"</script>", "\"\\u003c/script>\""},
                                           {"\xc3\xbc", "\"ü\""},
                                           {"\xff", "\"\xef\xbf\xbd\""},
                                           {"a\xc3", "\"a\xef\xbf\xbd\""},
                                           {"\"\\", "\"\\\"\\\\\""},
                                           {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct stem_out o = {0};
        stem_json_put(stem_json_text(table[i][0]), &o);
        UNIT_SAME_TEXT(stem_out_text(&o), table[i][1]);
        stem_out_free(&o);
    }
}

static void comparison(void)
{
    static const char *const moved[] = {"x", "s", "a", "b", "out"}, *const other[] = {"x", "a", "c", "s", "out"};
    static const uint32_t moved_streams[] = {0, 1, 0, 0, 0};
    struct small a, b;
    struct stem_out o = {0};
    small(&a, fork_names, fork_streams, 5, NULL, 0);
    small(&b, fork_names, fork_streams, 5, NULL, 0);
    CU_ASSERT(stem_plan_diff(&a.plan, &b.plan, &o) == 0);
    UNIT_SAME_TEXT(stem_out_text(&o), "");
    small(&b, moved, moved_streams, 5, NULL, 0);
    CU_ASSERT(stem_plan_diff(&a.plan, &b.plan, &o) == 1);
    UNIT_SAME_TEXT(stem_out_text(&o), "issue order:\n  's' is issued elsewhere: now after 'x'\n");
    stem_out_free(&o);
    small(&b, other, NULL, 5, NULL, 0);
    CU_ASSERT(stem_plan_diff(&a.plan, &b.plan, &o) == 3);
    UNIT_SAME_TEXT(
        stem_out_text(&o),
        "ops:\n  removed: 'b' (k, on main)\n  added: 'c' (k, on main)\n  's' moved from stream side to main\n");
    stem_out_free(&o);
}

UNIT_MAIN("report", {"names of layers have one pattern", patterns}, {"repeats are found", repeats},
          {"times follow the edges", timeline}, {"forks and joins are drawn", drawings},
          {"any bytes become JSON", json_texts}, {"plans are compared", comparison})
