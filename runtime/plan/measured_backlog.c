/* SPDX-License-Identifier: Apache-2.0 */
/* What a further bucket takes, from the samples of backlogs: none is long enough to show it. */
#include <math.h>

#include "planner/fit.h"
#include "runtime/plan/measure_bench.h"

#define MANY 16               /* pieces */
#define SHARED 0.75           /* of a processor: who has less shares it */
#define LONG_BYTES (16 << 20) /* that no credit for bursts is enough for */
#define LINKS_SHARE 0.75      /* of what a bucket takes: it is the link that takes it */

/** What a byte takes on a link that is used for long: as the link's own measurement says, or as a
 *  backlog of the largest raw buckets has shown, if that was less. */
static double sustained_us(struct wring_measure_bench *bench, const struct wring_profile_link *link)
{
    double least_us = link->us.slope;

    for (uint32_t w = 0; w < bench->n; w++) {
        struct wring_measure_way *way = &bench->ways[w];
        uint32_t last = way->n - 1;
        if (!wring_measure_is_raw(bench, way) ||
            way->batch[last] * way->wire_bytes[last] < LONG_BYTES)
            continue;
        struct wring_fit_point all = {0, way->all_us[last], way->samples[last]};
        least_us =
            fmin(least_us, wring_fit_look(&all).median / way->batch[last] / way->wire_bytes[last]);
    }
    return least_us;
}

/** The link that all bytes pass: that of one rank per node. NULL: there is none */
static const struct wring_profile_link *find_link(const struct wring_profile *profile)
{
    const struct wring_profile_link *link = &profile->links[WRING_LEVEL_INTER];

    return profile->ranks_per_node == 1 && link->present ? link : NULL;
}

/**
 * What a link lets through at first may be more than it sustains: queues are empty, and credit for
 * bursts is left. Buckets that follow each other for long take as long as their bytes do, by what
 * the largest ones have shown.
 */
static void sustain(struct wring_measure_bench *bench, const struct wring_profile *profile)
{
    const struct wring_profile_link *link = find_link(profile);

    if (link == NULL)
        return;
    double byte_us = sustained_us(bench, link);
    for (uint32_t w = 0; w < bench->n; w++)
        for (uint32_t size = bench->first; size < bench->ways[w].n; size++) {
            struct wring_measure_way *way = &bench->ways[w];
            double least_us = byte_us * way->wire_bytes[size];
            double *busy_us = way->us[WRING_MEASURE_BUSY][size];
            for (uint32_t i = 0; i < way->samples[size]; i++)
                busy_us[i] = fmax(busy_us[i], least_us);
        }
}

/**
 * Ranks that share a processor have turns of it, and each one's clock starts with its first: all of
 * them take longer than any sees, by as much for a short backlog as for a long one. No further
 * bucket takes less than its processor time of a rank's share.
 */
static void take_turns(struct wring_measure_bench *bench, double share,
                       struct wring_measure_way *way)
{
    if (share <= 0 || share > SHARED)
        return;
    for (uint32_t size = bench->first; size < way->n; size++) {
        double *busy_us = way->us[WRING_MEASURE_BUSY][size];
        if (wring_measure_size(size) * sizeof(float) < bench->session->config.chunk_bytes)
            continue; /* mostly what waiting takes */
        for (uint32_t i = 0; i < way->samples[size]; i++)
            busy_us[i] = fmax(busy_us[i], way->us[WRING_MEASURE_CPU][size][i] / share);
    }
}

/**
 * A backlog of k takes k times what a further bucket does, and once what fills and empties the
 * chain of its pieces. The latter is the same for all buckets of many pieces, so that of the
 * smallest ones is taken off the larger ones' backlogs: less is in doubt then than between a
 * backlog and a single bucket, of which there are few samples, and the largest size is what larger
 * ones are told by.
 */
static void steady(struct wring_measure_bench *bench, struct wring_measure_way *way)
{
    uint64_t pieces = 0;
    double once_us = 0;

    for (uint32_t size = bench->first; size < way->n; size++) {
        bool many = pieces >= MANY;
        pieces = wring_measure_size(size) * sizeof(float) / bench->session->config.chunk_bytes;
        if (pieces < MANY || way->batch[size] < 2)
            continue;
        if (!many) {
            once_us = fmax(0, wring_measure_median(way, WRING_MEASURE_SOLO, size) -
                                  wring_measure_median(way, WRING_MEASURE_BUSY, size));
            continue;
        }
        for (uint32_t i = 0; i < way->samples[size]; i++)
            way->us[WRING_MEASURE_BUSY][size][i] =
                fmax(way->all_us[size][i] - once_us, WRING_MEASURE_LEAST_US) / way->batch[size];
    }
}

void wring_measured_go_on(struct wring_measure_bench *bench, const struct wring_profile *profile,
                          struct wring_profile_way *fitted)
{
    const struct wring_profile_link *link = find_link(profile);

    if (link == NULL || fitted->max_elems >= wring_measure_size(WRING_MEASURE_SIZES - 1))
        return;
    double byte_us = sustained_us(bench, link), largest = (double)fitted->max_elems;
    double link_us = byte_us * wring_cost_at(&fitted->wire_bytes, largest);
    if (link_us < LINKS_SHARE * wring_cost_at(&fitted->busy.us, largest))
        return;
    fitted->solo.us.slope = fitted->busy.us.slope = byte_us * fitted->wire_bytes.slope;
}

void wring_measured_backlogs(struct wring_measure_bench *bench)
{
    for (uint32_t w = 0; w < bench->n; w++)
        steady(bench, &bench->ways[w]);
}

void wring_measured_for_long(struct wring_measure_bench *bench, const struct wring_profile *profile)
{
    sustain(bench, profile);
    if (!profile->computing.present)
        return;
    for (uint32_t w = 0; w < bench->n; w++)
        take_turns(bench, profile->computing.core_share, &bench->ways[w]);
}
