/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "inject/inject.h"

struct stem_inject_instance {
    struct CUgraphExec_st *exec;
    uint32_t group, replays; /* replays counted up to MAX_REPLAYS */
    bool watched;
    struct stem_relane_edges edges;
    UT_hash_handle hh;
};

/* An instance that is always there, so that the table is never given back: adding to a table takes no memory but that
 * of the entry. Without it nothing can be remembered, so nothing is reserved and no graph is touched. */
void stem_inject_tally_init(struct stem_inject_tally *t)
{
    *t = (struct stem_inject_tally){0};
    pthread_mutex_init(&t->lock, NULL);
    struct stem_inject_instance *first = calloc(1, sizeof *first);
    if (!first)
        return;
    HASH_ADD_PTR(t->instances, exec, first);
    t->ready = t->instances != NULL;
    if (!t->ready)
        free(first);
}

static void drop(struct stem_inject_tally *t, struct stem_inject_instance *i)
{
    HASH_DEL(t->instances, i);
    stem_relane_edges_free(&i->edges);
    free(i);
}

void stem_inject_tally_free(struct stem_inject_tally *t)
{
    while (t->instances)
        drop(t, t->instances);
    free(t->groups);
    pthread_mutex_destroy(&t->lock);
}

struct stem_inject_instance *stem_inject_tally_reserve(struct stem_inject_tally *t)
{
    return t->ready ? calloc(1, sizeof(struct stem_inject_instance)) : NULL;
}

uint32_t stem_inject_tally_known(struct stem_inject_tally *t)
{
    pthread_mutex_lock(&t->lock);
    uint32_t n = HASH_COUNT(t->instances);
    pthread_mutex_unlock(&t->lock);
    return n ? n - 1 : 0;
}

static struct stem_inject_instance *find(struct stem_inject_tally *t, struct CUgraphExec_st *exec)
{
    struct stem_inject_instance *i;
    HASH_FIND_PTR(t->instances, &exec, i);
    return i;
}

static uint32_t group_of(struct stem_inject_tally *t, const struct stem_relane_report *report)
{
    for (uint32_t g = 0; g < t->n_groups; g++)
        if (!memcmp(&t->groups[g].report, report, sizeof *report))
            return g;
    if (t->n_groups == STEM_INJECT_MAX_GROUPS)
        return STEM_INJECT_MAX_GROUPS - 1;
    if (t->n_groups == t->cap_groups) {
        uint32_t cap = t->cap_groups ? t->cap_groups * 2 : 16;
        struct stem_inject_group *groups = realloc(t->groups, cap * sizeof *groups);
        if (!groups)
            return STEM_INJECT_NO_GROUP;
        t->groups = groups;
        t->cap_groups = cap;
    }
    t->groups[t->n_groups] = (struct stem_inject_group){.report = *report};
    return t->n_groups++;
}

/* What was known of the address before is forgotten. */
static void remember(struct stem_inject_tally *t, struct stem_inject_instance *i, struct CUgraphExec_st *exec,
                     uint32_t group, bool watched, struct stem_relane_edges *edges)
{
    struct stem_inject_instance *old = find(t, exec);
    if (old)
        drop(t, old);
    *i = (struct stem_inject_instance){.exec = exec, .group = group, .watched = watched};
    HASH_ADD_PTR(t->instances, exec, i);
    i->edges = (struct stem_relane_edges){.edge = edges->edge, .n = edges->n};
    edges->edge = NULL;
}

uint32_t stem_inject_tally_instance(struct stem_inject_tally *t, struct stem_inject_instance *place,
                                    struct CUgraphExec_st *exec, const struct stem_relane_report *report,
                                    struct stem_relane_edges *edges, const struct stem_inject_timing *timing,
                                    bool *watch)
{
    *watch = false;
    pthread_mutex_lock(&t->lock);
    uint32_t at = group_of(t, report);
    if (at != STEM_INJECT_NO_GROUP) {
        struct stem_inject_group *g = &t->groups[at];
        g->graphs++;
        g->failed += exec == NULL;
        g->own_ns += timing->own_ns;
        g->edges_left += timing->edges_left;
        if (exec) {
            g->instantiate_ns += timing->driver_ns;
            if (!g->shortest_ns || timing->driver_ns < g->shortest_ns)
                g->shortest_ns = timing->driver_ns;
            *watch = place && g->watched < STEM_INJECT_MAX_WATCHED;
            g->watched += *watch;
        }
    }
    if (exec && place)
        remember(t, place, exec, at, *watch, edges);
    else
        free(place);
    pthread_mutex_unlock(&t->lock);
    stem_relane_edges_free(edges);
    return at;
}

const struct stem_relane_edges *stem_inject_tally_edges(struct stem_inject_tally *t, struct CUgraphExec_st *exec)
{
    pthread_mutex_lock(&t->lock);
    const struct stem_inject_instance *i = find(t, exec);
    pthread_mutex_unlock(&t->lock);
    return i && i->edges.n ? &i->edges : NULL;
}

void stem_inject_tally_update(struct stem_inject_tally *t, struct CUgraphExec_st *exec, bool failed,
                              const struct stem_inject_timing *timing)
{
    pthread_mutex_lock(&t->lock);
    const struct stem_inject_instance *i = find(t, exec);
    if (i && i->group != STEM_INJECT_NO_GROUP) {
        struct stem_inject_group *g = &t->groups[i->group];
        g->updates++;
        g->updates_failed += failed;
        g->own_ns += timing->own_ns;
        g->edges_left += timing->edges_left;
    }
    pthread_mutex_unlock(&t->lock);
}

uint32_t stem_inject_tally_launch(struct stem_inject_tally *t, struct CUgraphExec_st *exec)
{
    uint32_t group = STEM_INJECT_NO_GROUP;
    pthread_mutex_lock(&t->lock);
    struct stem_inject_instance *i = find(t, exec);
    if (i && i->group != STEM_INJECT_NO_GROUP) {
        t->groups[i->group].replays++;
        if (i->watched && i->replays < STEM_INJECT_MAX_REPLAYS) {
            i->replays++;
            group = i->group;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return group;
}

void stem_inject_tally_destroy(struct stem_inject_tally *t, struct CUgraphExec_st *exec)
{
    pthread_mutex_lock(&t->lock);
    struct stem_inject_instance *i = exec ? find(t, exec) : NULL;
    if (i)
        drop(t, i);
    pthread_mutex_unlock(&t->lock);
}
