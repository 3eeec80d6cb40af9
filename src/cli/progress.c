/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar on stderr, drawn at most ten times a second, from the second second on.
 */
#include "cli/cli.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct stem_progress stem_progress_start(const char *what)
{
    double t = now();
    return (struct stem_progress){.what = what, .started = t, .drawn = t, .enabled = isatty(STDERR_FILENO)};
}

void stem_progress_step(struct stem_progress *p, uint64_t done, uint64_t total)
{
    enum { WIDTH = 30 };
    double t = now();
    if (!p->enabled || t - p->started < 1.0 || t - p->drawn < 0.1 || total == 0)
        return;
    p->drawn = t;
    p->visible = true;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = (uint64_t)i * total < done * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %3d%%\033[K", p->what, bar, (int)(100 * done / total));
    fflush(stderr);
}

void stem_progress_end(struct stem_progress *p)
{
    if (p->visible)
        fputs("\r\033[K", stderr);
    p->visible = false;
}

struct stem_busy {
    const char *what;
    double started;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
};

static void *draw_busy(void *arg)
{
    struct stem_busy *b = arg;
    bool visible = false;
    pthread_mutex_lock(&b->lock);
    while (!b->over) {
        struct timespec next;
        clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&b->ended, &b->lock, &next);
        if (b->over)
            break;
        fprintf(stderr, "\r%s [%d s]\033[K", b->what, (int)(now() - b->started));
        fflush(stderr);
        visible = true;
    }
    pthread_mutex_unlock(&b->lock);
    if (visible)
        fputs("\r\033[K", stderr);
    return NULL;
}

struct stem_busy *stem_busy_start(const char *what)
{
    if (!isatty(STDERR_FILENO))
        return NULL;
    struct stem_busy *b = stem_xmalloc(sizeof *b);
    *b = (struct stem_busy){.what = what, .started = now()};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->ended, NULL);
    if (pthread_create(&b->thread, NULL, draw_busy, b)) {
        free(b);
        return NULL;
    }
    return b;
}

void stem_busy_end(struct stem_busy *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->over = true;
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
