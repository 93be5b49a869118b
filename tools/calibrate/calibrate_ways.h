/* SPDX-License-Identifier: Apache-2.0 */
/** Between the samples of whole exchanges and what is made of them. */
#ifndef WRING_TOOLS_CALIBRATE_WAYS_H
#define WRING_TOOLS_CALIBRATE_WAYS_H

#include "tools/calibrate/calibrate.h"

#define WRING_WAYS_MAX (2 * WRING_CALIBRATE_CODECS_MAX)
#define WRING_WAY_SAMPLES_MAX 640
#define WRING_WAY_BATCH_MAX 16 /* buckets posted at once */

enum wring_way_kind {
    WRING_WAY_SOLO,
    WRING_WAY_BUSY,
    WRING_WAY_CPU,
    WRING_WAY_KINDS
};

/** A codec in a scheme. */
struct wring_way_bench {
    const char *codec;
    enum wring_scheme scheme;
    uint32_t n; /* sizes */
    struct wring_bucket *buckets[WRING_CALIBRATE_SIZES][WRING_WAY_BATCH_MAX];
    enum wring_scheme auto_is[WRING_CALIBRATE_SIZES]; /* what "auto" would be */
    uint32_t samples[WRING_CALIBRATE_SIZES];
    double us[WRING_WAY_KINDS][WRING_CALIBRATE_SIZES][WRING_WAY_SAMPLES_MAX];
    double took_us[WRING_CALIBRATE_SIZES]; /* a sample of all kinds, the first time */
    double wire_bytes[WRING_CALIBRATE_SIZES];
    bool again[WRING_CALIBRATE_SIZES]; /* noisy */
};

/** All of them. */
struct wring_ways_bench {
    struct wring_calibration *job;
    uint32_t n, sizes;
    struct wring_way_bench ways[WRING_WAYS_MAX];
    struct wring_bucket *auto_of[WRING_CALIBRATE_CODECS_MAX][WRING_CALIBRATE_SIZES];
    float *source; /* of the largest size */
    float *data;   /* of all buckets: those of a size begin here, one after another */
    uint64_t *cold;
    double round_us, limit_us; /* what a round takes, and may take */
    uint64_t deadline_ns;
};

/** How many sizes in all, and of how many the median is in doubt. Sorts samples. */
struct wring_calibrate_noise wring_ways_noise(struct wring_ways_bench *bench);

/** Into the profile: each way, and "auto". Sorts samples. */
enum wring_status wring_ways_fit(struct wring_ways_bench *bench, struct wring_profile *profile);

#endif
