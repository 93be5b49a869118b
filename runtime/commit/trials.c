/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/trials.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/commit/commit.h"
#include "runtime/commit/trial_bench.h"

#define WRING_MODULE "commit"
#define STEPS_MAX 50
#define STEPS_MIN 5
#define TURNS 2
#define ENOUGH_NS (3 * WRING_NS_PER_MS)   /* of steps of one size in a turn */
#define SHORT_NS (50 * WRING_NS_PER_MS)   /* longer steps have one turn: a disturbance is less */
#define PLENTY_NS (100 * WRING_NS_PER_MS) /* fewer than STEPS_MIN are enough */
#define SLOPE_NS (4 * WRING_NS_PER_MS)    /* more than latency: larger sizes tell nothing new */

static enum wring_status step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post_inside(bucket);
    return status == WRING_OK ? wring_bucket_wait_inside(bucket, WRING_FOREVER) : status;
}

/** What the slowest member took, and a barrier. @param ns  in, ours; out */
static enum wring_status agree_on_time(struct wring_trial_bench *bench, struct wring_trial *trial,
                                       uint64_t *ns)
{
    bench->ns = (double)*ns;
    enum wring_status status = step(trial->slowest);
    *ns = (uint64_t)bench->ns;
    return status;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/**
 * A few steps of one size; all members stop after the same one.
 * @param ns  out, what most of them took: the best are further from it with a codec, whose ranks
 *            wait for each other
 */
static enum wring_status time_size(struct wring_trial_bench *bench, struct wring_trial *trial,
                                   uint32_t size, uint64_t *ns)
{
    struct wring_bucket *bucket = trial->buckets[size];
    uint64_t all[STEPS_MAX], total = 0, took = 0;
    enum wring_status status = WRING_OK;
    uint32_t n = 0;

    while (n < STEPS_MAX && status == WRING_OK) {
        memcpy(bucket->data, bench->source, wring_bucket_bytes(bucket));
        status = agree_on_time(bench, trial, &took); /* so that all begin together */
        uint64_t began = wring_now_ns();
        if (status == WRING_OK)
            status = step(bucket);
        took = wring_now_ns() - began;
        if (status == WRING_OK)
            status = agree_on_time(bench, trial, &took);
        all[n++] = took;
        total += took;
        if (total >= PLENTY_NS || (n >= STEPS_MIN && total >= ENOUGH_NS))
            break;
    }
    qsort(all, n, sizeof(*all), compare_times);
    *ns = all[(n - 1) / 2];
    return status;
}

/** The first turn of one way: its sizes, as far as they tell something new. */
static enum wring_status time_sizes(struct wring_trial_bench *bench, struct wring_trial *trial)
{
    struct wring_curve *curve = &trial->curve;
    enum wring_status status = WRING_OK;

    while (curve->n < trial->n && status == WRING_OK) {
        uint32_t size = curve->n++;
        curve->points[size].bytes = wring_bucket_bytes(trial->buckets[size]);
        status = time_size(bench, trial, size, &curve->points[size].ns);
        if (curve->points[size].ns > curve->points[0].ns + SLOPE_NS)
            break;
    }
    return status;
}

/** A further turn: what is disturbed, is so for a while, and looks longer than it is. */
static enum wring_status time_again(struct wring_trial_bench *bench, struct wring_trial *trial)
{
    struct wring_curve *curve = &trial->curve;
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < curve->n && status == WRING_OK; size++) {
        uint64_t ns = curve->points[size].ns;
        if (ns < SHORT_NS)
            status = time_size(bench, trial, size, &ns);
        if (ns < curve->points[size].ns)
            curve->points[size].ns = ns;
    }
    return status;
}

/** All ways take turns. */
static enum wring_status time_all(struct wring_trial_bench *bench)
{
    enum wring_status status = WRING_OK;
    for (uint32_t turn = 0; turn < TURNS; turn++)
        for (uint32_t i = 0; i < bench->n && status == WRING_OK; i++)
            status = turn == 0 ? time_sizes(bench, &bench->trials[i])
                               : time_again(bench, &bench->trials[i]);
    return status;
}

/** Register, connect, run; each of it on all ranks or on none. */
static enum wring_status try_all(struct wring_trial_bench *bench)
{
    struct wring_session *session = bench->session;
    enum wring_status status = wring_commit_passing(session, wring_trial_bench_init(bench));
    if (status == WRING_OK)
        status = wring_session_agree(session, time_all(bench), "");
    return status;
}

static void take_over(const struct wring_trial_bench *bench)
{
    for (uint32_t i = 0; i < bench->n; i++) {
        struct wring_trial *trial = &bench->trials[i];
        trial->tried->curve = trial->curve;
        trial->tried->measured = trial->tried->wanted;
        trial->tried->fresh = false;
    }
}

enum wring_status wring_trials_run(struct wring_session *session)
{
    struct wring_trial_bench bench = {.session = session, .real = session->buckets};
    uint64_t began = wring_now_ns();

    session->buckets = NULL;
    enum wring_status status = try_all(&bench);
    if (status == WRING_OK)
        take_over(&bench);
    wring_debug(&session->log, "trials of %" PRIu32 " ways took %.1f ms", bench.n,
                (double)(wring_now_ns() - began) / 1e6);
    wring_trial_bench_finish(&bench);
    return status;
}

void wring_trials_forget(struct wring_session *session)
{
    while (session->tried != NULL) {
        struct wring_tried *tried = session->tried;
        session->tried = tried->next;
        free(tried->ranks);
        free(tried);
    }
}
