/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Does a bucket's codec gain time here, or is it better left out? What was measured, and the rule.
 *
 * All members of a group hold the same measurements, so the same call gives the same answer on
 * each. Nothing here waits or allocates.
 */
#ifndef WRING_RUNTIME_BYPASS_H
#define WRING_RUNTIME_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

#define WRING_CURVE_POINTS 4

/** How long a step takes, by the size of its bucket. */
struct wring_curve {
    uint32_t n; /* points, rising in bytes; 0: nothing was measured */
    struct {
        uint64_t bytes, ns;
    } points[WRING_CURVE_POINTS];
};

/**
 * The time of a step of any size: between two points on the line through them, beyond the last on
 * that through the last two (never falling), below the first as long as that.
 * @param curve  with one point or more
 */
uint64_t wring_curve_at(const struct wring_curve *curve, uint64_t bytes);

/** What was decided, and by which figures. */
struct wring_choice {
    bool bypass;                  /* the bucket travels as it is */
    uint64_t with_ns, without_ns; /* of a step with the codec, and without; 0: not predicted */
};

/**
 * The codec runs where it is predicted to save 15 % of the time that the bucket takes without, and
 * 5 us: what is closer than that, another moment would measure the other way round.
 */
struct wring_choice wring_codec_bypass_rule(const struct wring_curve *with,
                                            const struct wring_curve *without, uint64_t bytes);

#endif
