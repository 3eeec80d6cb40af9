/* SPDX-License-Identifier: Apache-2.0 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "unit.h"

#include <stdlib.h>

#include "runtime/cupti_abi.h"
#include "runtime/exec.h"
#include "runtime/nvrtc.h"

#ifdef STEM_HAVE_CUPTI
#include <cupti.h>

#define SAME_PLACE(ours, theirs)                                                                                     \
    _Static_assert(offsetof(struct stem_cupti_kernel, ours) == offsetof(CUpti_ActivityKernel9, theirs) &&            \
                       sizeof((struct stem_cupti_kernel){0}.ours) == sizeof((CUpti_ActivityKernel9){0}.theirs),      \
                   #ours)
SAME_PLACE(kind, kind);
SAME_PLACE(start, start);
SAME_PLACE(end, end);
SAME_PLACE(stream, streamId);
SAME_PLACE(correlation, correlationId);
SAME_PLACE(name, name);
SAME_PLACE(graph_node, graphNodeId);
SAME_PLACE(graph, graphId);
_Static_assert(offsetof(struct stem_cupti_kernel, grid) == offsetof(CUpti_ActivityKernel9, gridX), "grid");
_Static_assert(offsetof(struct stem_cupti_kernel, block) == offsetof(CUpti_ActivityKernel9, blockX), "block");
#define SAME_START(ours, ours_at, theirs, theirs_at)                                                                 \
    _Static_assert(offsetof(struct ours, ours_at) == offsetof(theirs, theirs_at) &&                                  \
                       sizeof((struct ours){0}.ours_at) == sizeof((theirs){0}.theirs_at),                            \
                   #ours)
#define SAME_HEAD(ours, theirs)                                                                                      \
    SAME_START(ours, kind, theirs, kind);                                                                            \
    SAME_START(ours, bytes, theirs, bytes);                                                                          \
    SAME_START(ours, start, theirs, start);                                                                          \
    SAME_START(ours, end, theirs, end);                                                                              \
    SAME_START(ours, stream, theirs, streamId);                                                                      \
    SAME_START(ours, correlation, theirs, correlationId);                                                            \
    SAME_START(ours, graph_node, theirs, graphNodeId);                                                               \
    SAME_START(ours, graph, theirs, graphId)
SAME_HEAD(stem_cupti_memset, CUpti_ActivityMemset4);
SAME_HEAD(stem_cupti_memcpy, CUpti_ActivityMemcpy5);
_Static_assert(STEM_CUPTI_MEMSET == (int)CUPTI_ACTIVITY_KIND_MEMSET, "kind");
_Static_assert(STEM_CUPTI_MEMCPY == (int)CUPTI_ACTIVITY_KIND_MEMCPY, "kind");
_Static_assert(STEM_CUPTI_CONCURRENT_KERNEL == (int)CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kind");
_Static_assert(STEM_CUPTI_FLUSH_FORCED == (int)CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, "flag");
#endif

/* Records as "correlation.graph.stream", in order of start. */
static void lanes_of_replays(void)
{
    static const struct {
        const char *records, *counts;
    } table[] = {
        {"", ""},
        {"1.0.7 2.0.8", ""}, /* outside graphs: no replay */
        {"1.5.7 1.5.7 1.5.7", "1"},
        {"1.5.7 1.5.8 1.5.7 1.5.9 1.5.8", "3"},
        {"9.5.7 9.5.8 2.5.7 2.5.7 3.0.1 4.5.1 4.5.2", "2 1 2"}, /* in order of start, not of id */
        {"1.5.7 2.5.7 1.5.8 2.5.9 2.5.10", "2 3"},              /* interleaved */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct stem_audit_record records[16] = {0};
        char *copy = strdup(table[i].records), *save = NULL, got[128] = "";
        size_t n = 0;
        for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save), n++)
            CU_ASSERT_EQUAL(sscanf(w, "%u.%u.%u", &records[n].correlation, &records[n].graph, &records[n].stream), 3);
        uint32_t *counts, found = stem_count_lanes(records, n, &counts);
        for (uint32_t k = 0; k < found; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", k ? " " : "", counts[k]);
        UNIT_SAME_TEXT(got, table[i].counts);
        free(counts);
        free(copy);
    }
}

/* "op S", "rec S E", "wait S E", "seg S N"; the answer: forks as "segment/stream", skipped waits as "step", or the
 * error. */
