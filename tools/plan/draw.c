/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/draw.h"

#include <math.h>

/** splitmix64's mixing, which any key starts well (Steele and others, OOPSLA 2014). */
uint64_t wring_draw_key(uint64_t key, uint64_t thing)
{
    uint64_t z = (key ^ (thing * 0xd1342543de82ef95)) + 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/** Between 0 and 1, neither of them. */
static double draw_even(uint64_t key, uint64_t thing)
{
    return ((double)(wring_draw_key(key, thing) >> 11) + 0.5) * 0x1p-53;
}

/**
 * The x that a normal number exceeds with probability q, 0 < q ≤ 1/2. Newton's method on the
 * logarithm of that probability, which is concave: from a point beyond x, as the bound
 * Q(x) ≤ exp(−x²/2) / 2 gives one, it comes down to x without passing it.
 */
static double exceeded_with(double q)
{
    double x = sqrt(-2 * log(2 * q));

    for (int step_no = 0; step_no < 60; step_no++) {
        double beyond = erfc(x * M_SQRT1_2) / 2, density = exp(-x * x / 2) * M_2_SQRTPI * M_SQRT1_2;
        double step = log(beyond / q) * beyond / (density / 2);
        x += step;
        if (fabs(step) <= 1e-12 * (1 + x))
            break;
    }
    return x;
}

double wring_draw_largest(uint64_t n, double even)
{
    double each = log(even) / (double)n; /* of Phi(x) */
    double beyond = -expm1(each);

    return beyond <= 0.5 ? exceeded_with(beyond) : -exceeded_with(exp(each));
}

double wring_draw_slowest(uint64_t key, uint64_t n, double sigma, double straggler)
{
    if (sigma == 0)
        return straggler;
    double slowest = straggler * exp(sigma * wring_draw_largest(1, draw_even(key, 0)));
    if (n > 1)
        slowest = fmax(slowest, exp(sigma * wring_draw_largest(n - 1, draw_even(key, 1))));
    return slowest;
}
