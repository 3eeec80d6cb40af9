/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA C on the host, as much of it as inline kernels use: built-in variables, barriers and warp exchanges, shared
 * memory, atomics, vector types, half-precision types, math. Goes in front of one kernel's text; the whole is
 * compiled to a shared object whose entry point is stem_entry. A block's threads are coroutines that switch at
 * barriers, one block at a time, so nothing here is ever concurrent.
 */
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static const
#define __align__(n) alignas(n)
#define __CUDA_ARCH__ 900
#define STEM_PDL 0
#define INFINITY_F (__builtin_inff())

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

/* ---- the threads of a block ---- */

enum stem_state { STEM_READY, STEM_AT_WARP, STEM_AT_BLOCK, STEM_DONE };
struct stem_thread {
    ucontext_t context;
    stem_state state;
    dim3 index;
    char *stack;
};
static const size_t stem_stack_bytes = 128 * 1024;
static ucontext_t stem_scheduler;
static stem_thread *stem_threads;
static unsigned stem_n_threads, stem_self;
static void (*stem_body)();
static char *stem_dynamic_shared;
static char stem_slot[1024][16]; /* what each thread passes to its warp */

static void stem_pause(stem_state state)
{
    stem_threads[stem_self].state = state;
    unsigned self = stem_self;
    swapcontext(&stem_threads[self].context, &stem_scheduler);
}

static void stem_start()
{
    stem_body();
    stem_threads[stem_self].state = STEM_DONE;
}

static void stem_resume(unsigned t)
{
    stem_self = t;
    threadIdx = stem_threads[t].index;
    stem_threads[t].state = STEM_READY;
    swapcontext(&stem_scheduler, &stem_threads[t].context);
}

/* Runs a warp until each of its threads is done or at a barrier of the block. False if some of them wait for the
 * warp while others wait for the block: on a GPU that would hang. */
static bool stem_run_warp(unsigned first, unsigned end)
{
    for (;;) {
        unsigned at_warp = 0, at_block = 0;
        for (unsigned t = first; t < end; t++)
            if (stem_threads[t].state == STEM_READY)
                stem_resume(t);
        for (unsigned t = first; t < end; t++) {
            at_warp += stem_threads[t].state == STEM_AT_WARP;
            at_block += stem_threads[t].state == STEM_AT_BLOCK;
        }
        if (!at_warp)
            return true;
        if (at_block)
            return false;
        for (unsigned t = first; t < end; t++)
            if (stem_threads[t].state == STEM_AT_WARP)
                stem_threads[t].state = STEM_READY;
    }
}

