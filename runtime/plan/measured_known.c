/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile has already of what is measured. */
#include <string.h>

#include "runtime/plan/measure_bench.h"

bool wring_measure_has_coding(const struct wring_profile *profile, const char *spec)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, spec) == 0)
            return profile->codecs[i].at[WRING_PLACE_CPU].present;
    return false;
}

bool wring_measure_lacks(const struct wring_profile *profile, const char *spec, uint32_t ranks,
                         bool every_scheme)
{
    bool raw = strcmp(spec, "none") == 0;

    if (!raw && !wring_measure_has_coding(profile, spec))
        return true;
    if (raw || every_scheme)
        return wring_profile_way(profile, spec, "auto", ranks) == NULL;
    return wring_profile_way(profile, spec, "divisible", ranks) == NULL &&
           wring_profile_way(profile, spec, "indivisible", ranks) == NULL;
}

double wring_measure_round_us(const struct wring_profile *profile, const char *spec, uint32_t ranks,
                              uint32_t size, uint64_t *known)
{
    double us = 0;

    *known = 0;
    for (uint32_t i = 0; i < profile->n_ways; i++) {
        const struct wring_profile_way *way = &profile->ways[i];
        if (strcmp(way->codec, spec) != 0 || way->ranks != ranks)
            continue;
        *known = *known == 0 || way->max_elems < *known ? way->max_elems : *known;
        for (uint32_t s = size; s < size + 2; s++) {
            double elems = (double)wring_measure_size(s);
            us += 2 * wring_cost_at(&way->solo.us, elems) + wring_cost_at(&way->busy.us, elems);
        }
    }
    return us;
}
