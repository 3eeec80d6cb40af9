/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar on stderr, drawn at most ten times a second, from the second second on.
 */
#include "cli/cli.h"

#include <time.h>
#include <unistd.h>

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
