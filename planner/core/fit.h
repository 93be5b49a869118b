/* SPDX-License-Identifier: Apache-2.0 */
/**
 * From repeated measurements to a cost: medians or means, a monotone line through few corners, and
 * how far it can be trusted.
 */
#ifndef WRING_PLANNER_FIT_H
#define WRING_PLANNER_FIT_H

#include <stdint.h>

#include "planner/core/cost.h"
#include "planner/core/files/profile.h"
#include <wring/status.h>

#define WRING_FIT_POINTS_MAX 64

/** One size and what was measured there. */
struct wring_fit_point {
    double x;        /* above that of the point before */
    double *samples; /* [n] not negative, not all 0; will be sorted */
    uint32_t n;      /* at least 1 */
};

/** Of sorted samples, n > 0: linear between the nearest two. */
double wring_fit_quantile(const double *sorted, uint32_t n, double share);

/** The interval in which the true median lies, from n > 0 sorted samples of any distribution:
 *  between the order statistics n/2 -+ 0.98 sqrt(n). */
struct wring_fit_interval {
    double low, high;
    double confidence; /* 0.95; with fewer than six samples, that of their whole range */
};
struct wring_fit_interval wring_fit_interval(const double *sorted, uint32_t n);

/** Half of that interval. */
double wring_fit_half_interval(const double *sorted, uint32_t n);

/** Spread and doubt of one point, as in struct wring_profile_trust, 100 at most; sorts the samples.
 *  One sample alone is in doubt by 1. */
struct wring_fit_look {
    double median, spread, doubt;
};
struct wring_fit_look wring_fit_look(struct wring_fit_point *point);

/** The value that stands for a point's samples. */
enum wring_fit_middle {
    WRING_FIT_MEDIAN, /* the time of one by itself */
    WRING_FIT_MEAN    /* the time of each of many in a row, see wring_fit_mean() */
};

/**
 * The mean of sorted samples, none of which counts as more than three medians. A backlog takes the
 * sum of its buckets' times. Most backlogs have some slow buckets: on a machine that others use,
 * too, 15 to 30 % of all are slow. Without the cap, rarer outliers would raise the mean above the
 * median of such sums.
 */
double wring_fit_mean(const double *sorted, uint32_t n);

/**
 * Fit a cost through the points' middles, by relative error. A corner is added where the line is
 * off most, until it is off by no more than half of the points' spread, taken as 2 to 5 %, or
 * there are WRING_COST_CORNERS. Never falls. Beyond the last point it goes on as its last piece
 * does; a single point is taken as proportional there.
 *
 * Bits: the same for the same samples in any order. Errors: WRING_ERR_INVALID (no points, too many,
 * or samples that cannot be times). Threads: safe.
 */
enum wring_status wring_fit_curve(struct wring_fit_point *points, uint32_t n,
                                  enum wring_fit_middle middle, struct wring_profile_curve *out);

#endif
