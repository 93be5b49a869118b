/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/bypass.h"

#include <stddef.h>

#define GAIN_MIN 0.15    /* of the time without */
#define GAIN_MIN_NS 5000 /* and no less than this: about what it takes to wake a thread */

/** On the line through two points. */
static double between(const struct wring_curve *curve, uint32_t a, uint32_t b, uint64_t bytes)
{
    double from = (double)curve->points[a].bytes, to = (double)curve->points[b].bytes;
    double low = (double)curve->points[a].ns, high = (double)curve->points[b].ns;
    return low + (high - low) * ((double)bytes - from) / (to - from);
}

uint64_t wring_curve_at(const struct wring_curve *curve, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < curve->n && curve->points[i].bytes < bytes)
        i++;
    if (i == 0)
        return curve->points[0].ns;
    if (i < curve->n)
        return (uint64_t)between(curve, i - 1, i, bytes);
    uint64_t last = curve->points[i - 1].ns;
    double more = i > 1 ? between(curve, i - 2, i - 1, bytes)
                        : (double)last * ((double)bytes / (double)curve->points[0].bytes);
    return more > (double)last ? (uint64_t)more : last;
}

struct wring_choice wring_bypass_choose(const struct wring_curve *with,
                                        const struct wring_curve *without, uint64_t bytes)
{
    struct wring_choice choice = {
        .with_ns = wring_curve_at(with, bytes),
        .without_ns = wring_curve_at(without, bytes),
    };
    double most = (1 - GAIN_MIN) * (double)choice.without_ns;
    choice.bypass =
        (double)choice.with_ns > most || choice.with_ns + GAIN_MIN_NS > choice.without_ns;
    return choice;
}
