/* SPDX-License-Identifier: Apache-2.0 */
/** Finds the codecs and bucket sizes that this job may use and its profile does not know. */
#ifndef WRING_RUNTIME_AUTOTUNE_PROFILE_GAPS_H
#define WRING_RUNTIME_AUTOTUNE_PROFILE_GAPS_H

#include "runtime/autotune/autotune.h"

struct wring_autotune_profile_gaps {
    struct wring_collective_bench_codecs codecs; /* of which it knows nothing */
    struct wring_collective_bench_codecs larger; /* of which it knows too small buckets only */
    uint32_t first; /* of their sizes: the largest that all of them know */
};

#endif
