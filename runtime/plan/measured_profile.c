/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/measured_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "planner/fit.h"

static const char *run_as(enum wring_scheme scheme)
{
    static const char *const names[] = {"auto", "divisible", "indivisible"};
    return names[scheme];
}

/** A list with room for one more, zeros; NULL without memory. */
static void *grow(void *list, uint32_t n, size_t bytes)
{
    char *grown = realloc(list, (n + 1) * bytes);

    if (grown != NULL)
        memset(grown + n * bytes, 0, bytes);
    return grown;
}

static struct wring_profile_way *find_way(struct wring_profile *profile,
                                          const struct wring_measured_way *way, uint32_t ranks)
{
    uint32_t i = 0;

    while (i < profile->n_ways && (strcmp(profile->ways[i].codec, way->codec) != 0 ||
                                   strcmp(profile->ways[i].run_as, run_as(way->scheme)) != 0 ||
                                   profile->ways[i].ranks != ranks))
        i++;
    if (i < profile->n_ways)
        return &profile->ways[i];
    struct wring_profile_way *grown =
        i < WRING_PROFILE_WAYS_MAX ? grow(profile->ways, i, sizeof(*profile->ways)) : NULL;
    if (grown == NULL)
        return NULL;
    profile->ways = grown;
    profile->n_ways++;
    return &grown[i];
}

static struct wring_profile_codec *find_codec(struct wring_profile *profile, const char *spec)
{
    uint32_t i = 0;

    while (i < profile->n_codecs && strcmp(profile->codecs[i].spec, spec) != 0)
        i++;
    if (i < profile->n_codecs)
        return &profile->codecs[i];
    struct wring_profile_codec *grown =
        i < WRING_PROFILE_CODECS_MAX ? grow(profile->codecs, i, sizeof(*profile->codecs)) : NULL;
    if (grown == NULL)
        return NULL;
    profile->codecs = grown;
    profile->n_codecs++;
    return &grown[i];
}

/** @return points; those sizes that have samples */
static uint32_t list_points(struct wring_measured_way *way, enum wring_measured_kind kind,
                            struct wring_fit_point *points)
{
    uint32_t n = 0;

    for (uint32_t size = 0; size < way->n; size++)
        if (way->samples[size] > 0)
            points[n++] = (struct wring_fit_point){(double)wring_measured_size(size),
                                                   way->us[kind][size], way->samples[size]};
    return n;
}

/** A curve through one number for each size. */
static enum wring_status fit_numbers(struct wring_measured_way *way, double *numbers,
                                     struct wring_cost *out)
{
    struct wring_fit_point points[WRING_MEASURED_SIZES];
    struct wring_profile_curve curve;
    uint32_t n = 0;

    for (uint32_t size = 0; size < way->n; size++)
        if (way->samples[size] > 0 && numbers[size] > 0)
            points[n++] =
                (struct wring_fit_point){(double)wring_measured_size(size), &numbers[size], 1};
    if (n == 0) { /* peers read where it lies */
        *out = (struct wring_cost){.n = 0};
        return WRING_OK;
    }
    enum wring_status status = wring_fit_curve(points, n, &curve);
    if (status == WRING_OK)
        *out = curve.us;
    return status;
}

/** Encoding and decoding are counted together here: half of it each. Both are in the way already.
 */
static enum wring_status put_codec(struct wring_measured_way *way, struct wring_profile *profile)
{
    struct wring_profile_codec *out = find_codec(profile, way->codec);
    struct wring_profile_coding *coding = out != NULL ? &out->at[WRING_PLACE_CPU] : NULL;
    struct wring_codec *codec;
    struct wring_cost both;

    if (out == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_codec_create(way->codec, NULL, NULL, 0, &codec);
    if (status != WRING_OK)
        return status;
    snprintf(out->spec, sizeof(out->spec), "%s", way->codec);
    out->feedback = (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) != 0;
    out->nmse = NAN;
    out->wire_bytes = wring_cost_line((double)wring_codec_bound(codec, 1),
                                      (double)wring_codec_bound(codec, 1 << 20) / (1 << 20));
    wring_codec_destroy(codec);
    status = fit_numbers(way, way->codec_us, &both);
    if (status != WRING_OK)
        return status;
    coding->present = true;
    coding->encode_us = coding->decode_us = wring_cost_scale(&both, 0.5, 1);
    return WRING_OK;
}

enum wring_status wring_measured_put(struct wring_measured_way *way, uint32_t ranks, uint32_t cores,
                                     struct wring_profile *profile)
{
    struct wring_profile_way *out = find_way(profile, way, ranks);
    struct wring_fit_point points[WRING_MEASURED_SIZES];
    enum wring_status status = out != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    if (status == WRING_OK && strcmp(way->codec, "none") != 0)
        status = put_codec(way, profile);
    if (status != WRING_OK)
        return status;
    snprintf(out->codec, sizeof(out->codec), "%s", way->codec);
    snprintf(out->run_as, sizeof(out->run_as), "%s", run_as(way->scheme));
    out->ranks = ranks;
    out->cores = cores;
    struct wring_profile_curve *curves[] = {&out->solo, &out->busy, &out->cpu};
    for (int kind = 0; kind < WRING_MEASURED_KINDS && status == WRING_OK; kind++) {
        uint32_t n = list_points(way, (enum wring_measured_kind)kind, points);
        status = wring_fit_curve(points, n, curves[kind]);
        if (status == WRING_OK)
            out->max_elems = (uint64_t)points[n - 1].x;
    }
    return status == WRING_OK ? fit_numbers(way, way->wire_bytes, &out->wire_bytes) : status;
}

enum wring_status wring_measured_links(struct wring_profile *profile)
{
    const struct wring_profile_way *raw = wring_profile_way(profile, "none", "auto", 0);

    for (int level = 0; level < WRING_LEVELS && raw != NULL; level++) {
        struct wring_profile_link *link = &profile->links[level];
        bool there = level == WRING_LEVEL_INTER ? profile->nodes > 1 : profile->ranks_per_node > 1;
        if (!there)
            continue;
        link->present = true;
        link->latency_us = wring_cost_at(&raw->solo.us, 1);
        link->us = wring_cost_line(0, raw->busy.us.slope / sizeof(float));
    }
    return wring_profile_rehash(profile);
}
