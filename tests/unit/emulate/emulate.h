/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs device code on the CPU: the threads of a block (or of a cluster of blocks) are fibers, scheduled in random order,
 * that meet at barriers; warp-wide operations exchange values through slots. Asynchronous copies land at a random
 * moment between their issue and the wait that needs them. What is shown this way is the logic (indexing, barriers, the
 * order of sums), not the compiler or the hardware.
 */
#ifndef STEM_TESTS_EMULATE_H
#define STEM_TESTS_EMULATE_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include <csetjmp>
#include <ucontext.h>

/* ThreadSanitizer follows no jumps between stacks and crashes; there is one thread, in which it could find nothing. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
static const bool emu_skipped = [] {
    puts("skipped: the emulator's fibers do not run under the thread sanitizer");
    exit(77);
    return true;
}();
#endif

#define STEM_EMULATED 1
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)

struct emu_dim {
    unsigned x, y, z;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};

struct emu_copy {
    char *to;
    const void *from; /* NULL: zeros */
    int group;
};
struct emu_warp {
    int arrived = 0, generation = 0;
    uint64_t slot[32];
    unsigned a[32][4], b[32][2];
};
struct emu_barrier {
    int arrived = 0, generation = 0;
};
struct emu_phases { /* an mbarrier */
    int expected = 0, pending = 0, generation = 0;
    int floats = 0; /* that are still to come */
};
struct emu_block {
    std::vector<char> smem;
    std::vector<emu_warp> warps;
    emu_barrier barrier, warpgroup[4];
    std::map<unsigned, emu_phases> phases;
};
enum { EMU_STACK = 48 << 10 };
struct emu_thread {
    emu_dim thread, block;
    emu_block *owner;
    emu_warp *warp;
    bool done = false, started = false;
    const int *waits = nullptr; /* for this to differ from `seen` */
    int seen = 0;
    ucontext_t start;
    jmp_buf at;
    std::unique_ptr<char[]> stack; /* not cleared: that took a fifth of the time */
    std::vector<emu_copy> copies;
    int groups = 0;
    std::vector<std::function<void()>> products; /* of wgmma, in order, that have not happened yet */
};
struct emu_machine {
    emu_dim block_dim, grid_dim;
    std::vector<emu_block> blocks;
    std::vector<emu_thread> threads;
    emu_barrier cluster;
    jmp_buf scheduler;
    std::function<void()> body;
    uint64_t seed = 1;
    uint32_t random() { return (uint32_t)((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 33); }
};
inline emu_machine emu;
inline emu_thread *emu_self;

#define threadIdx (emu_self->thread)
#define blockIdx (emu_self->block)
#define blockDim (emu.block_dim)
#define gridDim (emu.grid_dim)

/* Switches by _setjmp and _longjmp: unlike swapcontext they make no system call. */
inline void emu_yield()
{
    if (!_setjmp(emu_self->at))
        _longjmp(emu.scheduler, 1);
}
inline void emu_meet(int &arrived, int &generation, int count)
{
    if (++arrived == count) {
        arrived = 0;
        generation++;
        return;
    }
    emu_self->waits = &generation;
    emu_self->seen = generation;
    emu_yield();
    emu_self->waits = nullptr;
}
inline void emu_run()
{
    emu.body();
    emu_self->done = true;
    emu_yield();
}
/* Runs the thread until it waits or ends. */
inline void emu_step()
{
    if (_setjmp(emu.scheduler))
        return;
    if (emu_self->started)
        _longjmp(emu_self->at, 1);
    emu_self->started = true;
    setcontext(&emu_self->start);
}

/* Runs grid x block threads; `cluster` consecutive blocks in x at a time. Shared memory starts with garbage (NaN). */
inline void emu_launch(emu_dim grid, unsigned threads, unsigned cluster, size_t smem, const std::function<void()> &body)
{
    emu.block_dim = {threads, 1, 1};
    emu.grid_dim = grid;
    emu.body = body;
    for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x += cluster) {
            emu.blocks.assign(cluster, emu_block());
            emu.threads.clear();
            emu.threads.resize(cluster * threads);
            for (unsigned c = 0; c < cluster; c++) {
                emu.blocks[c].smem.assign(smem + 16, (char)0xff);
                emu.blocks[c].warps.resize(threads / 32);
            }
            for (unsigned i = 0; i < cluster * threads; i++) {
                emu_thread &t = emu.threads[i];
                t.thread = {i % threads, 0, 0};
                t.block = {x + i / threads, y, 0};
                t.owner = &emu.blocks[i / threads];
                t.warp = &t.owner->warps[i % threads / 32];
                t.stack.reset(new char[EMU_STACK]);
                getcontext(&t.start);
                t.start.uc_stack.ss_sp = t.stack.get();
                t.start.uc_stack.ss_size = EMU_STACK;
                t.start.uc_link = nullptr;
                makecontext(&t.start, emu_run, 0);
            }
            size_t left = emu.threads.size(), at = 0, idle = 0;
            while (left) {
                at = emu.random() % 64 ? (at + 1) % emu.threads.size() : emu.random() % emu.threads.size();
                emu_self = &emu.threads[at];
                if (emu_self->done || (emu_self->waits && *emu_self->waits == emu_self->seen)) {
                    if (++idle > 1000 * emu.threads.size()) {
                        printf("FAIL: threads wait for each other\n");
                        exit(1);
                    }
                    continue;
                }
                idle = 0;
                emu_step();
                left -= emu_self->done;
            }
        }
}

