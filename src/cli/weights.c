/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/cli.h"
#include "runtime/mainstem_rt.h"

struct stem_weights {
    struct stem_safetensors **file;
    uint32_t n;
};

struct stem_weights *stem_weights_open(const char *const *paths, uint32_t n)
{
    struct stem_weights *w = stem_xmalloc(sizeof *w);
    *w = (struct stem_weights){.file = stem_xmalloc(n * sizeof(struct stem_safetensors *)), .n = n};
    memset(w->file, 0, n * sizeof *w->file);
    for (uint32_t i = 0; i < n; i++) {
        struct stem_rt_error err;
        if (stem_safetensors_open(paths[i], &w->file[i], &err) != STEM_OK) {
            stem_cli_error("%s", err.message);
            stem_weights_close(w);
            return NULL;
        }
    }
    return w;
}

void stem_weights_close(struct stem_weights *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        stem_safetensors_close(w->file[i]);
    free(w->file);
    free(w);
}

bool stem_weights_load(const struct stem_weights *w, const struct stem_plan_buffer *b, void *to, bool *found)
{
    struct stem_rt_error err = {0};
    enum stem_status s = STEM_OK;
    *found = false;
    for (uint32_t i = w->n; i-- > 0 && !s && !*found;)
        s = stem_safetensors_read(w->file[i], b, false, to, found, &err);
    /* A weight that says where it is must be there; others may be made up. */
    if (!s && !*found && b->from && w->n)
        s = stem_safetensors_read(w->file[w->n - 1], b, true, NULL, found, &err);
    if (s)
        stem_cli_error("%s", err.message);
    return !s;
}
