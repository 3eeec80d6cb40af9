/* SPDX-License-Identifier: Apache-2.0
 *
 * The first few replays of an instance are measured and no more, so that memory stays bounded however long a program
 * runs. A kernel is told to belong to an instance by the number that its record bears, or by that of the launch,
 * since CUPTI has not always given instances numbers.
 */
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "inject/inject.h"

enum { BY_INSTANCE, BY_LAUNCH };

struct key {
    uint32_t what, number;
};

struct replay {
    uint32_t correlation, n, cap;
    uint32_t *streams;
};

struct stem_inject_watch {
    struct key key;
    uint32_t group, n;
    struct replay replay[STEM_INJECT_MAX_REPLAYS];
    UT_hash_handle hh;
};

void stem_inject_measure_init(struct stem_inject_measure *m)
{
    *m = (struct stem_inject_measure){0};
    pthread_mutex_init(&m->lock, NULL);
}

static void drop(struct stem_inject_measure *m, struct stem_inject_watch *w)
{
    HASH_DEL(m->by_id, w);
    for (uint32_t i = 0; i < w->n; i++)
        free(w->replay[i].streams);
    free(w);
}

void stem_inject_measure_free(struct stem_inject_measure *m)
{
    while (m->by_id)
        drop(m, m->by_id);
    pthread_mutex_destroy(&m->lock);
}

static struct stem_inject_watch *find(struct stem_inject_measure *m, uint32_t what, uint32_t number)
{
    struct key key = {what, number};
    struct stem_inject_watch *w = NULL;
    HASH_FIND(hh, m->by_id, &key, sizeof key, w);
    return w;
}

static void watch(struct stem_inject_measure *m, uint32_t what, uint32_t number, uint32_t group)
{
    pthread_mutex_lock(&m->lock);
    struct stem_inject_watch *w = find(m, what, number);
    if (!w && (w = calloc(1, sizeof *w))) {
        w->key = (struct key){what, number};
        HASH_ADD(hh, m->by_id, key, sizeof w->key, w);
        if (!find(m, what, number)) {
            free(w);
            w = NULL;
        }
    }
    if (w)
        w->group = group;
    pthread_mutex_unlock(&m->lock);
}

void stem_inject_watch_instance(struct stem_inject_measure *m, uint32_t graph_id, uint32_t group)
{
    if (graph_id)
        watch(m, BY_INSTANCE, graph_id, group);
}

void stem_inject_watch_launch(struct stem_inject_measure *m, uint32_t correlation, uint32_t group)
{
    if (correlation)
        watch(m, BY_LAUNCH, correlation, group);
}

static struct replay *replay_of(struct stem_inject_watch *w, uint32_t correlation)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->replay[i].correlation == correlation)
            return &w->replay[i];
    if (w->n == STEM_INJECT_MAX_REPLAYS)
        return NULL;
    w->replay[w->n] = (struct replay){.correlation = correlation};
    return &w->replay[w->n++];
}

static void add_stream(struct replay *r, uint32_t stream)
{
    /* Kernels of one lane come in a row more often than not. */
    for (uint32_t i = r->n; i-- > 0;)
        if (r->streams[i] == stream)
            return;
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? r->cap * 2 : 8;
        uint32_t *streams = realloc(r->streams, cap * sizeof *streams);
        if (!streams)
            return;
        r->streams = streams;
        r->cap = cap;
    }
    r->streams[r->n++] = stream;
}

void stem_inject_kernel(struct stem_inject_measure *m, uint32_t graph_id, uint32_t correlation, uint32_t stream)
{
    pthread_mutex_lock(&m->lock);
    struct stem_inject_watch *w = find(m, BY_INSTANCE, graph_id);
    if (!w)
        w = find(m, BY_LAUNCH, correlation);
    m->kernels++;
    m->unmatched += !w;
    struct replay *r = w ? replay_of(w, correlation) : NULL;
    if (r)
        add_stream(r, stream);
    pthread_mutex_unlock(&m->lock);
}

struct stem_inject_lanes stem_inject_measured(struct stem_inject_measure *m, uint32_t group)
{
    struct stem_inject_lanes l = {0};
    pthread_mutex_lock(&m->lock);
    for (const struct stem_inject_watch *w = m->by_id; w; w = w->hh.next)
        for (uint32_t i = 0; i < w->n && w->group == group; i++) {
            uint32_t n = w->replay[i].n;
            l.least = !l.replays || n < l.least ? n : l.least;
            l.most = n > l.most ? n : l.most;
            l.replays++;
        }
    pthread_mutex_unlock(&m->lock);
    return l;
}
