/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem run --profile`: one replay of each specialisation as CUPTI saw it.
 */
#ifndef STEM_CLI_PROFILE_H
#define STEM_CLI_PROFILE_H

#include "cli/gpu_check.h"
#include "report/report.h"

struct stem_profiles {
    struct stem_arena *arena;
    struct stem_profile *at; /* by variant */
};

void stem_profiles_new(struct stem_profiles *p, const struct stem_plan *plan);
void stem_profiles_free(struct stem_profiles *p);
/* Replays `times` and keeps the replay whose length is the median; prints a table. Needs g->audit. Exit status. */
int stem_profile_replays(struct stem_gpu *g, struct stem_replay *p, uint32_t times, struct stem_profiles *all);
/* Writes the trace; `path` NULL: NAME.profile.json. Exit status. */
int stem_profiles_write(const struct stem_profiles *all, const struct stem_gpu *g, const struct stem_source *source,
                        enum stem_run_by by, const char *path);

#endif
