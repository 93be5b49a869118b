/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a profile that is put together in memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/profile.h"

/** A list with room for one more. NULL: no memory; the list is as it was */
static void *grow(void *list, uint32_t n, size_t bytes)
{
    return realloc(list, (n + 1) * bytes);
}

struct wring_profile_codec *wring_profile_put_codec(struct wring_profile *profile, const char *spec)
{
    uint32_t i = 0;

    while (i < profile->n_codecs && strcmp(profile->codecs[i].spec, spec) != 0)
        i++;
    if (i == profile->n_codecs) {
        struct wring_profile_codec *grown =
            i < WRING_PROFILE_CODECS_MAX ? grow(profile->codecs, i, sizeof(*grown)) : NULL;
        if (grown == NULL)
            return NULL;
        profile->codecs = grown;
        profile->n_codecs++;
    }
    profile->codecs[i] = (struct wring_profile_codec){.nmse = NAN};
    snprintf(profile->codecs[i].spec, WRING_CODEC_SPEC_MAX, "%s", spec);
    return &profile->codecs[i];
}

struct wring_profile_way *wring_profile_put_way(struct wring_profile *profile, const char *codec,
                                                const char *run_as, uint32_t ranks, uint32_t cores)
{
    uint32_t i = 0;

    while (i < profile->n_ways &&
           (strcmp(profile->ways[i].codec, codec) != 0 ||
            strcmp(profile->ways[i].run_as, run_as) != 0 || profile->ways[i].ranks != ranks))
        i++;
    if (i == profile->n_ways) {
        struct wring_profile_way *grown =
            i < WRING_PROFILE_WAYS_MAX ? grow(profile->ways, i, sizeof(*grown)) : NULL;
        if (grown == NULL)
            return NULL;
        profile->ways = grown;
        profile->n_ways++;
    }
    profile->ways[i] = (struct wring_profile_way){.ranks = ranks, .cores = cores};
    snprintf(profile->ways[i].codec, WRING_CODEC_SPEC_MAX, "%s", codec);
    snprintf(profile->ways[i].run_as, sizeof(profile->ways[i].run_as), "%s", run_as);
    return &profile->ways[i];
}

static void extend_curve(struct wring_profile_curve *curve, double at,
                         const struct wring_profile_curve *larger, uint32_t common)
{
    struct wring_profile_trust *trust = &curve->trust;
    const struct wring_profile_trust *more = &larger->trust;

    curve->us = wring_cost_continue(&curve->us, at, &larger->us);
    trust->error = fmax(trust->error, more->error);
    trust->spread = fmax(trust->spread, more->spread);
    trust->doubt = fmax(trust->doubt, more->doubt);
    trust->samples = more->samples < trust->samples ? more->samples : trust->samples;
    trust->points += more->points - common;
    trust->noisy += more->noisy;
    trust->noisy = trust->noisy < trust->points ? trust->noisy : trust->points;
    trust->doubtful += more->doubtful;
    trust->doubtful = trust->doubtful < trust->points ? trust->doubtful : trust->points;
}

void wring_profile_extend_way(struct wring_profile_way *way, const struct wring_profile_way *larger,
                              uint32_t common)
{
    double at = (double)way->max_elems;

    if (larger->max_elems <= way->max_elems)
        return;
    extend_curve(&way->solo, at, &larger->solo, common);
    extend_curve(&way->busy, at, &larger->busy, common);
    extend_curve(&way->cpu, at, &larger->cpu, common);
    way->wire_bytes = wring_cost_continue(&way->wire_bytes, at, &larger->wire_bytes);
    way->max_elems = larger->max_elems;
}
