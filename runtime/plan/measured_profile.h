/* SPDX-License-Identifier: Apache-2.0 */
/** Between the samples of whole exchanges and the profile that is made of them. */
#ifndef WRING_RUNTIME_MEASURED_PROFILE_H
#define WRING_RUNTIME_MEASURED_PROFILE_H

#include "planner/files/profile.h"
#include "runtime/session/session.h"

#define WRING_MEASURED_SIZES 8 /* 1 Ki, 4 Ki, ... 16 Mi elements */
#define WRING_MEASURED_BATCH 4 /* buckets posted at once */
#define WRING_MEASURED_ROUNDS 15
#define WRING_MEASURED_WAYS_MAX 33 /* none, and two schemes of each codec */

static inline uint64_t wring_measured_size(uint32_t i)
{
    return (uint64_t)1024 << 2 * i;
}

enum wring_measured_kind {
    WRING_MEASURED_SOLO,
    WRING_MEASURED_BUSY,
    WRING_MEASURED_CPU,
    WRING_MEASURED_KINDS
};

/** A codec in a scheme. */
struct wring_measured_way {
    char codec[WRING_CODEC_SPEC_MAX];
    enum wring_scheme scheme;
    uint32_t n; /* sizes */
    struct wring_bucket *buckets[WRING_MEASURED_SIZES][WRING_MEASURED_BATCH];
    uint32_t samples[WRING_MEASURED_SIZES];
    double us[WRING_MEASURED_KINDS][WRING_MEASURED_SIZES][WRING_MEASURED_ROUNDS];
    double wire_bytes[WRING_MEASURED_SIZES], codec_us[WRING_MEASURED_SIZES];
};

/** Fit a way's curves, those sizes that have samples, and put it into the profile in place of one
 *  of that name; its codec too. Sorts samples. Errors: WRING_ERR_NO_MEMORY, those of fitting. */
enum wring_status wring_measured_put(struct wring_measured_way *way, uint32_t ranks, uint32_t cores,
                                     struct wring_profile *profile);

/** What links take, as far as raw exchanges tell; and the hash. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_measured_links(struct wring_profile *profile);

#endif
