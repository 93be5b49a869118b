/* SPDX-License-Identifier: Apache-2.0 */
/** Ways to run a codec's jobs on this machine: by cores, and by kernels. */
#ifndef WRING_TOOLS_CALIBRATE_VARIANTS_H
#define WRING_TOOLS_CALIBRATE_VARIANTS_H

#include "planner/files/profile.h"

struct wring_coder_variant {
    uint32_t cores; /* 0: inline */
    const char *tier;
};

/** The best kernels inline and on 1, 2, 4, … cores, then the others inline. @return how many */
uint32_t wring_coder_variants(const char *spec,
                              struct wring_coder_variant out[WRING_PROFILE_CODERS_MAX]);

#endif
