/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/copied.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static atomic_bool counting;
static atomic_ulong bytes_copied, large_bytes;

void copied_start(void)
{
    atomic_store(&bytes_copied, 0);
    atomic_store(&large_bytes, 0);
    atomic_store(&counting, true);
}

struct copied copied_stop(void)
{
    atomic_store(&counting, false);
    return (struct copied){atomic_load(&bytes_copied), atomic_load(&large_bytes)};
}

static void count(size_t n)
{
    if (!atomic_load_explicit(&counting, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&bytes_copied, n, memory_order_relaxed);
    if (n >= COPIED_LARGE)
        atomic_fetch_add_explicit(&large_bytes, n, memory_order_relaxed);
}

/** Forwards or backwards, byte by byte: a loop that is told apart from a copy by being volatile. */
static void *copy(void *to, const void *from, size_t n)
{
    volatile uint8_t *out = to;
    const volatile uint8_t *in = from;
    count(n);
    if ((uintptr_t)to <= (uintptr_t)from)
        for (size_t i = 0; i < n; i++)
            out[i] = in[i];
    else
        for (size_t i = n; i-- > 0;)
            out[i] = in[i];
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    return copy(to, from, n);
}

void *memmove(void *to, const void *from, size_t n)
{
    return copy(to, from, n);
}

void *mempcpy(void *restrict to, const void *restrict from, size_t n)
{
    return (uint8_t *)copy(to, from, n) + n;
}

/* what a hardened build calls instead; the room was checked when these were compiled, or is not */
void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room);
void *__memmove_chk(void *to, const void *from, size_t n, size_t room);

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room)
{
    (void)room;
    return copy(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t room)
{
    (void)room;
    return copy(to, from, n);
}