static bool stem_run_block()
{
    for (unsigned t = 0; t < stem_n_threads; t++) {
        stem_thread *s = &stem_threads[t];
        getcontext(&s->context);
        s->context.uc_stack.ss_sp = s->stack;
        s->context.uc_stack.ss_size = stem_stack_bytes;
        s->context.uc_link = &stem_scheduler;
        s->state = STEM_READY;
        s->index = dim3{t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
        makecontext(&s->context, stem_start, 0);
    }
    for (bool live = true; live;) {
        live = false;
        for (unsigned w = 0; w < stem_n_threads; w += 32)
            if (!stem_run_warp(w, w + 32 < stem_n_threads ? w + 32 : stem_n_threads))
                return false;
        for (unsigned t = 0; t < stem_n_threads; t++)
            if (stem_threads[t].state == STEM_AT_BLOCK) {
                stem_threads[t].state = STEM_READY;
                live = true;
            }
    }
    return true;
}

/* ---- barriers and exchanges within a warp ---- */

static inline void __syncthreads() { stem_pause(STEM_AT_BLOCK); }
static inline void __syncwarp(unsigned = ~0u) { stem_pause(STEM_AT_WARP); }
static inline unsigned __activemask() { return ~0u; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void stem_wait() {}
static inline void stem_launch_dependents() {}
static inline void cudaGridDependencySynchronize() {}
static inline void cudaTriggerProgrammaticLaunchCompletion() {}

template <typename T> static T stem_exchange(T value, unsigned lane, bool valid)
{
    static_assert(sizeof(T) <= 16, "too large for a warp exchange");
    unsigned self = stem_self;
    memcpy(stem_slot[self], &value, sizeof value);
    stem_pause(STEM_AT_WARP);
    T other = value;
    unsigned from = (self & ~31u) + (lane & 31u);
    if (valid && from < stem_n_threads)
        memcpy(&other, stem_slot[from], sizeof other);
    stem_pause(STEM_AT_WARP);
    return other;
}

template <typename T> static T __shfl_sync(unsigned, T v, int lane, int width = 32)
{
    unsigned self = stem_self & 31u, base = self & ~(unsigned)(width - 1);
    return stem_exchange(v, base + ((unsigned)lane & (unsigned)(width - 1)), true);
}
template <typename T> static T __shfl_xor_sync(unsigned, T v, int mask, int width = 32)
{
    unsigned self = stem_self & 31u, lane = self ^ (unsigned)mask;
    return stem_exchange(v, lane, lane < (self & ~(unsigned)(width - 1)) + (unsigned)width);
}
template <typename T> static T __shfl_down_sync(unsigned, T v, unsigned delta, int width = 32)
{
    unsigned self = stem_self & 31u;
    return stem_exchange(v, self + delta, (self & (unsigned)(width - 1)) + delta < (unsigned)width);
}
template <typename T> static T __shfl_up_sync(unsigned, T v, unsigned delta, int width = 32)
{
    unsigned self = stem_self & 31u;
    return stem_exchange(v, self - delta, (self & (unsigned)(width - 1)) >= delta);
}
static unsigned __ballot_sync(unsigned, int predicate)
{
    unsigned self = stem_self, votes = 0;
    stem_slot[self][0] = predicate != 0;
    stem_pause(STEM_AT_WARP);
    for (unsigned lane = 0; lane < 32 && (self & ~31u) + lane < stem_n_threads; lane++)
        votes |= (unsigned)stem_slot[(self & ~31u) + lane][0] << lane;
    stem_pause(STEM_AT_WARP);
    return votes;
}
static inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
static inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
static inline int __syncthreads_count(int predicate)
{
    unsigned self = stem_self;
    int n = 0;
    stem_slot[self][0] = predicate != 0;
    __syncthreads();
    for (unsigned t = 0; t < stem_n_threads; t++)
        n += stem_slot[t][0];
    __syncthreads();
    return n;
}
static inline int __syncthreads_or(int p) { return __syncthreads_count(p) != 0; }
static inline int __syncthreads_and(int p) { return __syncthreads_count(!p) == 0; }

/* ---- atomics: nothing is concurrent ---- */

template <typename T, typename U> static T atomicAdd(T *p, U v) { T old = *p; *p = (T)(old + (T)v); return old; }
template <typename T, typename U> static T atomicSub(T *p, U v) { T old = *p; *p = (T)(old - (T)v); return old; }
template <typename T, typename U> static T atomicMax(T *p, U v) { T old = *p; if (old < (T)v) *p = (T)v; return old; }
template <typename T, typename U> static T atomicMin(T *p, U v) { T old = *p; if ((T)v < old) *p = (T)v; return old; }
template <typename T, typename U> static T atomicOr(T *p, U v) { T old = *p; *p = (T)(old | (T)v); return old; }
template <typename T, typename U> static T atomicAnd(T *p, U v) { T old = *p; *p = (T)(old & (T)v); return old; }
template <typename T, typename U> static T atomicExch(T *p, U v) { T old = *p; *p = (T)v; return old; }
template <typename T, typename U, typename V> static T atomicCAS(T *p, U expected, V v)
{
    T old = *p;
    if (old == (T)expected)
        *p = (T)v;
    return old;
}

/* ---- half-precision types: kept as bits, computed in float, rounded to nearest even ---- */

static inline uint32_t stem_bits(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }
static inline float stem_from_bits(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x)
    {
        uint32_t b = stem_bits(x);
        bits = x != x ? 0x7fff : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
    }
    operator float() const { return stem_from_bits((uint32_t)bits << 16); }
};

struct __half {
    uint16_t bits;
    __half() = default;
    __half(float x)
    {
        uint32_t b = stem_bits(x), sign = b >> 16 & 0x8000;
        float a = std::fabs(x);
        if (x != x)
            bits = 0x7fff;
        else if (a >= 65520.0f)
            bits = (uint16_t)(sign | 0x7c00);
        else if (a < 6.103515625e-05f) /* subnormal: a multiple of 2^-24 */
            bits = (uint16_t)(sign | (uint32_t)std::nearbyint(a * 16777216.0f));
        else
            bits = (uint16_t)(sign | ((((b & 0x7fffffff) + 0xfff + (b >> 13 & 1)) >> 13) - (112 << 10)));
    }
    operator float() const
    {
        uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        float a = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? std::ldexp((float)(fraction + 1024), (int)exponent - 25)
                                 : std::ldexp((float)fraction, -24);
        return bits & 0x8000 ? -a : a;
    }
};

struct __nv_fp8_e4m3 {
    uint8_t bits;
    __nv_fp8_e4m3() = default;
    explicit __nv_fp8_e4m3(float x)
    {
        float a = std::fabs(x);
        int e = 0;
        std::frexp(a, &e);
        e = e - 1 < -6 ? -6 : e - 1;
        uint32_t n = x != x ? 0x7f : a >= 448.0f ? 0x7e : (uint32_t)std::nearbyint(std::ldexp(a, 3 - e));
        if (x == x && a < 448.0f)
            n = n < 8 ? n : (uint32_t)((e + 7) << 3) + (n - 8);
        bits = (uint8_t)(n > 0x7e && x == x ? 0x7e : n);
        bits |= (uint8_t)(stem_bits(x) >> 24 & 0x80);
    }
    operator float() const
    {
        int exponent = bits >> 3 & 15, fraction = bits & 7;
        float a = (bits & 0x7f) == 0x7f ? NAN
                  : exponent            ? std::ldexp((float)(8 + fraction), exponent - 10)
                                        : std::ldexp((float)fraction, -9);
        return bits & 0x80 ? -a : a;
    }
};

#define STEM_HALF_OPS(T)                                                                     \
    static inline T operator+(T a, T b) { return T((float)a + (float)b); }                   \
    static inline T operator-(T a, T b) { return T((float)a - (float)b); }                   \
    static inline T operator*(T a, T b) { return T((float)a * (float)b); }                   \
    static inline T operator/(T a, T b) { return T((float)a / (float)b); }                   \
    static inline T operator-(T a) { return T(-(float)a); }                                  \
    static inline T &operator+=(T &a, T b) { return a = a + b; }                             \
    static inline T &operator-=(T &a, T b) { return a = a - b; }                             \
    static inline T &operator*=(T &a, T b) { return a = a * b; }                             \
    static inline T __hadd(T a, T b) { return a + b; }                                       \
    static inline T __hsub(T a, T b) { return a - b; }                                       \
    static inline T __hmul(T a, T b) { return a * b; }                                       \
    static inline T __hfma(T a, T b, T c) { return T(std::fma((float)a, (float)b, (float)c)); } \
    static inline T __hmax(T a, T b) { return (float)a < (float)b ? b : a; }                 \
    static inline T __hmin(T a, T b) { return (float)b < (float)a ? b : a; }
STEM_HALF_OPS(__nv_bfloat16)
STEM_HALF_OPS(__half)
typedef __nv_bfloat16 nv_bfloat16;
typedef __half half;

static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline float __half2float(__half x) { return x; }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }

