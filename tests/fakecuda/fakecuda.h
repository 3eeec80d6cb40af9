/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver: a shared object that is loaded in place of libcuda.so.1 (and of libnvrtc: it exports both), so
 * that the runtime and the host code that the compiler emits are tested without a GPU. It keeps asynchronous work as
 * a graph of dependencies and executes it as late as it may, in an order as far from the issue order as streams,
 * events and graph edges allow. It follows the driver's rules of stream capture, counts every object, poisons freed
 * memory, and makes the n-th call fail on request.
 *
 * This header is what tests use to look inside. All functions may be called from any thread; the state is one for
 * the process, as a driver's is. Where the driver's documentation leaves a rule open the stand-in is the stricter;
 * docs/testing.md lists those places.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Live objects. Special streams (legacy, per-thread) and the primary context's own bookkeeping are not counted. */
struct fakecuda_counts { /* without padding: tests compare its bytes */
    uint64_t bytes;
    uint32_t contexts; /* retained primary contexts */
    uint32_t context_references;
    uint32_t streams, events, modules, graphs, nodes, execs, pools;
    uint32_t captures;    /* begun, not ended */
    uint32_t allocations; /* device memory, whether its allocation or free has executed yet or not */
    uint32_t host_allocations;
    uint32_t pending; /* operations issued, not executed */
    uint32_t faults;  /* what fakecuda_faults() lists */
    uint64_t cublaslt; /* its handles and descriptors */
};

enum fakecuda_order {
    FAKECUDA_ISSUE,  /* as issued */
    FAKECUDA_RANDOM, /* a random legal order, from the seed; the default */
    FAKECUDA_LAST,   /* always the operation issued last that is free to go, and only what must be done */
};

/* Forgets everything: objects, memory, kernels, runner, trace, counters. Handles and pointers become invalid. */
void fakecuda_reset(void);
struct fakecuda_counts fakecuda_counts(void);
/* One line for each live object, for messages of failing tests; valid until the next call on this thread. */
const char *fakecuda_live(void);

/* The n-th driver call from now (1 is the next) fails with `error`, once; n = 0 disarms. Only calls that can fail
 * count. A failing call has no effect, except that calls which release something (destroy, free, unload, release,
 * pop, end of a capture) do release it, and calls that wait do wait, as the driver does when such a call reports an
 * earlier error. */
void fakecuda_fail_call(uint64_t n, int error);
/* Between true and false calls are the test's own: not counted, and not made to fail. Calls nest. */
void fakecuda_own(bool on);
/* True if the armed failure has happened. */
bool fakecuda_failed(void);
/* Name of the call that was made to fail; "" if none. */
const char *fakecuda_failed_call(void);
/* Calls since the reset that can fail. */
uint64_t fakecuda_calls(void);
/* Every call since the reset or the last clear, one a line, "cuStreamWaitEvent stream#1 event#2 = 0"; objects are
 * numbered in order of creation. Valid until the next driver call. */
const char *fakecuda_trace(void);
void fakecuda_trace_clear(void);
/* What was done wrong that the driver would not have reported, or not clearly: use after free, out of bounds, handles
 * used after their destruction, a guard zone overwritten. One a line. */
const char *fakecuda_faults(void);

void fakecuda_seed(uint64_t seed); /* FAKECUDA_RANDOM with this seed */
void fakecuda_set_order(enum fakecuda_order order);
/* Device memory, in bytes; default 1 GiB. */
void fakecuda_set_memory(uint64_t bytes);
/* What cuDriverGetVersion says; default 13000. */
void fakecuda_set_driver_version(int version);
/* Architecture of the device (90). Below 90 it refuses programmatic launches and edges. */
void fakecuda_set_arch(int sm);
/* The GPU that device memory is said to be on; default 0. */
void fakecuda_set_pointer_device(int ordinal);
/* A new stream gets the handle of the one destroyed last, but a number of its own, as the driver may do. */
void fakecuda_reuse_streams(bool on);
/* The algorithms that the stand-in's cuBLASLt offers, one a character, best first: a digit is a chain of so many kernels, 'm'
 * a memset and a kernel, 'x' one that fails when called, '0' one that is not for the product; "": none. Default "21". */
void fakecuda_cublaslt(const char *list);
/* Executes a kernel; called with the driver's lock held, so it must not call the driver. `params` points to copies
 * made at the launch. */
typedef void fakecuda_runner(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
                             uint32_t smem, void *const *params, uint32_t n_params);
void fakecuda_set_runner(fakecuda_runner *run, void *user);
/* Parameter layout of a kernel. Without it cuModuleGetFunction does not find the kernel. */
void fakecuda_define_kernel(const char *name, uint32_t n_params, const size_t *sizes);
/* The kernel's code executes griddepcontrol.wait before its first dependent access. If not (the default), a
 * programmatic edge into it orders nothing but the starts. */
void fakecuda_kernel_waits(const char *name, bool waits);
/* For runners: checks that memory is allocated device memory at this point of the execution; a fault if not. Memory
 * that the stand-in never handed out passes when `foreign` is set. */
bool fakecuda_touch(const void *address, size_t bytes, bool foreign, const char *who);
/* Reports a fault, printf-style. */
void fakecuda_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Executes everything that was issued, in the chosen order, without counting as a driver call. */
void fakecuda_finish(void);

#pragma GCC visibility pop

#endif