/* ---- barriers, warp-wide operations, atomics ---- */

inline void __syncthreads()
{
    emu_meet(emu_self->owner->barrier.arrived, emu_self->owner->barrier.generation, (int)emu.block_dim.x);
}
inline void __syncwarp()
{
    emu_meet(emu_self->warp->arrived, emu_self->warp->generation, 32);
}
inline int emu_lane()
{
    return (int)(emu_self->thread.x & 31);
}
template <class T, class F> auto emu_exchange(T v, F use)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    emu_self->warp->slot[emu_lane()] = bits;
    __syncwarp();
    auto at = [&](int lane) {
        T u;
        memcpy(&u, &emu_self->warp->slot[lane & 31], sizeof u);
        return u;
    };
    auto result = use(at);
    __syncwarp();
    return result;
}
template <class T> T __shfl_sync(unsigned, T v, int lane)
{
    return emu_exchange(v, [&](auto at) { return at(lane); });
}
template <class T> T __shfl_xor_sync(unsigned, T v, int mask)
{
    return emu_exchange(v, [&](auto at) { return at(emu_lane() ^ mask); });
}
template <class T> T __shfl_up_sync(unsigned, T v, int delta)
{
    return emu_exchange(v, [&](auto at) { return emu_lane() >= delta ? at(emu_lane() - delta) : at(emu_lane()); });
}
inline unsigned __match_any_sync(unsigned, int v)
{
    return emu_exchange(v, [&](auto at) {
        unsigned mask = 0;
        for (int i = 0; i < 32; i++)
            mask |= (unsigned)(at(i) == v) << i;
        return mask;
    });
}
inline unsigned __ballot_sync(unsigned, int v)
{
    return emu_exchange(v, [&](auto at) {
        unsigned mask = 0;
        for (int i = 0; i < 32; i++)
            mask |= (unsigned)(at(i) != 0) << i;
        return mask;
    });
}
inline unsigned __reduce_max_sync(unsigned, unsigned v)
{
    return emu_exchange(v, [&](auto at) {
        unsigned m = at(0);
        for (int i = 1; i < 32; i++)
            m = at(i) > m ? at(i) : m;
        return m;
    });
}
inline unsigned __reduce_min_sync(unsigned, unsigned v)
{
    return emu_exchange(v, [&](auto at) {
        unsigned m = at(0);
        for (int i = 1; i < 32; i++)
            m = at(i) < m ? at(i) : m;
        return m;
    });
}
inline int __reduce_add_sync(unsigned, int v)
{
    return emu_exchange(v, [&](auto at) {
        int sum = 0;
        for (int i = 0; i < 32; i++)
            sum += at(i);
        return sum;
    });
}
inline int atomicAdd(int *p, int v)
{
    int old = *p;
    *p += v;
    return old;
}
inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
inline int __ffs(unsigned v)
{
    return __builtin_ffs((int)v);
}
inline int min(int a, int b)
{
    return a < b ? a : b;
}
inline int max(int a, int b)
{
    return a > b ? a : b;
}
inline int __float_as_int(float v)
{
    int i;
    memcpy(&i, &v, 4);
    return i;
}
inline unsigned __float_as_uint(float v)
{
    unsigned u;
    memcpy(&u, &v, 4);
    return u;
}
inline float __uint_as_float(unsigned u)
{
    float v;
    memcpy(&v, &u, 4);
    return v;
}
inline float __int_as_float(int i)
{
    return __uint_as_float((unsigned)i);
}
inline float __expf(float v)
{
    return expf(v);
}

