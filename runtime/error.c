/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors, log lines and small helpers of the runtime.
 */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *stem_status_text(enum stem_status s)
{
    static const char *const texts[] = {
#define X(suffix, text) text,
        STEM_STATUSES(X)
#undef X
    };
    return (unsigned)s < sizeof texts / sizeof *texts ? texts[s] : "unknown status";
}

void stem_error_clear(struct stem_rt_error *err)
{
    if (!err)
        return;
    err->status = STEM_OK;
    err->cuda = 0;
    err->op = STEM_NONE;
    err->line = 0;
    err->message[0] = '\0';
}

enum stem_status stem_fail(struct stem_rt_error *err, enum stem_status s, const char *fmt, ...)
{
    if (!err)
        return s;
    stem_error_clear(err);
    err->status = s;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    return s;
}

enum stem_status stem_fail_cuda(struct stem_rt_error *err, const struct stem_driver *d, int code, const char *fmt,
                                ...)
{
    if (!err)
        return STEM_E_CUDA;
    const char *name = NULL, *text = NULL;
    if (d && d->error_name && d->error_name(code, &name))
        name = NULL;
    if (d && d->error_string && d->error_string(code, &text))
        text = NULL;
    stem_error_clear(err);
    err->status = STEM_E_CUDA;
    err->cuda = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->message);
    if (name)
        snprintf(err->message + n, sizeof err->message - n, ": %s%s%s", name, text ? ": " : "", text ? text : "");
    else
        snprintf(err->message + n, sizeof err->message - n, ": CUDA error %d", code);
    return STEM_E_CUDA;
}

void stem_error_at_op(struct stem_rt_error *err, const struct stem_plan *p, const struct stem_plan_variant *v,
                      uint32_t op)
{
    if (!err || op >= v->n_ops)
        return;
    char rest[sizeof err->message];
    memcpy(rest, err->message, sizeof rest);
    err->op = op;
    err->line = v->ops[op].line;
    int n = snprintf(err->message, sizeof err->message, "op %.200s (%.200s:%u): ", v->ops[op].name,
                     p->source[0] ? p->source : p->name, (unsigned)err->line);
    if (n > 0 && (size_t)n < sizeof err->message)
        snprintf(err->message + n, sizeof err->message - (size_t)n, "%.*s", (int)(sizeof rest - (size_t)n - 1), rest);
}

/* `topic` as a word of a comma-separated list; "all" stands for every topic. */
static bool listed(const char *topics, const char *topic)
{
    size_t n = strlen(topic);
    while (topics && *topics) {
        size_t len = strcspn(topics, ",");
        if ((len == n && memcmp(topics, topic, n) == 0) || (len == 3 && memcmp(topics, "all", 3) == 0))
            return true;
        topics += len + (topics[len] == ',');
    }
    return false;
}

bool stem_log_on(const struct stem_log *log, const char *topic)
{
    return log->line && listed(log->topics ? log->topics : getenv("MAINSTEM_DEBUG"), topic);
}

void stem_log(const struct stem_log *log, const char *topic, const char *fmt, ...)
{
    if (!stem_log_on(log, topic))
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log->line(log->user, topic, text);
}

void *stem_zalloc(size_t n, size_t size)
{
    return calloc(n ? n : 1, size ? size : 1);
}

char *stem_format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!p)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

double stem_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
