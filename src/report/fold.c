/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeats: 61 layers of a model are one stretch of ops, 61 times. Found in the issue order itself, so that it holds
 * for plans of any origin, and however layers interleave.
 */
#include "report/report.h"

#include <string.h>

#include "base/str.h"

enum { MAX_PERIOD = 4096, MIN_SAVED = 16 }; /* ops */

const char *stem_name_pattern(const char *name, struct stem_arena *a)
{
    char *out = stem_arena_strdup(a, name), *to = out;
    for (const char *p = name; *p;) {
        size_t digits = *p == '[' ? strspn(p + 1, "0123456789") : 0;
        if (digits && p[1 + digits] == ']') {
            memcpy(to, "[*]", 3);
            to += 3;
            p += digits + 2;
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
    return out;
}

static struct stem_sym key(struct stem_strtab *table, const struct stem_plan_op *op, struct stem_arena *a)
{
    return stem_intern_printf(table, "%s|%s|%u|%u|%u|%u %u %u|%u %u %u|%u|%u|%d|%u %u|%llu %llu %llu|%u",
                              stem_name_pattern(op->name, a), op->kind, (unsigned)op->work, op->stream, op->kernel,
                              op->grid[0], op->grid[1], op->grid[2], op->block[0], op->block[1], op->block[2],
                              op->smem, op->function, op->memset_value, op->line, op->column,
                              (unsigned long long)op->bytes_read, (unsigned long long)op->bytes_written,
                              (unsigned long long)op->flops, op->resource);
}

void stem_alike_find(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_alike *out)
{
    struct stem_strtab *table = stem_strtab_new();
    struct stem_arena *scratch = stem_arena_new();
    *out = (struct stem_alike){.class = STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1)};
    for (uint32_t i = 0; i < v->n_ops; i++) {
        out->class[i] = key(table, &v->ops[i], scratch).n - 1;
        if (out->class[i] >= out->n_classes)
            out->n_classes = out->class[i] + 1;
    }
    stem_arena_free(scratch);
    stem_strtab_free(table);
}

/* The stretch from `at` on that covers most; count 1 and period 1 if nothing repeats. */
static struct stem_fold longest(const uint32_t *class, uint32_t n, uint32_t at)
{
    struct stem_fold best = {at, 1, 1};
    for (uint32_t p = 1; p <= MAX_PERIOD && at + 2 * p <= n; p++) {
        if (class[at] != class[at + p])
            continue;
        uint32_t same = 0;
        while (at + p + same < n && class[at + same] == class[at + p + same])
            same++;
        uint32_t count = same / p + 1;
        if (count > 1 && (count - 1) * p >= MIN_SAVED && (best.count == 1 || count * p > best.count * best.period))
            best = (struct stem_fold){at, p, count};
        if (best.count * best.period == n - at)
            break;
    }
    return best;
}

void stem_folds_of(const uint32_t *class, uint32_t n, struct stem_arena *a, struct stem_folds *out)
{
    *out = (struct stem_folds){.at = STEM_NEW_ARRAY(a, struct stem_fold, n + 1)};
    for (uint32_t i = 0; i < n;) {
        struct stem_fold f = longest(class, n, i);
        struct stem_fold *last = out->len ? &out->at[out->len - 1] : NULL;
        if (f.count == 1 && last && last->count == 1)
            last->period++;
        else
            out->at[out->len++] = f;
        i += f.period * f.count;
    }
}

void stem_folds_find(const struct stem_plan_variant *v, const struct stem_alike *alike, struct stem_arena *a,
                     struct stem_folds *out)
{
    stem_folds_of(alike->class, v->n_ops, a, out);
}
