/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/inject.h"

static const char *const status_names[] = {"done", "nothing", "unknown", "large", "failed", "spoiled"};
static const char *const trust_names[] = {"exact", "good", "mixed", "unknown"};

static void text(FILE *f, const char *name, const char *value)
{
    fprintf(f, "  \"%s\": ", name);
    if (!value) {
        fputs("null,\n", f);
        return;
    }
    fputc('"', f);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', f);
        fputc((unsigned char)*value < ' ' ? ' ' : *value, f);
    }
    fputs("\",\n", f);
}

static void number(FILE *f, const char *name, uint64_t value)
{
    fprintf(f, ", \"%s\": %llu", name, (unsigned long long)value);
}

static void group(FILE *f, const struct stem_inject_group *g, struct stem_inject_lanes measured)
{
    const struct stem_relane_report *r = &g->report;
    fprintf(f, "    {\"status\": \"%s\", \"error\": %d, \"trust\": \"%s\", \"kinds\": {", status_names[r->status],
            r->error, trust_names[r->trust]);
    const char *comma = "";
    for (uint32_t k = 0; k < sizeof r->by_kind / sizeof *r->by_kind; k++)
        if (r->by_kind[k]) {
            fprintf(f, "%s\"%c\": %u", comma, STEM_LANE_KINDS[k], r->by_kind[k]);
            comma = ", ";
        }
    fputc('}', f);
    number(f, "nodes", r->nodes);
    number(f, "edges", r->edges);
    number(f, "edges_added", r->added);
    number(f, "edges_left", g->edges_left);
    number(f, "lanes_before", r->lanes_before);
    number(f, "lanes_after", r->lanes_after);
    number(f, "lanes_bound", r->lanes_bound);
    number(f, "lanes_measured", measured.most);
    number(f, "lanes_measured_least", measured.least);
    number(f, "replays_measured", measured.replays);
    number(f, "graphs", g->graphs);
    number(f, "failed", g->failed);
    number(f, "updates", g->updates);
    number(f, "updates_failed", g->updates_failed);
    number(f, "replays", g->replays);
    number(f, "instantiate_ns", g->instantiate_ns);
    number(f, "instantiate_shortest_ns", g->shortest_ns);
    number(f, "own_ns", g->own_ns);
    fputc('}', f);
}

bool stem_inject_report(struct stem_inject *s, const struct stem_inject_about *about, FILE *f)
{
    fputs("{\n  \"format\": \"mainstem-inject-1\",\n", f);
    fprintf(f, "  \"pid\": %ld,\n", (long)getpid());
    text(f, "mode", s->options.relane ? "relane" : "audit");
    text(f, "driver", about->driver);
    text(f, "model", s->options.model ? s->options.model->name : NULL);
    fprintf(f, "  \"model_fits\": %s,\n", about->measured_driver ? "true" : "false");
    text(f, "error", about->error);
    pthread_mutex_lock(&s->measure.lock);
    fprintf(f, "  \"measured\": %s", s->options.measure ? "true" : "false");
    number(f, "kernels", s->measure.kernels);
    number(f, "kernels_unmatched", s->measure.unmatched);
    pthread_mutex_unlock(&s->measure.lock);
    fputs(",\n  \"graphs\": [", f);
    pthread_mutex_lock(&s->tally.lock);
    for (uint32_t i = 0; i < s->tally.n_groups; i++) {
        fputs(i ? ",\n" : "\n", f);
        group(f, &s->tally.groups[i], stem_inject_measured(&s->measure, i));
    }
    pthread_mutex_unlock(&s->tally.lock);
    fputs("\n  ]\n}\n", f);
    return !ferror(f);
}

bool stem_inject_report_to(struct stem_inject *s, const struct stem_inject_about *about, const char *path)
{
    char whole[PATH_MAX], temp[PATH_MAX];
    const char *mark = strstr(path, "%p");
    int n = mark ? snprintf(whole, sizeof whole, "%.*s%ld%s", (int)(mark - path), path, (long)getpid(), mark + 2)
                 : snprintf(whole, sizeof whole, "%s", path);
    if (n < 0 || (size_t)n >= sizeof whole ||
        (size_t)snprintf(temp, sizeof temp, "%.4000s.tmp%ld", whole, (long)getpid()) >= sizeof temp)
        return false;
    FILE *f = fopen(temp, "we");
    bool fine = f && stem_inject_report(s, about, f);
    fine = f && !fclose(f) && fine && !rename(temp, whole);
    if (!fine)
        unlink(temp);
    return fine;
}