template <typename T> static inline float stem_float(T x) { return (float)x; }
template <typename T> struct stem_round {
    static T from(float x)
    {
        if (x != x)
            return 0;
        double low = T(-1) < T(0) ? -std::ldexp(1.0, 8 * (int)sizeof(T) - 1) : 0.0;
        double high = std::ldexp(1.0, 8 * (int)sizeof(T) - (T(-1) < T(0) ? 1 : 0)), r = std::nearbyint((double)x);
        return r <= low ? (T)low : r >= high ? (T)(T(-1) < T(0) ? ~((T)1 << (8 * sizeof(T) - 1)) : T(-1)) : (T)r;
    }
};
template <> struct stem_round<float> {
    static float from(float x) { return x; }
};
template <> struct stem_round<__nv_bfloat16> {
    static __nv_bfloat16 from(float x) { return __nv_bfloat16(x); }
};
template <> struct stem_round<__half> {
    static __half from(float x) { return __half(x); }
};
template <> struct stem_round<__nv_fp8_e4m3> {
    static __nv_fp8_e4m3 from(float x) { return __nv_fp8_e4m3(x); }
};

/* ---- vector types ---- */

#define STEM_VECTORS(T, name)                                                                             \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                    \
    struct name##3 { T x, y, z; };                                                                        \
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };                    \
    static inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                              \
    static inline name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                      \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
