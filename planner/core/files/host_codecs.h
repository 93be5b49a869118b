/* SPDX-License-Identifier: Apache-2.0 */
/** What this library's codecs are and take on one core, for built-in profiles. */
#ifndef WRING_FILES_HOST_CODECS_H
#define WRING_FILES_HOST_CODECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRING_HOST_COST_CORNERS 4

/** struct wring_cost, with fewer corners. */
struct wring_host_cost {
    uint32_t n;
    double slope;
    double corners[WRING_HOST_COST_CORNERS][2]; /* x, y */
};

/** As struct wring_profile_codec has it; times are of one core. */
struct wring_host_codec {
    const char *spec;
    bool summable, feedback, alters;
    double nmse, back_nmse; /* of bell-shaped numbers */
    uint32_t rounds;
    double state_bytes;
    struct wring_host_cost wire_bytes, round_bytes;
    struct wring_host_cost back_bytes, back_most_bytes, back_encode_us, back_decode_us;
    struct wring_host_cost encode_us, decode_us, decode_add_us, sum_us;
};

extern const struct wring_host_codec wring_host_codecs[]; /* [wring_host_codecs_n] no two alike */
extern const size_t wring_host_codecs_n;
extern const char wring_host_codecs_machine[]; /* where they were measured: processor and kernels */

#endif