static void routes(void)
{
    static const struct {
        const char *steps, *expected;
    } table[] = {
        {"op 0; rec 0 0; op 0; wait 1 0; op 1; rec 1 1; wait 0 1; op 0", ""},
        /* a write-only first op on a side stream has nothing to wait for: it is forked all the same */
        {"op 1; rec 1 0; op 0; wait 0 0; op 0", "f0/1"},
        /* a leaf on a side stream that nobody joins */
        {"op 0; rec 0 0; wait 1 0; op 1; op 0", "op o1 (r.stem:11): stream a is not joined at the end of segment 0"},
        /* joined too early */
        {"rec 0 0; wait 1 0; op 1; rec 1 1; op 1; wait 0 1; op 0",
         "op o1 (r.stem:11): stream a is not joined at the end of segment 0"},
        /* joined through another stream */
        {"rec 0 0; wait 1 0; op 1; rec 1 1; wait 2 1; op 2; rec 2 2; wait 0 2; op 0", ""},
        /* an event of the segment before: the wait is dropped, the stream forked */
        {"op 0; rec 0 0; seg 0 0; wait 1 0; op 1; rec 1 1; wait 0 1; seg 0 1", "f1/1 s3"},
        /* unless it is recorded again */
        {"op 0; rec 0 0; seg 0 0; rec 0 0; wait 1 0; op 1; rec 1 1; wait 0 1; seg 0 1", ""},
    };
    static const char *const streams[] = {"main", "a", "b"};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        static const char *const names[] = {"o0", "o1", "o2", "o3"};
        struct stem_plan_op ops[8] = {0};
        struct stem_step steps[16] = {0};
        struct stem_plan_segment segments[4] = {0};
        struct stem_plan_variant v = {
            .ops = ops, .steps = steps, .segments = segments, .n_segments = 1, .n_events = 4};
        char *copy = strdup(table[i].steps), *save = NULL, got[1024] = "";
        bool ended = false;
        for (char *w = strtok_r(copy, ";", &save); w; w = strtok_r(NULL, ";", &save)) {
            char word[8];
            struct stem_step *s = &steps[v.n_steps++];
            struct stem_plan_segment *segment = &segments[v.n_segments - 1];
            if (ended) {
                segment = &segments[v.n_segments++];
                *segment = (struct stem_plan_segment){.first_op = v.n_ops, .first_step = v.n_steps - 1};
                ended = false;
            }
            CU_ASSERT_FATAL(sscanf(w, " %7s %u %u", word, &s->stream, &s->index) >= 2);
            s->kind = word[0] == 'o'   ? STEM_STEP_OP
                      : word[0] == 'r' ? STEM_STEP_RECORD
                      : word[0] == 'w' ? STEM_STEP_WAIT
                                       : STEM_STEP_SEGMENT;
            if (s->kind == STEM_STEP_OP) {
                s->index = v.n_ops;
                ops[v.n_ops] =
                    (struct stem_plan_op){.name = names[v.n_ops], .line = 10 + v.n_ops, .stream = s->stream};
                v.n_ops++;
                segment->n_ops++;
            }
            if (s->kind == STEM_STEP_SEGMENT)
                ended = true;
            else
                segment->n_steps++;
        }
        struct stem_plan p = {
            .name = "r", .source = "r.stem", .streams = streams, .n_streams = 3, .variants = &v, .n_variants = 1};
        struct stem_route route = {0};
        struct stem_rt_error err = {0};
        if (stem_route_make(&p, 0, &route, &err))
            snprintf(got, sizeof got, "%s", err.message);
        for (uint32_t k = 0; !got[0] && !err.status && k < v.n_segments * 3; k++)
            if (route.fork[k])
                snprintf(got, sizeof got, "f%u/%u", k / 3, k % 3);
        for (uint32_t k = 0; !err.status && k < v.n_steps; k++)
            if (route.skip[k])
                snprintf(got + strlen(got), sizeof got - strlen(got), "%ss%u", got[0] ? " " : "", k);
        UNIT_SAME_TEXT(got, table[i].expected);
        stem_route_free(&route);
        free(copy);
    }
}

static void missing_libraries(void)
{
    struct stem_rt *rt = (void *)1;
    struct stem_audit *audit;
    struct stem_rt_error err;
    struct stem_rt_options o = {.libcuda = "/nowhere/libcuda.so.1"};
    CU_ASSERT_EQUAL(stem_rt_open(&o, &rt, &err), STEM_E_NO_DRIVER);
    CU_ASSERT_PTR_NULL(rt);
    CU_ASSERT_EQUAL(err.status, STEM_E_NO_DRIVER);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "no CUDA driver: /nowhere/libcuda.so.1"));
    CU_ASSERT_EQUAL(stem_rt_open(&o, &rt, NULL), STEM_E_NO_DRIVER); /* without a place for the message */
    /* A library that is something else: what is missing is named. */
    o.libcuda = "libc.so.6";
    CU_ASSERT_EQUAL(stem_rt_open(&o, &rt, &err), STEM_E_NO_DRIVER);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "libc.so.6 has no cuInit: a CUDA driver of version 12.4"));
    struct stem_audit_options a = {.cupti = "/nowhere/libcupti.so"};
    CU_ASSERT_EQUAL(stem_audit_start(&a, &audit, &err), STEM_E_NO_CUPTI);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "/nowhere/libcupti.so"));
    a.cupti = "libc.so.6";
    CU_ASSERT_EQUAL(stem_audit_start(&a, &audit, &err), STEM_E_NO_CUPTI);
    CU_ASSERT_PTR_NULL(audit);
}

