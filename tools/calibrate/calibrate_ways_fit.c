/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "planner/fit.h"
#include "tools/calibrate/calibrate_ways.h"

/** The way whose samples stand for "auto" at that size. */
static struct wring_way_bench *pick(struct wring_ways_bench *bench, struct wring_way_bench *way,
                                    uint32_t size)
{
    for (uint32_t w = 0; w < bench->n; w++)
        if (bench->ways[w].codec == way->codec && bench->ways[w].scheme == way->auto_is[size])
            return &bench->ways[w];
    return way;
}

/**
 * What a link lets through at first may be more than it sustains: queues are empty, and credit for
 * bursts is left. Buckets that follow each other for long take as long as their bytes do, by what
 * the largest ones have shown. Only where all bytes pass such a link: one rank per node.
 */
static void sustain(struct wring_ways_bench *bench, const struct wring_profile_link *link)
{
    if (bench->job->ranks_per_node > 1 || !link->present)
        return;
    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = 0; size < bench->ways[w].n; size++) {
            struct wring_way_bench *way = &bench->ways[w];
            double least_us = link->us.slope * way->wire_bytes[size];
            for (uint32_t i = 0; i < way->samples[size]; i++)
                way->us[WRING_WAY_BUSY][size][i] = fmax(way->us[WRING_WAY_BUSY][size][i], least_us);
        }
}

static void list_points(struct wring_ways_bench *bench, struct wring_way_bench *way, bool is_auto,
                        enum wring_way_kind what, struct wring_fit_point *points, uint32_t *n)
{
    *n = 0;
    for (uint32_t size = 0; size < bench->sizes; size++) {
        struct wring_way_bench *from = is_auto ? pick(bench, way, size) : way;
        if (size >= from->n)
            return;
        points[(*n)++] = (struct wring_fit_point){(double)wring_calibrate_size(size),
                                                  from->us[what][size], from->samples[size]};
    }
}

static enum wring_status fit_bytes(struct wring_ways_bench *bench, struct wring_way_bench *way,
                                   bool is_auto, struct wring_cost *out)
{
    struct wring_fit_point points[WRING_CALIBRATE_SIZES];
    struct wring_profile_curve curve;
    uint32_t n;

    list_points(bench, way, is_auto, WRING_WAY_SOLO, points, &n);
    for (uint32_t i = 0; i < n; i++) {
        points[i].samples = &(is_auto ? pick(bench, way, i) : way)->wire_bytes[i];
        points[i].n = 1;
    }
    enum wring_status status = wring_fit_curve(points, n, &curve);
    if (status == WRING_OK)
        *out = curve.us;
    return status;
}

static enum wring_status put_way(struct wring_ways_bench *bench, struct wring_way_bench *way,
                                 const char *run_as, struct wring_profile *profile)
{
    const struct wring_calibration *job = bench->job;
    struct wring_profile_way *out =
        wring_calibrate_way(profile, way->codec, run_as, job->ranks, job->cores);
    bool is_auto = strcmp(run_as, "auto") == 0;
    struct wring_fit_point points[WRING_CALIBRATE_SIZES];
    enum wring_status status = out != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;

    for (int what = 0; what < WRING_WAY_KINDS && status == WRING_OK; what++) {
        struct wring_profile_curve *curves[WRING_WAY_KINDS] = {&out->solo, &out->busy, &out->cpu};
        uint32_t n;
        list_points(bench, way, is_auto, (enum wring_way_kind)what, points, &n);
        status = wring_fit_curve(points, n, curves[what]);
        out->max_elems = wring_calibrate_size(n - 1);
    }
    return status == WRING_OK ? fit_bytes(bench, way, is_auto, &out->wire_bytes) : status;
}

enum wring_status wring_ways_fit(struct wring_ways_bench *bench, struct wring_profile *profile)
{
    enum wring_status status = WRING_OK;

    sustain(bench, &profile->links[WRING_LEVEL_INTER]);
    for (uint32_t w = 0; w < bench->n && status == WRING_OK; w++) {
        struct wring_way_bench *way = &bench->ways[w];
        if (w == 0 || bench->ways[w - 1].codec != way->codec)
            status = put_way(bench, way, "auto", profile);
        if (status == WRING_OK)
            status = put_way(bench, way,
                             way->scheme == WRING_SCHEME_DIVISIBLE ? "divisible" : "indivisible",
                             profile);
    }
    return status;
}

struct wring_calibrate_noise wring_ways_noise(struct wring_ways_bench *bench)
{
    struct wring_calibrate_noise noise = {0};

    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = 0; size < bench->ways[w].n; size++) {
            struct wring_way_bench *way = &bench->ways[w];
            struct wring_fit_point point = {0, way->us[WRING_WAY_SOLO][size], way->samples[size]};
            noise.points++;
            noise.shaky += wring_fit_look(&point).doubt > WRING_PROFILE_NOISE;
        }
    return noise;
}
