/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/far.h"

void wring_far_fetch(const void *at, size_t bytes)
{
    const char *from = at;
    for (size_t i = 0; i < bytes; i += WRING_LINE)
        __builtin_prefetch(from + i);
}

void wring_far_read(const void *at, size_t bytes)
{
    const volatile char *from = at;
    for (size_t i = 0; i < bytes; i += WRING_LINE)
        (void)from[i];
}
