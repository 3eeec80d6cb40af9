/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: measures the lanes of the graphs in measured-format files on the device that is there, prints them in
 * the same format, and compares with the model and with the lanes that the files give.
 *
 *     calibrate [OPTION...] FILE...   > measured.txt 2> comparison.txt
 *
 *     --driver=NAME   compare with this model          --cupti=PATH   this CUPTI
 *     --every=K       every K-th graph alone           --records      CUPTI's records as well
 *     --dot=PREFIX    print each graph, to PREFIX, its label, .plain.dot and .verbose.dot
 *     --copy=D        transfers are 1 from the host, 2 to the host, 3 within the host
 *     --bytes=N       memsets and memcpys are of N bytes, and leave no lane; --element=N: memsets in elements of N
 *
 * Exit status: 0 measured (whatever the model says), 1 a graph could not be measured, 77 no device, 2 usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "lanes/read.h"

struct score {
    const char *label;
    uint32_t graphs, exact, number, changed; /* changed: other lanes than the file gives */
};

struct run {
    const struct stem_lane_driver *driver;
    const char *dot;
    struct gpu_how how;
    uint32_t every, failed;
    struct score score[200];
    uint32_t n_scores;
};

/* Labels beyond the table share its last row. */
static struct score *score_of(struct run *r, const char *label)
{
    for (uint32_t i = 0; i < r->n_scores; i++)
        if (strcmp(r->score[i].label, label) == 0)
            return &r->score[i];
    if (r->n_scores < sizeof r->score / sizeof r->score[0])
        r->score[r->n_scores++] = (struct score){.label = label};
    return &r->score[r->n_scores - 1];
}

static void measure(struct run *r, const struct stem_lane_case *c, struct stem_arena *a)
{
    uint32_t *lane = STEM_NEW_ARRAY(a, uint32_t, c->graph.n);
    r->how.dot = r->dot ? stem_arena_printf(a, "%s%s", r->dot, c->label) : NULL;
    const char *why = gpu_measure(&c->graph, &r->how, lane);
    if (why) {
        fprintf(stderr, "%s: not measured: %s\n", c->label, why);
        r->failed++;
        return;
    }
    struct stem_out o = {0};
    stem_lane_write_line(&o, c->label, &c->graph, lane);
    fputs(stem_out_text(&o), stdout);
    fflush(stdout);
    stem_out_free(&o);

    struct stem_lanes predicted;
    struct score *s = score_of(r, c->label);
    s->graphs++;
    if (stem_lanes_predict(r->driver, &c->graph, a, &predicted)) {
        struct stem_lane_fit fit = stem_lanes_fit(&predicted, lane);
        s->exact += fit.exact;
        s->number += fit.number;
    }
    if (c->measured)
        s->changed += memcmp(c->measured, lane, c->graph.n * sizeof *lane) != 0;
}

static int measure_file(struct run *r, const char *path)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_diags *q = stem_diags_new(0);
    struct stem_lane_cases cases;
    const char *why = NULL;
    struct stem_source *s = stem_source_read(a, path, &why);
    int status = 0;
    if (s) {
        stem_diags_set_source(q, s);
        stem_lane_read(s, a, q, &cases);
    }
    if (!s || stem_diags_errors(q)) {
        struct stem_out o = {0};
        stem_diags_print(q, (struct stem_diag_style){0}, &o);
        fprintf(stderr, "%s\n", s ? stem_out_text(&o) : why);
        stem_out_free(&o);
        status = 1;
    }
    r->n_scores = 0;
    for (uint32_t i = 0; status == 0 && i < cases.len; i += r->every)
        measure(r, &cases.at[i], a);
    struct score all = {.label = "all"};
    fprintf(stderr, "%s: graphs, exact lanes, number of lanes, other than in the file\n", path);
    for (uint32_t i = 0; i < r->n_scores; i++) {
        const struct score *x = &r->score[i];
        fprintf(stderr, "  %-8s %5u %5u %5u %5u\n", x->label, x->graphs, x->exact, x->number, x->changed);
        all.graphs += x->graphs;
        all.exact += x->exact;
        all.number += x->number;
        all.changed += x->changed;
    }
    fprintf(stderr, "  %-8s %5u %5u %5u %5u\n", all.label, all.graphs, all.exact, all.number, all.changed);
    stem_diags_free(q);
    stem_arena_free(a);
    return status;
}

static const char *option(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

int main(int argc, char **argv)
{
    struct run r = {.every = 1};
    const char *cupti = NULL, *value;
    int i = 1, status = 0;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if ((value = option(argv[i], "--cupti=")))
            cupti = value;
        else if ((value = option(argv[i], "--copy=")))
            r.how.copy = (unsigned)atoi(value);
        else if ((value = option(argv[i], "--bytes=")))
            r.how.bytes = (uint32_t)atol(value);
        else if ((value = option(argv[i], "--element=")))
            r.how.element = (uint32_t)atol(value);
        else if (strcmp(argv[i], "--records") == 0)
            r.how.records = stderr;
        else if ((value = option(argv[i], "--dot=")))
            r.dot = value;
        else if ((value = option(argv[i], "--every=")) && atoi(value) > 0)
            r.every = (uint32_t)atoi(value);
        else if ((value = option(argv[i], "--driver=")) && stem_lane_driver_find(value))
            r.driver = stem_lane_driver_find(value);
        else {
            fprintf(
                stderr,
                "usage: calibrate [--driver=NAME] [--cupti=PATH] [--dot=PREFIX] [--copy=D] [--bytes=N] [--element=N] "
                "[--records] [--every=K] FILE...\n");
            return 2;
        }
    }
    const char *why = gpu_open(cupti);
    if (why) {
        fprintf(stderr, "calibrate: %s\n", why);
        return strncmp(why, "no ", 3) == 0 ? 77 : 1;
    }
    char text[200];
    unsigned version;
    gpu_describe(text, sizeof text, &version);
    printf("# %s\n", text);
    fprintf(stderr, "%s\n", text);
    for (; i < argc; i++)
        status |= measure_file(&r, argv[i]);
    gpu_close();
    return status || r.failed ? 1 : 0;
}
