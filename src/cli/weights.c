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
    *found = false;
    for (uint32_t i = w->n; i-- > 0;) {
        const struct stem_safetensor *t = stem_safetensors_find(w->file[i], b->name);
        struct stem_rt_error err;
        if (!t)
            continue;
        *found = true;
        if (stem_safetensors_check(w->file[i], t, b, &err) != STEM_OK) {
            stem_cli_error("%s", err.message);
            return false;
        }
        memcpy(to, t->data, b->bytes);
        return true;
    }
    return true;
}