STEM_VECTORS(float, float)
STEM_VECTORS(int, int)
STEM_VECTORS(unsigned, uint)
STEM_VECTORS(double, double)
STEM_VECTORS(unsigned char, uchar)
STEM_VECTORS(short, short)
STEM_VECTORS(unsigned short, ushort)
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
struct alignas(4) __half2 { __half x, y; };
typedef __nv_bfloat162 nv_bfloat162;
typedef __half2 half2;
static inline float2 __bfloat1622float2(__nv_bfloat162 v) { return float2{v.x, v.y}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return __nv_bfloat162{x, y}; }
static inline float2 __half22float2(__half2 v) { return float2{v.x, v.y}; }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2{x, y}; }

/* ---- math ---- */

using std::fma;
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
/* the C library has functions of these names */
#define __expf stem_fast__expf
#define __logf stem_fast__logf
#define __log2f stem_fast__log2f
#define __powf stem_fast__powf
#define __sinf stem_fast__sinf
#define __cosf stem_fast__cosf
static inline float stem_fast__expf(float x) { return std::exp(x); }
static inline float stem_fast__logf(float x) { return std::log(x); }
static inline float stem_fast__log2f(float x) { return std::log2(x); }
static inline float stem_fast__powf(float x, float y) { return std::pow(x, y); }
static inline float stem_fast__sinf(float x) { return std::sin(x); }
static inline float stem_fast__cosf(float x) { return std::cos(x); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return std::sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

/* To integers, as cvt has it: what is beyond the range is its limit; NaN is 0 but from f64 or to 64 bits, where it is the highest bit. (A cast
 * does so on a GPU, too, and here it does not.) */
template <typename I, typename F> static inline I stem_whole(F x)
{
    const I top = (I)((I)1 << (8 * sizeof(I) - 1)), least = I(-1) < I(0) ? top : I(0), most = (I)~least;
    const F end = std::ldexp(F(1), 8 * (int)sizeof(I) - (I(-1) < I(0) ? 1 : 0)); /* the first that is too large */
    if (x != x)
        return sizeof(F) == 4 && sizeof(I) <= 4 ? I(0) : top;
    return x >= end ? most : x <= (F)least ? least : (I)x;
}
#define STEM_TO_WHOLE(I, F, name)                                                            \
    static inline I __##name##_rn(F x) { return stem_whole<I>(std::nearbyint(x)); }          \
    static inline I __##name##_rz(F x) { return stem_whole<I>(std::trunc(x)); }              \
    static inline I __##name##_ru(F x) { return stem_whole<I>(std::ceil(x)); }               \
    static inline I __##name##_rd(F x) { return stem_whole<I>(std::floor(x)); }
STEM_TO_WHOLE(int, float, float2int)
STEM_TO_WHOLE(unsigned, float, float2uint)
STEM_TO_WHOLE(long long, float, float2ll)
STEM_TO_WHOLE(unsigned long long, float, float2ull)
STEM_TO_WHOLE(int, double, double2int)
STEM_TO_WHOLE(unsigned, double, double2uint)
STEM_TO_WHOLE(long long, double, double2ll)
STEM_TO_WHOLE(unsigned long long, double, double2ull)
STEM_TO_WHOLE(short, float, half2short)
STEM_TO_WHOLE(unsigned short, float, half2ushort)
STEM_TO_WHOLE(int, float, half2int)
STEM_TO_WHOLE(unsigned, float, half2uint)
STEM_TO_WHOLE(long long, float, half2ll)
STEM_TO_WHOLE(unsigned long long, float, half2ull)
STEM_TO_WHOLE(short, float, bfloat162short)
STEM_TO_WHOLE(unsigned short, float, bfloat162ushort)
STEM_TO_WHOLE(int, float, bfloat162int)
STEM_TO_WHOLE(unsigned, float, bfloat162uint)
STEM_TO_WHOLE(long long, float, bfloat162ll)
STEM_TO_WHOLE(unsigned long long, float, bfloat162ull)
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline double __ull2double_rn(unsigned long long x) { return (double)x; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline unsigned __float_as_uint(float x) { return stem_bits(x); }
static inline int __float_as_int(float x) { return (int)stem_bits(x); }
static inline float __uint_as_float(unsigned x) { return stem_from_bits(x); }
static inline float __int_as_float(int x) { return stem_from_bits((uint32_t)x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
template <typename T> static inline T __ldg(const T *p) { return *p; }
template <typename A, typename B> static inline auto max(A a, B b) -> decltype(a + b)
{
    return a < b ? (decltype(a + b))b : (decltype(a + b))a;
}
template <typename A, typename B> static inline auto min(A a, B b) -> decltype(a + b)
{
    return b < a ? (decltype(a + b))b : (decltype(a + b))a;
}

/* ---- the launch ---- */

struct stem_launch {
    unsigned grid[3], block[3];
    char *shared;
};
template <size_t... I> struct stem_indices {};
template <size_t N, size_t... I> struct stem_make : stem_make<N - 1, N - 1, I...> {};
template <size_t... I> struct stem_make<0, I...> {
    typedef stem_indices<I...> type;
};
template <typename T> struct stem_plain {
    typedef T type;
};
template <typename T> struct stem_plain<const T> {
    typedef T type;
};

static void *const *stem_args;
template <typename... A, size_t... I> static void stem_call_with(void (*f)(A...), stem_indices<I...>)
{
    f(*(typename stem_plain<A>::type *)stem_args[I]...);
}
template <typename... A> static unsigned stem_arity(void (*)(A...)) { return sizeof...(A); }
template <typename... A> static void stem_call(void (*f)(A...))
{
    stem_call_with(f, typename stem_make<sizeof...(A)>::type());
}

/* Runs every block with one coroutine for each thread if the kernel synchronises, else with a plain loop. NULL, or
 * what went wrong. */
static const char *stem_run_grid(const stem_launch *l, void *const *args, void (*body)(), bool synchronises)
{
    const char *wrong = nullptr;
    gridDim = dim3{l->grid[0], l->grid[1], l->grid[2]};
    blockDim = dim3{l->block[0], l->block[1], l->block[2]};
    stem_n_threads = blockDim.x * blockDim.y * blockDim.z;
    stem_args = args;
    stem_body = body;
    stem_dynamic_shared = l->shared;
    stem_threads = (stem_thread *)calloc(stem_n_threads, sizeof *stem_threads);
    char *stacks = synchronises ? (char *)malloc(stem_n_threads * stem_stack_bytes) : nullptr;
    if (!stem_threads || (synchronises && !stacks))
        wrong = "out of memory";
    for (unsigned t = 0; !wrong && synchronises && t < stem_n_threads; t++)
        stem_threads[t].stack = stacks + t * stem_stack_bytes;
    for (unsigned z = 0; z < gridDim.z && !wrong; z++)
        for (unsigned y = 0; y < gridDim.y && !wrong; y++)
            for (unsigned x = 0; x < gridDim.x && !wrong; x++) {
                blockIdx = dim3{x, y, z};
                if (synchronises && !stem_run_block())
                    wrong = "threads of one warp wait at different barriers";
                for (unsigned t = 0; !synchronises && t < stem_n_threads; t++) {
                    threadIdx = dim3{t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
                    stem_self = t;
                    body();
                }
            }
    free(stacks);
    free(stem_threads);
    return wrong;
}
