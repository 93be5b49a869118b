/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/wrapped.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define DAY_S (24 * 3600)
#define JUMP_NS 3000000u

static atomic_uint left; /* allocations up to the one that fails; 0: none does */
static atomic_uint jumps;

void wrapped_fail_allocation(uint32_t n)
{
    atomic_store(&left, n);
}

void wrapped_let_clock_jump(uint32_t seed)
{
    atomic_store(&jumps, seed | 1);
}

static bool fails(void)
{
    unsigned n = atomic_load_explicit(&left, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak(&left, &n, n - 1))
            return n == 1;
    return false;
}

/* The linker calls these __wrap_, and libc's own __real_ (--wrap). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_clock_gettime(clockid_t clock, struct timespec *time);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return fails() ? NULL : __real_aligned_alloc(align, bytes);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = __real_clock_gettime(clock, time);
    unsigned seed = atomic_load_explicit(&jumps, memory_order_relaxed);

    if (seed != 0 && result == 0 && clock == CLOCK_REALTIME) {
        uint32_t now =
            (uint32_t)((uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec) / JUMP_NS;
        uint32_t mixed = (now ^ seed) * 2654435761u;
        time->tv_sec += (time_t)(mixed >> 8) % (2 * DAY_S) - DAY_S;
    }
    return result;
}