static void count_line(void *user, const char *topic, const char *text)
{
    (void)topic, (void)text;
    ++*(int *)user;
}

static void logs(void)
{
    static const struct {
        const char *topics, *topic;
        int lines;
    } table[] = {
        {"", "cache", 0},      {"cache", "cache", 1},          {"caches", "cache", 0}, {"launch,cache", "cache", 1},
        {"all", "capture", 1}, {"launch,capture", "cache", 0}, {"cach", "cache", 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int lines = 0;
        struct stem_log log = {.line = count_line, .user = &lines, .topics = table[i].topics};
        stem_log(&log, table[i].topic, "%d", 1);
        CU_ASSERT_EQUAL(lines, table[i].lines);
        log.topics = NULL;
        setenv("MAINSTEM_DEBUG", table[i].topics, 1);
        stem_log(&log, table[i].topic, "%d", 1);
        CU_ASSERT_EQUAL(lines, 2 * table[i].lines);
        unsetenv("MAINSTEM_DEBUG");
    }
}

/* Long names are cut, never overrun, and the cause stays. */
static void messages(void)
{
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct stem_plan_op op = {.name = name, .line = 7};
    struct stem_plan_variant v = {.ops = &op, .n_ops = 1};
    struct stem_plan p = {.name = "p", .source = name, .variants = &v, .n_variants = 1};
    struct stem_rt_error err;
    stem_fail_cuda(&err, NULL, 700, "launching %s", "k");
    UNIT_SAME_TEXT(err.message, "launching k: CUDA error 700");
    stem_error_at_op(&err, &p, &v, 0);
    CU_ASSERT_EQUAL(err.op, 0);
    CU_ASSERT_EQUAL(err.line, 7);
    CU_ASSERT_EQUAL(err.cuda, 700);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "nnn:7): launching k: CUDA error 700"));
    for (int i = 0; i < 20; i++)
        stem_error_at_op(&err, &p, &v, 0);
    CU_ASSERT(strlen(err.message) < sizeof err.message);
    for (int i = 0; i <= STEM_E_STALE; i++)
        CU_ASSERT(strlen(stem_status_text((enum stem_status)i)) > 0);
    UNIT_SAME_TEXT(stem_status_text((enum stem_status)99), "unknown status");
}

/* A cubin of one section of code and one of data, whose second 16 bytes begin with these. */
static bool sound(unsigned code, unsigned data)
{
    unsigned char elf[64 + 64 + 2 * 64] = "\177ELF\2\1";
    unsigned char *sections = elf + 128;
    elf[40] = 128; /* where the table of sections is, the size of an entry, and how many there are */
    elf[58] = 64;
    elf[60] = 2;
    for (int i = 0; i < 2; i++) {
        sections[64 * i + 8] = i ? 2 : 6; /* allocated; and code */
        sections[64 * i + 24] = (unsigned char)(64 + 32 * i);
        sections[64 * i + 32] = 32;
        elf[64 + 32 * i + 16] = (unsigned char)((i ? data : code) & 255);
        elf[64 + 32 * i + 17] = (unsigned char)((i ? data : code) >> 8);
    }
    return stem_cubin_sound(elf, sizeof elf);
}

static void cubins(void)
{
    CU_ASSERT(sound(0x7fae, 0));
    CU_ASSERT_FALSE(sound(0x7dae, 0));
    CU_ASSERT(sound(0, 0x7dae));
    CU_ASSERT(stem_cubin_sound("", 0));
    unsigned char cut[64] = "\177ELF\2\1"; /* a table beyond its end */
    memset(cut + 40, 255, 24);
    CU_ASSERT(stem_cubin_sound(cut, sizeof cut));
}

UNIT_MAIN("runtime", {"cubins", cubins}, {"lanes of replays", lanes_of_replays}, {"routes", routes},
          {"missing libraries", missing_libraries}, {"logs", logs}, {"messages", messages})
