/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the table of costs is, and reading it.
 */
#include "costs/costs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/source.h"
#include "cli/cli.h"

char *stem_cli_costs_path(void)
{
    const char *set = getenv("MAINSTEM_COSTS"), *cache = getenv("MAINSTEM_CACHE"), *base = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (set && !strcmp(set, "none"))
        set = NULL;
    const char *dir = set && *set ? "" : cache && *cache ? cache : base && *base ? base : home ? home : ".";
    const char *rest = set && *set       ? set
                       : cache && *cache ? "/costs.json"
                       : base && *base   ? "/mainstem/costs.json"
                                         : "/.cache/mainstem/costs.json";
    size_t size = strlen(dir) + strlen(rest) + 1;
    char *path = stem_xmalloc(size);
    snprintf(path, size, "%s%s", dir, rest);
    return path;
}

struct stem_costs *stem_cli_costs_read(const char *path, bool may_be_missing, int *status)
{
    struct stem_arena *a = stem_arena_new();
    FILE *f = fopen(path, "rb");
    struct stem_costs *c = NULL;
    if (!f && errno == ENOENT && may_be_missing) {
        c = stem_costs_new();
    } else if (!f) {
        stem_cli_error("cannot read '%s': %s", path, strerror(errno));
        *status = STEM_EXIT_WORLD;
    } else {
        const char *why = NULL;
        const struct stem_source *s = stem_source_read(a, path, &why);
        if (!s) {
            stem_cli_error("%s", why);
            *status = STEM_EXIT_WORLD;
        } else if (!(c = stem_costs_read(s->text, s->len, a, &why))) {
            stem_cli_error("%s: %s", path, why);
            *status = STEM_EXIT_INPUT;
        }
    }
    if (f)
        fclose(f);
    stem_arena_free(a);
    return c;
}

bool stem_cli_costs_load(struct stem_cli_compile *c, struct stem_costs **costs, int *status)
{
    struct stem_options *o = &c->args.options;
    *costs = NULL;
    o->costs = NULL;
    const char *set = getenv("MAINSTEM_COSTS"); /* as good as the option: a slip in it is not to go unseen */
    const char *name = c->costs ? c->costs : set && *set ? set : NULL;
    if (name && !strcmp(name, "none"))
        return true;
    char *path = c->costs ? NULL : stem_cli_costs_path();
    bool named = name != NULL, there = path && !access(path, F_OK);
    if (!named && !there) { /* nothing is tuned, and a cache that cannot be is nothing that this needs */
        free(path);
        return true;
    }
    *costs = stem_cli_costs_read(c->costs ? c->costs : path, !named, status);
    if (!*costs && path)
        fprintf(stderr, "  %s--costs=none goes on without it; 'mainstem tune' makes it%s\n",
                named ? "MAINSTEM_COSTS names it; " : "", there ? " anew if it is removed" : "");
    free(path);
    if (!*costs)
        return false;
    o->costs = stem_costs_find_gpu(*costs, c->gpu, o->target.sm);
    if (o->costs && o->costs->bandwidth > 0)
        o->target.bandwidth = o->costs->bandwidth;
    return true;
}
