/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary of a compile: one screen, for each specialisation what was scheduled and how near it is to its bounds.
 */
#include "cli/summary.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/report.h"

static void print_dims(const struct stem_plan *p, const struct stem_plan_variant *v)
{
    for (uint32_t i = 0; i < p->n_dims; i++)
        printf("%s%s=%lld", i ? ", " : "  ", p->dims[i], (long long)v->dim[i]);
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

static const char *over(uint64_t value, uint64_t bound)
{
    static char text[32];
    if (value <= bound)
        return "at the bound";
    snprintf(text, sizeof text, "+%.1f %%", 100.0 * ((double)value / (double)(bound ? bound : 1) - 1));
    return text;
}

static uint64_t external_bytes(const struct stem_plan_variant *v, enum stem_buffer_kind kind, uint32_t *n)
{
    uint64_t sum = 0;
    *n = 0;
    for (uint32_t i = 0; i < v->n_buffers; i++)
        if (v->buffers[i].kind == kind) {
            sum += v->buffers[i].bytes;
            ++*n;
        }
    return sum;
}

static void print_time(double us)
{
    if (us >= 10000)
        printf("%.2f ms", us / 1000);
    else
        printf("%.1f us", us);
}

/* Streams that have work in this variant: a pin on a stream that fusion emptied does not count. */
static uint32_t streams_used(const struct stem_plan *p, const struct stem_plan_variant *v, uint32_t ops_on[])
{
    uint32_t used = 0;
    memset(ops_on, 0, p->n_streams * sizeof *ops_on);
    for (uint32_t i = 0; i < v->n_ops; i++)
        used += ops_on[v->ops[i].stream]++ == 0;
    return used;
}

static void print_events(const struct stem_plan *p, const struct stem_plan_variant *v)
{
    struct stem_arena *a = stem_arena_new();
    uint32_t order = v->n_events - stem_lane_events(p, v, a);
    if (order < v->events_bound && v->n_events >= v->events_bound) /* what saves a lane orders, too */
        order = v->events_bound;
    printf("  events         %u (", v->n_events);
    if (order < v->n_events)
        printf("%u for order, ", order);
    printf("bound %u, %s", v->events_bound, over(order, v->events_bound));
    if (order < v->n_events)
        printf("; %u more to save lanes", v->n_events - order);
    printf(")\n");
    stem_arena_free(a);
}

/* What the program will need beside the driver. */
static void print_products(const struct stem_plan_variant *v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_ops; i++)
        n += v->ops[i].work == STEM_WORK_MATMUL;
    if (n)
        printf("  products       %u by cuBLASLt, which is loaded at run time (--matmul=own does without)\n", n);
}

static void print_variant(const struct stem_plan *p, const struct stem_plan_variant *v)
{
    uint32_t ops_on[32], n_weights, n_states;
    uint64_t weights = external_bytes(v, STEM_BUFFER_WEIGHT, &n_weights);
    uint64_t states = external_bytes(v, STEM_BUFFER_STATE, &n_states);
    printf("%s", p->name);
    print_dims(p, v);
    printf("  sm_%u\n", p->sm);
    printf("  ops            %u in %u kernel%s", v->n_ops, p->n_kernels, plural(p->n_kernels));
    if (v->n_segments > 1)
        printf(", %u segments", v->n_segments);
    putchar('\n');
    print_products(v);
    printf("  streams        %u (", streams_used(p, v, ops_on));
    const char *comma = "";
    for (uint32_t s = 0; s < p->n_streams; s++)
        if (ops_on[s]) {
            printf("%s%s %u op%s", comma, p->streams[s], ops_on[s], plural(ops_on[s]));
            comma = ", ";
        }
    printf(")\n  lanes          %u predicted\n", v->lanes);
    print_events(p, v);
    printf("  slab           %s (bound %s, %s)\n", stem_cli_bytes(v->slab_bytes), stem_cli_bytes(v->slab_bound),
           over(v->slab_bytes, v->slab_bound));
    printf("  weights        %s in %u tensor%s", stem_cli_bytes(weights), n_weights, plural(n_weights));
    if (n_states)
        printf(", state %s in %u", stem_cli_bytes(states), n_states);
    printf("\n  estimate       ");
    print_time(v->schedule_us > 0 ? v->schedule_us : v->critical_path_us);
    printf(", ");
    print_time(v->total_us);
    printf(" its ops one after the other, ");
    print_time(v->floor_us);
    printf(" floor\n");
}

void stem_summary_print(const struct stem_compiled *c)
{
    const struct stem_plan *p = c->plan;
    for (uint32_t i = 0; i < p->n_variants; i++)
        print_variant(p, &p->variants[i]);
    if (p->n_variants > 1)
        printf("%u specialisations share %u kernel%s and one slab of %s\n", p->n_variants, p->n_kernels,
               plural(p->n_kernels), stem_cli_bytes(p->slab_bytes));
}

static uint32_t terminal_width(void)
{
    struct winsize w;
    if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col)
        return w.ws_col;
    const char *columns = getenv("COLUMNS");
    unsigned long n = columns ? strtoul(columns, NULL, 10) : 0;
    return n > 0 && n <= 10000 ? (uint32_t)n : 100;
}

static bool has_utf8(void)
{
    locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool utf8 = l && !strcmp(nl_langinfo_l(CODESET, l), "UTF-8");
    if (l)
        freelocale(l);
    return utf8;
}

void stem_summary_schedule(const struct stem_plan *p, bool ascii)
{
    struct stem_text_style style = {.width = terminal_width(), .ascii = ascii || !has_utf8()};
    for (uint32_t i = 0; i < p->n_variants; i++) {
        bool seen = i && stem_schedule_same(&p->variants[i - 1], &p->variants[i]);
        struct stem_out o = {0};
        if (seen)
            continue;
        putchar('\n');
        if (p->n_variants > 1) {
            print_dims(p, &p->variants[i]);
            putchar('\n');
        }
        stem_schedule_text(p, &p->variants[i], style, &o);
        fputs(stem_out_text(&o), stdout);
        stem_out_free(&o);
    }
}
