/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/fit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_ENOUGH 0.02
#define TOO_FAR 0.05  /* however noisy it is */
#define SMALLEST 1e-9 /* below that a share says nothing */
#define SHARE_MAX 100 /* more is no news */
#define MEDIANS_MAX 3 /* that a sample counts as in a mean */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double wring_fit_quantile(const double *sorted, uint32_t n, double share)
{
    double at = share * (n - 1);
    uint32_t below = (uint32_t)at;
    uint32_t above = below + 1 < n ? below + 1 : below;

    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

struct wring_fit_interval wring_fit_interval(const double *sorted, uint32_t n)
{
    double reach = 0.98 * sqrt(n), middle = (n - 1) / 2.0;
    double low = fmax(0, floor(middle - reach)), high = fmin(n - 1, ceil(middle + reach));

    return (struct wring_fit_interval){sorted[(uint32_t)low], sorted[(uint32_t)high],
                                       fmin(0.95, 1 - 2 * pow(0.5, n))};
}

double wring_fit_half_interval(const double *sorted, uint32_t n)
{
    struct wring_fit_interval interval = wring_fit_interval(sorted, n);

    return (interval.high - interval.low) / 2;
}

double wring_fit_mean(const double *sorted, uint32_t n)
{
    double most = MEDIANS_MAX * wring_fit_quantile(sorted, n, 0.5), sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += fmin(sorted[i], most);
    return sum / n;
}

struct wring_fit_look wring_fit_look(struct wring_fit_point *point)
{
    struct wring_fit_look look;

    qsort(point->samples, point->n, sizeof(*point->samples), compare_doubles);
    look.median = wring_fit_quantile(point->samples, point->n, 0.5);
    double unit = fmax(look.median, SMALLEST);
    look.spread = fmin(SHARE_MAX, (wring_fit_quantile(point->samples, point->n, 0.75) -
                                   wring_fit_quantile(point->samples, point->n, 0.25)) /
                                      unit);
    look.doubt = point->n > 1
                     ? fmin(SHARE_MAX, wring_fit_half_interval(point->samples, point->n) / unit)
                     : 1;
    return look;
}

struct fit {
    uint32_t n;
    double x[WRING_FIT_POINTS_MAX], y[WRING_FIT_POINTS_MAX];
    bool corner[WRING_FIT_POINTS_MAX]; /* there is one at this point */
    struct wring_cost cost;
};

/** Solve the tridiagonal system, whose matrix is symmetric; rhs becomes the answer. */
static void solve_tridiagonal(double *diagonal, double *beside, double *rhs, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        double factor = beside[i - 1] / diagonal[i - 1];
        diagonal[i] -= factor * beside[i - 1];
        rhs[i] -= factor * rhs[i - 1];
    }
    for (uint32_t i = n; i-- > 0;)
        rhs[i] = (rhs[i] - (i + 1 < n ? beside[i] * rhs[i + 1] : 0)) / diagonal[i];
}

/** Heights of the corners by least squares of relative errors: each point counts as its share in
 *  the two corners around it. */
static void set_corners(struct fit *fit)
{
    double diagonal[WRING_COST_CORNERS] = {0}, beside[WRING_COST_CORNERS] = {0};
    double rhs[WRING_COST_CORNERS] = {0};
    struct wring_cost *cost = &fit->cost;
    uint32_t at = 0;

    cost->n = 0;
    for (uint32_t i = 0; i < fit->n; i++)
        if (fit->corner[i])
            cost->corners[cost->n++].x = fit->x[i];
    for (uint32_t i = 0; i < fit->n; i++) {
        while (at + 2 < cost->n && cost->corners[at + 1].x <= fit->x[i])
            at++;
        double left = cost->corners[at].x, right = cost->corners[at + 1].x;
        double share = (fit->x[i] - left) / (right - left);
        double unit = fmax(fit->y[i], SMALLEST), weight = 1 / (unit * unit);
        diagonal[at] += weight * (1 - share) * (1 - share);
        diagonal[at + 1] += weight * share * share;
        beside[at] += weight * share * (1 - share);
        rhs[at] += weight * (1 - share) * fit->y[i];
        rhs[at + 1] += weight * share * fit->y[i];
    }
    solve_tridiagonal(diagonal, beside, rhs, cost->n);
    for (uint32_t i = 0; i < cost->n; i++)
        cost->corners[i].y = fmax(rhs[i], 0);
}

/** The nearest heights that never fall, by relative error: neighbours that do become their mean. */
static void never_fall(double *y, uint32_t n)
{
    double mean[WRING_FIT_POINTS_MAX], weight[WRING_FIT_POINTS_MAX];
    uint32_t count[WRING_FIT_POINTS_MAX], blocks = 0, at = 0;

    for (uint32_t i = 0; i < n; i++) {
        double unit = fmax(y[i], SMALLEST);
        mean[blocks] = y[i];
        weight[blocks] = 1 / (unit * unit);
        count[blocks++] = 1;
        while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
            double both = weight[blocks - 2] + weight[blocks - 1];
            mean[blocks - 2] =
                (mean[blocks - 2] * weight[blocks - 2] + mean[blocks - 1] * weight[blocks - 1]) /
                both;
            weight[blocks - 2] = both;
            count[blocks - 2] += count[blocks - 1];
            blocks--;
        }
    }
    for (uint32_t b = 0; b < blocks; b++)
        for (uint32_t i = 0; i < count[b]; i++)
            y[at++] = mean[b];
}

