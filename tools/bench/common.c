/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tools/bench/bench.h"

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct wring_spread wring_spread_of(double *times, size_t n)
{
    qsort(times, n, sizeof(*times), compare_doubles);
    size_t p99 = (n * 99 + 99) / 100; /* nearest rank, counted from 1 */
    double middle = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    return (struct wring_spread){times[0], middle, times[p99 - 1]};
}

uint64_t wring_bench_fit(double ns, double each_ns, uint64_t min, uint64_t max)
{
    double n = ns / (each_ns > 1 ? each_ns : 1);

    if (n <= (double)min)
        return min;
    return n < (double)max ? (uint64_t)n : max;
}

uint64_t wring_mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

float wring_pattern(uint32_t rank, uint64_t i)
{
    uint64_t bits = wring_mix_bits(i + 0x9E3779B97F4A7C15u * ((uint64_t)rank + 1));
    int32_t sum = 0;

    for (unsigned part = 0; part < 4; part++) /* four dice of 14 bits make a bell */
        sum += (int32_t)(bits >> (16 * part) & 0x3FFF);
    return (float)(sum - 2 * 0x3FFF) * 0x1p-15f;
}

void wring_pattern_fill(float *data, uint64_t elems, uint32_t rank)
{
    for (uint64_t i = 0; i < elems; i++)
        data[i] = wring_pattern(rank, i);
}
