/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cpu/guard.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ALIGN is what a kernel may take for granted; a host function may have wider vectors, so less that it reads behind an operand is found.
 * GUARD is so much that an address says which region it is about, whatever the kernel maps beside it. */
enum { ALIGN = 16, EXTERN_ALIGN = 64, MARK = 0xa5, GUARD = 1 << 16 };

static size_t page_bytes(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}

/* The region that has all of these bytes: those that they overlap become one. */
static void add(struct stem_cpu_guard *g, unsigned char *from, uint64_t bytes, uint32_t operand, bool written)
{
    struct stem_cpu_region all = {.from = from, .bytes = bytes, .operand = operand, .written = written};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        struct stem_cpu_region *r = &g->region[i];
        if (r->from >= all.from + all.bytes || all.from >= r->from + r->bytes) {
            g->region[kept++] = *r;
            continue;
        }
        unsigned char *begin = r->from < all.from ? r->from : all.from;
        unsigned char *end = r->from + r->bytes > all.from + all.bytes ? r->from + r->bytes : all.from + all.bytes;
        all.from = begin;
        all.bytes = (uint64_t)(end - begin);
        all.operand = r->operand;
        all.written |= r->written;
    }
    g->region[kept] = all;
    g->n = kept + 1;
}

/* A copy is as aligned as what it is a copy of, up to `align`, and ends as near to the pages behind it as that lets it. */
static bool map_region(struct stem_cpu_region *r, size_t align)
{
    size_t page = page_bytes(), inner = (size_t)(r->bytes + 2 * align + page - 1) / page * page;
    size_t odd = (uintptr_t)r->from % align;
    size_t guard = page > GUARD ? page : GUARD;
    r->mapped = inner + 2 * guard;
    r->map = mmap(NULL, r->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->map == MAP_FAILED) {
        r->map = NULL;
        return false;
    }
    r->first = r->map + guard;
    r->last = r->first + inner;
    if (mprotect(r->first, inner, PROT_READ | PROT_WRITE))
        return false;
    r->at = r->first + ((inner - r->bytes - odd) / align * align + odd);
    memset(r->first, MARK, (size_t)(r->at - r->first));
    memset(r->at + r->bytes, MARK, (size_t)(r->last - r->at - r->bytes));
    if (r->from)
        memcpy(r->at, r->from, r->bytes);
    else
        memset(r->at, 0xff, r->bytes);
    return true;
}

static void unmap_all(struct stem_cpu_guard *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->region[i].map)
            munmap(g->region[i].map, g->region[i].mapped);
    if (g->shared.map)
        munmap(g->shared.map, g->shared.mapped);
    g->shared.map = NULL;
    g->n = 0;
}

bool stem_cpu_guard_new(struct stem_cpu_guard *g, const struct stem_plan_op *op, void *const *data, char **error)
{
    *g = (struct stem_cpu_guard){0};
    if (op->n_operands > STEM_MAX_OPERANDS)
        return stem_cpu_fail(error, "more than %d operands", STEM_MAX_OPERANDS);
    for (uint32_t i = 0; i < op->n_operands; i++) {
        uint64_t bytes = data[i] ? stem_tensor_extent(&op->operands[i].tensor) : 0;
        if (bytes)
            add(g, data[i], bytes, i, op->operands[i].access & STEM_WRITE);
    }
    g->shared = (struct stem_cpu_region){.bytes = op->smem, .operand = STEM_CPU_SHARED};
    bool room = map_region(&g->shared, STEM_CPU_SHARED_ALIGN);
    for (uint32_t i = 0; i < g->n && room; i++)
        room = map_region(&g->region[i], op->work == STEM_WORK_EXTERN ? EXTERN_ALIGN : ALIGN);
    if (!room) {
        unmap_all(g);
        return stem_cpu_fail(error, STEM_CPU_NO_MEMORY);
    }
    for (uint32_t i = 0; i < op->n_operands; i++)
        for (uint32_t k = 0; k < g->n; k++) {
            struct stem_cpu_region *r = &g->region[k];
            unsigned char *at = data[i];
            if (at && at >= r->from && at < r->from + r->bytes)
                g->data[i] = r->at + (at - r->from);
        }
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (!g->data[i])
            g->data[i] = data[i]; /* absent, or without elements */
    return true;
}

void stem_cpu_guard_tell(const struct stem_cpu_guard *g, struct stem_cpu_watch *w)
{
    for (uint32_t i = 0; w && i < g->n; i++)
        if (!g->region[i].written)
            (void)mprotect(g->region[i].first, (size_t)(g->region[i].last - g->region[i].first), PROT_READ);
    for (uint32_t i = 0; w && i <= g->n && i < STEM_CPU_WATCHED; i++) {
        const struct stem_cpu_region *r = i < g->n ? &g->region[i] : &g->shared;
        w->range[i].begin = (uintptr_t)r->at;
        w->range[i].end = (uintptr_t)r->at + r->bytes;
        w->range[i].operand = r->operand;
        w->n = i + 1;
    }
}

/* How far from the region the farthest byte is that was written: negative before it, positive behind it, 0: none. */
static int64_t spilt(const struct stem_cpu_region *r)
{
    for (const unsigned char *p = r->first; p < r->at; p++)
        if (*p != MARK)
            return p - r->at;
    for (const unsigned char *p = r->last; p > r->at + r->bytes; p--)
        if (p[-1] != MARK)
            return p - (r->at + r->bytes);
    return 0;
}

bool stem_cpu_guard_end(struct stem_cpu_guard *g, const struct stem_plan_op *op, char **error)
{
    int64_t over = spilt(&g->shared);
    bool fine = !over || stem_cpu_fail(error, "the kernel writes %lld bytes %s its dynamic shared memory, of which its smem gives it %u",
                                       (long long)(over < 0 ? -over : over), over < 0 ? "before" : "behind", op->smem);
    for (uint32_t i = 0; i < g->n; i++) {
        struct stem_cpu_region *r = &g->region[i];
        int64_t far = spilt(r);
        if (far && fine) {
            fine = false;
            stem_cpu_fail(error, "the %s writes %lld bytes %s operand %u of %u, which has %llu",
                          op->work == STEM_WORK_EXTERN ? "function" : "kernel", (long long)(far < 0 ? -far : far),
                          far < 0 ? "before" : "behind", r->operand + 1, op->n_operands, (unsigned long long)r->bytes);
        }
        if (r->written)
            memcpy(r->from, r->at, r->bytes);
    }
    unmap_all(g);
    return fine;
}