static void straighten_cost(struct wring_cost *cost)
{
    double y[WRING_COST_CORNERS];
    uint32_t last = cost->n - 1;

    for (uint32_t i = 0; i < cost->n; i++)
        y[i] = cost->corners[i].y;
    never_fall(y, cost->n);
    for (uint32_t i = 0; i < cost->n; i++)
        cost->corners[i].y = y[i];
    cost->slope = (y[last] - y[last - 1]) / (cost->corners[last].x - cost->corners[last - 1].x);
}

static double relative_error_at(const struct fit *fit, const double *y, uint32_t i)
{
    double off = fabs(wring_cost_at(&fit->cost, fit->x[i]) - y[i]) / fmax(y[i], SMALLEST);
    return fmin(off, SHARE_MAX);
}

/** The point where the line is off most, among those without a corner; n: all have one. */
static uint32_t find_worst_point(const struct fit *fit, double *off)
{
    uint32_t at = fit->n;

    *off = 0;
    for (uint32_t i = 0; i < fit->n; i++)
        if (!fit->corner[i] && relative_error_at(fit, fit->y, i) >= *off) {
            *off = relative_error_at(fit, fit->y, i);
            at = i;
        }
    return at;
}

static void add_corners(struct fit *fit, double tolerance)
{
    double off;

    fit->corner[0] = fit->corner[fit->n - 1] = true;
    for (;;) {
        set_corners(fit);
        straighten_cost(&fit->cost);
        uint32_t at = find_worst_point(fit, &off);
        if (at == fit->n || off <= tolerance || fit->cost.n == WRING_COST_CORNERS)
            return;
        fit->corner[at] = true;
    }
}

static bool are_valid_points(const struct wring_fit_point *points, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (points[i].n == 0 || !isfinite(points[i].x) || points[i].x < 0 ||
            (i > 0 && points[i].x <= points[i - 1].x))
            return false;
        for (uint32_t s = 0; s < points[i].n; s++)
            if (!isfinite(points[i].samples[s]) || points[i].samples[s] < 0)
                return false;
    }
    return n > 0 && n <= WRING_FIT_POINTS_MAX;
}

/** Middles into the fit, the rest into trust. @return the median of their spreads */
static double summarize_points(struct wring_fit_point *points, enum wring_fit_middle middle,
                               struct fit *fit, struct wring_profile_trust *trust)
{
    double spreads[WRING_FIT_POINTS_MAX];

    trust->samples = points[0].n;
    for (uint32_t i = 0; i < fit->n; i++) {
        struct wring_fit_look look = wring_fit_look(&points[i]);
        fit->x[i] = points[i].x;
        fit->y[i] =
            middle == WRING_FIT_MEAN ? wring_fit_mean(points[i].samples, points[i].n) : look.median;
        trust->spread = fmax(trust->spread, look.spread);
        trust->doubt = fmax(trust->doubt, look.doubt);
        trust->samples = points[i].n < trust->samples ? points[i].n : trust->samples;
        trust->noisy += look.spread > WRING_PROFILE_NOISE;
        trust->doubtful += look.doubt > WRING_PROFILE_NOISE;
        spreads[i] = look.spread;
    }
    trust->points = fit->n;
    qsort(spreads, fit->n, sizeof(*spreads), compare_doubles);
    return wring_fit_quantile(spreads, fit->n, 0.5);
}

enum wring_status wring_fit_curve(struct wring_fit_point *points, uint32_t n,
                                  enum wring_fit_middle middle, struct wring_profile_curve *out)
{
    struct fit fit = {.n = n};
    struct wring_profile_trust trust = {0};
    double middles[WRING_FIT_POINTS_MAX];

    if (!are_valid_points(points, n))
        return WRING_ERR_INVALID;
    double spread = summarize_points(points, middle, &fit, &trust);
    memcpy(middles, fit.y, sizeof(middles));
    never_fall(fit.y, n);
    if (n > 1) {
        add_corners(&fit, fmin(fmax(CLOSE_ENOUGH, spread / 2), TOO_FAR));
    } else {
        fit.cost = wring_cost_line(fit.y[0], fit.x[0] > 0 ? fit.y[0] / fit.x[0] : 0);
        fit.cost.corners[0].x = fit.x[0];
    }
    for (uint32_t i = 0; i < n; i++)
        trust.error = fmax(trust.error, relative_error_at(&fit, middles, i));
    *out = (struct wring_profile_curve){fit.cost, trust};
    return WRING_OK;
}
