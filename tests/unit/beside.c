/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/beside.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"

#define TURNS 15
#define WARM_UP 2

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void beside_time(void (*const calls[2])(void *arg), void *arg, double ns[2])
{
    uint64_t took[2][TURNS];

    for (int turn = -WARM_UP; turn < TURNS; turn++)
        for (int which = 0; which < 2; which++) {
            uint64_t began = wring_thread_cpu_ns();
            calls[which](arg);
            if (turn >= 0)
                took[which][turn] = wring_thread_cpu_ns() - began;
        }
    for (int which = 0; which < 2; which++) {
        qsort(took[which], TURNS, sizeof(took[0][0]), by_size);
        ns[which] = (double)took[which][TURNS / 2];
    }
}