/* The value of an e4m3 code. */
extern "C" float stem_e4m3_to_float(uint8_t bits);
inline float emu_e4m3(unsigned code)
{
    static const std::vector<float> values = [] {
        std::vector<float> v(256);
        for (int i = 0; i < 256; i++)
            v[i] = stem_e4m3_to_float((uint8_t)i);
        return v;
    }();
    return values[code & 255];
}

#include "element.h"

/* ---- the instructions of stream.cuh and linear.cuh ---- */

#define STEM_DYNAMIC_SHARED(name) char *name = emu_self->owner->smem.data()

inline unsigned stem_shared_address(const void *p)
{
    return (unsigned)((const char *)p - emu_self->owner->smem.data());
}
inline void emu_land(const emu_copy &c)
{
    if (c.from)
        memcpy(c.to, c.from, 16);
    else
        memset(c.to, 0, 16);
}
inline void stem_copy16(unsigned to, const void *from, bool valid)
{
    if (to + 16 > emu_self->owner->smem.size() - 16 || to % 16 || (valid && (uintptr_t)from % 16))
        abort();
    emu_copy c = {emu_self->owner->smem.data() + to, valid ? from : nullptr, emu_self->groups};
    if (emu.random() % 2)
        emu_land(c);
    else
        emu_self->copies.push_back(c);
}
inline void stem_copy16_once(unsigned to, const void *from, bool valid)
{
    stem_copy16(to, from, valid);
}
inline void stem_copy_commit()
{
    emu_self->groups++;
}
template <int PENDING> void stem_copy_wait()
{
    std::vector<emu_copy> later;
    for (const emu_copy &c : emu_self->copies) {
        if (c.group < emu_self->groups - PENDING)
            emu_land(c);
        else
            later.push_back(c);
    }
    emu_self->copies = later;
}
inline uint4 stem_shared16(unsigned from)
{
    uint4 v;
    if (from + 16 > emu_self->owner->smem.size() - 16 || from % 16)
        abort();
    memcpy(&v, emu_self->owner->smem.data() + from, 16);
    return v;
}

inline float emu_element(const __nv_bfloat16 *, unsigned word, int i)
{
    return __bfloat162float({(uint16_t)(word >> 16 * i)});
}
inline float emu_element(const __half *, unsigned word, int i)
{
    return __half2float({(uint16_t)(word >> 16 * i)});
}
/* mma.m16n8k16: lane 4g + t has A rows g, g + 8 and B column g at k = 2t, 2t + 1, 2t + 8, 2t + 9. */
template <class E>
void stem_mma(const E *e, float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1)
{
    emu_warp *w = emu_self->warp;
    int lane = emu_lane(), g = lane >> 2, t = lane & 3;
    const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    memcpy(w->a[lane], a, sizeof a);
    memcpy(w->b[lane], b, sizeof b);
    __syncwarp();
    for (int i = 0; i < 4; i++) {
        int column = 2 * t + (i & 1), high = i >> 1;
        for (int k = 0; k < 16; k++) {
            int owner = k % 8 / 2;
            c[i] += emu_element(e, w->a[4 * g + owner][high + 2 * (k / 8)], k & 1) *
                    emu_element(e, w->b[4 * column + owner][k / 8], k & 1);
        }
    }
    __syncwarp();
}

