/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What an exchange loses to an application that computes beside it: one bucket, exchanged again and
 * again while all ranks do the same until most of it is over, sleep or spin. What they lose to
 * wake-ups is in calibrate_waking.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "planner/fit.h"
#include "tools/bench/bench.h"
#include "tools/calibrate/calibrate.h"

#define ROUNDS_MIN 5
#define ROUNDS_MAX 60
#define LONG_US 10000.0      /* an exchange to measure with takes so long, */
#define TOO_LONG_US 250000.0 /* and the next size would not take longer than that */
#define PART 0.7             /* of an exchange passes meanwhile */
#define WAIT_NS (120 * WRING_NS_PER_S)

enum meanwhile {
    ASLEEP,
    SPINNING,
    WAYS
};

struct bench {
    struct wring_calibration *job;
    float *data;
    struct wring_bucket *buckets[WRING_MEASURE_SIZES];
    uint32_t sizes, size; /* there are; in use */
    double solo_us;       /* of that one, about */
    double spin_lost[ROUNDS_MAX];
    uint32_t rounds;
};

static enum wring_status prepare(struct bench *bench)
{
    struct wring_session *session = bench->job->session;

    while (bench->sizes < WRING_MEASURE_SIZES &&
           (bench->sizes < 2 || wring_measure_size(bench->sizes) <= bench->job->max_elems))
        bench->sizes++;
    enum wring_status status = wring_buffer_alloc(
        session, wring_measure_size(bench->sizes - 1) * sizeof(float), (void **)&bench->data);
    for (uint32_t size = 0; size < bench->sizes && status == WRING_OK; size++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        char name[WRING_NAME_MAX];
        snprintf(name, sizeof(name), "calibrate.beside.%u", size);
        params.name = name;
        params.data = bench->data;
        params.elems = wring_measure_size(size);
        params.codec = "none";
        status = wring_bucket_register(session, &params, &bench->buckets[size]);
    }
    return status == WRING_OK ? wring_session_commit(session) : status;
}

static void pass_time(enum meanwhile how, uint64_t until_ns)
{
    if (how == ASLEEP && wring_now_ns() < until_ns)
        wring_sleep_until(until_ns);
    while (wring_now_ns() < until_ns)
        ;
}

/** @param part  of solo_us: 0 waits at once. @param us  out: the slowest rank's */
static enum wring_status exchange(struct bench *bench, enum meanwhile how, double part, double *us)
{
    struct wring_bucket *bucket = bench->buckets[bench->size];

    memset(bench->data, 0, wring_measure_size(bench->size) * sizeof(float));
    enum wring_status status = wring_barrier(bench->job->world);
    uint64_t began = wring_now_ns();
    if (status == WRING_OK)
        status = wring_bucket_post(bucket);
    pass_time(how, began + (uint64_t)(part * bench->solo_us * 1e3));
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WAIT_NS);
    *us = (double)(wring_now_ns() - began) / 1e3;
    return status == WRING_OK ? wring_calibration_slowest(bench->job, us, 1) : status;
}

/** The first size that takes long enough; twice each, as the first time touches memory. */
static enum wring_status choose_size(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    for (bench->size = 0; status == WRING_OK; bench->size++) {
        status = exchange(bench, ASLEEP, 0, &bench->solo_us);
        if (status == WRING_OK)
            status = exchange(bench, ASLEEP, 0, &bench->solo_us);
        if (bench->solo_us >= LONG_US || 4 * bench->solo_us > TOO_LONG_US ||
            bench->size + 1 == bench->sizes)
            return status;
    }
    return status;
}

static enum wring_status run_round(struct bench *bench)
{
    enum wring_status status = WRING_OK;
    double us[WAYS];

    for (int how = 0; how < WAYS && status == WRING_OK; how++)
        status = exchange(bench, (enum meanwhile)how, PART, &us[how]);
    if (status != WRING_OK)
        return status;
    bench->spin_lost[bench->rounds] = (us[SPINNING] - us[ASLEEP]) / (PART * bench->solo_us);
    bench->rounds++;
    return WRING_OK;
}

static enum wring_status run_rounds(struct bench *bench, double seconds)
{
    uint64_t deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    enum wring_status status = WRING_OK;
    bool more = true;

    while (more && bench->rounds < ROUNDS_MAX && status == WRING_OK) {
        wring_calibration_tell(bench->job, "exchanges beside computing: round %u",
                               bench->rounds + 1);
        status = run_round(bench);
        more = bench->rounds < ROUNDS_MIN || wring_now_ns() < deadline_ns;
        if (status == WRING_OK)
            status = wring_calibration_agree(bench->job, &more);
    }
    return status;
}

double wring_calibrate_middle(double *samples, uint32_t n, double most, double *doubt)
{
    struct wring_fit_point point = {0, samples, n};
    struct wring_fit_look look = wring_fit_look(&point);

    *doubt = wring_fit_half_interval(samples, n);
    return fmin(fmax(look.median, 0), most);
}

static void put(struct bench *bench, struct wring_profile_computing *out)
{
    *out = (struct wring_profile_computing){.present = true, .samples = bench->rounds};
    out->spin_lost = wring_calibrate_middle(bench->spin_lost, bench->rounds, 1, &out->spin_doubt);
}

enum wring_status wring_calibrate_computing(struct wring_calibration *job, double share,
                                            struct wring_profile *profile)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (bench == NULL)
        return WRING_ERR_NO_MEMORY;
    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    bench->job = job;
    enum wring_status status = prepare(bench);
    if (status == WRING_OK)
        status = choose_size(bench);
    if (status == WRING_OK)
        status = run_rounds(bench, job->params->seconds * share);
    if (status == WRING_OK && profile != NULL)
        put(bench, &profile->computing);
    free(bench);
    return status;
}
