/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a calibration share: words between its ranks, and what samples are worth. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "planner/core/fit.h"
#include "tools/calibrate/calibrate.h"

enum wring_status wring_calibration_slowest(struct wring_calibration *job, double *times,
                                            uint64_t n)
{
    return wring_allreduce(job->world, times, times, n, WRING_F64, WRING_MAX, NULL, NULL);
}

enum wring_status wring_calibration_agree(struct wring_calibration *job, bool *more)
{
    uint64_t word = *more;
    enum wring_status status = wring_broadcast(job->world, &word, sizeof(word), 0, NULL, NULL);

    *more = word != 0;
    return status;
}

void wring_calibration_tell(const struct wring_calibration *job, const char *format, ...)
{
    va_list args;

    if (job->rank != 0 || !isatty(STDERR_FILENO))
        return;
    fputc('\r', stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\033[K", stderr);
}

enum wring_status wring_calibration_provider(struct wring_calibration *job,
                                             struct wring_group *group, char *text, size_t bytes)
{
    float data = 0;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    enum wring_status status = WRING_OK;

    params.name = "calibrate.link";
    params.data = &data;
    params.elems = 1;
    params.group = group;
    if (group != NULL)
        status = wring_bucket_register(job->session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(job->session);
    if (status == WRING_OK && bucket != NULL)
        status = wring_bucket_stats(bucket, &stats);
    if (status == WRING_OK && bucket != NULL) {
        snprintf(text, bytes, "%.31s", stats.provider);
        status = wring_bucket_drop(bucket);
    }
    return status == WRING_OK ? wring_session_commit(job->session) : status;
}

void wring_calibrate_count(struct wring_fit_point *point,
                           struct wring_collective_bench_noise *noise)
{
    noise->points++;
    noise->shaky += wring_fit_look(point).doubt > WRING_PROFILE_NOISE;
}

bool wring_calibrate_is_in_doubt(double *samples, uint32_t n)
{
    struct wring_fit_point point = {0, samples, n};

    return wring_fit_look(&point).doubt > WRING_PROFILE_NOISE;
}

double wring_calibrate_middle(double *samples, uint32_t n, double most, double *doubt)
{
    struct wring_fit_point point = {0, samples, n};
    struct wring_fit_look look = wring_fit_look(&point);

    *doubt = wring_fit_half_interval(samples, n);
    return fmin(fmax(look.median, 0), most);
}