/* Eight products of norm_linear.cuh. */
template <class E> uint4 stem_times8(const E *, const uint4 &a, const uint4 &b)
{
    E u[8], v[8];
    memcpy(u, &a, sizeof u);
    memcpy(v, &b, sizeof v);
    for (int i = 0; i < 8; i++) {
        float product = emu_element((const E *)nullptr, u[i].bits, 0) * emu_element((const E *)nullptr, v[i].bits, 0);
        if constexpr (std::is_same_v<E, __half>)
            u[i] = __float2half_rn(product);
        else
            u[i] = __float2bfloat16_rn(product);
    }
    uint4 r;
    memcpy(&r, u, sizeof r);
    return r;
}

/* ldmatrix.x4.trans of attention.cuh: lane 8i + r gives the address of row r of matrix i. */
inline void stem_matrix_trans(unsigned (&r)[4], unsigned from)
{
    if (from + 16 > emu_self->owner->smem.size() - 16 || from % 16)
        abort();
    int lane = emu_lane(), g = lane >> 2, t = lane & 3;
    emu_exchange(from, [&](auto at) {
        for (int i = 0; i < 4; i++) {
            uint16_t two[2];
            for (int k = 0; k < 2; k++)
                memcpy(&two[k], emu_self->owner->smem.data() + at(8 * i + 2 * t + k) + 2 * g, 2);
            r[i] = two[0] | (unsigned)two[1] << 16;
        }
        return 0;
    });
}

/* ldmatrix.x4 of experts_down.cuh, addresses alike. */
inline void stem_matrix(unsigned (&r)[4], unsigned from)
{
    if (from + 16 > emu_self->owner->smem.size() - 16 || from % 16)
        abort();
    int lane = emu_lane(), g = lane >> 2, t = lane & 3;
    emu_exchange(from, [&](auto at) {
        for (int i = 0; i < 4; i++)
            memcpy(&r[i], emu_self->owner->smem.data() + at(8 * i + g) + 4 * t, 4);
        return 0;
    });
}

inline void stem_ask(const void *) {}

/* ---- mbarriers ---- */

inline void stem_barrier_init(unsigned barrier, int arrivals)
{
    if (barrier % 8 || barrier + 8 > emu_self->owner->smem.size() - 16)
        abort();
    emu_self->owner->phases[barrier] = {arrivals, arrivals, 0, 0};
}
inline void emu_phase(emu_phases &p)
{
    if (p.pending == 0 && p.floats == 0) {
        p.pending = p.expected;
        p.generation++;
    }
}
inline void stem_barrier_arrive(unsigned barrier)
{
    emu_phases &p = emu_self->owner->phases.at(barrier);
    p.pending--;
    emu_phase(p);
}
inline void stem_barrier_wait(unsigned barrier, int parity)
{
    emu_phases &p = emu_self->owner->phases.at(barrier);
    while ((p.generation & 1) == parity) {
        emu_self->waits = &p.generation;
        emu_self->seen = p.generation;
        emu_yield();
        emu_self->waits = nullptr;
    }
}
inline void stem_mailbox_init(unsigned barrier)
{
    stem_barrier_init(barrier, 1);
}
inline void stem_mailbox_expect(unsigned barrier, int floats)
{
    emu_phases &p = emu_self->owner->phases.at(barrier);
    p.floats += floats;
    p.pending--;
    emu_phase(p);
}
inline void stem_mailbox_send(const float *p, int rank, float v, unsigned barrier)
{
    emu_block &to = emu.blocks[rank];
    emu_phases &phase = to.phases.at(barrier);
    memcpy(to.smem.data() + stem_shared_address(p), &v, 4);
    phase.floats--;
    emu_phase(phase);
}
inline void stem_mailbox_send4(const float *p, int rank, const float (&v)[4], unsigned barrier)
{
    for (int i = 0; i < 4; i++)
        stem_shared_address(p) % 16 ? abort() : stem_mailbox_send(p + i, rank, v[i], barrier);
}

inline void stem_cluster_arrive() {}
inline void stem_cluster_wait()
{
    emu_meet(emu.cluster.arrived, emu.cluster.generation, (int)emu.threads.size());
}
inline void stem_cluster_sync()
{
    emu_meet(emu.cluster.arrived, emu.cluster.generation, (int)emu.threads.size());
}
inline float stem_cluster_load(const float *p, int rank)
{
    float v;
    memcpy(&v, emu.blocks[rank].smem.data() + stem_shared_address(p), 4);
    return v;
}

#endif
