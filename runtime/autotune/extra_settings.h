/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchanges with further settings than the configured one. Of those a short measurement says
 * enough: what the configured one takes is known, and theirs is compared with it.
 */
#ifndef WRING_RUNTIME_AUTOTUNE_EXTRA_SETTINGS_H
#define WRING_RUNTIME_AUTOTUNE_EXTRA_SETTINGS_H

#include "runtime/autotune/autotune.h"

/** One piece size below the configured one and one above it; one core, and several. */
#define WRING_AUTOPLAN_FURTHER_MAX 4

/** A setting, and the codecs of which the profile has no exchanges with it. */
struct wring_autoplan_further {
    struct wring_setting setting;
    struct wring_measure_codecs codecs;
};

struct wring_autoplan_furthers {
    uint32_t n;
    struct wring_autoplan_further list[WRING_AUTOPLAN_FURTHER_MAX];
};

/** Elements of the largest bucket that they are measured with: it has several pieces as configured,
 *  and one at least with any of the settings. */
uint64_t wring_autoplan_further_elems(const struct wring_autoplan *autoplan);

/**
 * Which settings are worth measuring, in rank 0; why others are not is said.
 *
 * Pinned cores are where an exchange with a codec keeps its processor at work, as who waits for the
 * link gains nothing by them. Any setting is where a round of its buckets takes as little as the
 * time for it allows, by what the profile says of the configured one.
 *
 * @param codecs  that may be used beside none
 * @param params  how the configured one is measured
 */
void wring_autoplan_find_further(const struct wring_autoplan *autoplan,
                                 const struct wring_measure_codecs *codecs,
                                 const struct wring_measure_params *params,
                                 struct wring_autoplan_furthers *out);

/**
 * Find them, measure them and put them into rank 0's profile. Collective. The session is set as
 * configured before and after. A setting that cannot be had is left out, with a line that says so.
 *
 * @param out  the number of settings that were measured
 * Errors: those of an exchange.
 */
enum wring_status wring_autoplan_measure_further(struct wring_autoplan *autoplan,
                                                 const struct wring_measure_codecs *codecs,
                                                 const struct wring_measure_params *params,
                                                 uint32_t *out);

#endif
