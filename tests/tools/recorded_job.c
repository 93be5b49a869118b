/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job to be recorded: recorded_job WHAT ITERATIONS
 *
 * It computes by sleeping, so that what a trace says of computing has a least value that does not
 * depend on the machine. Where an iteration begins with the longest stretch, that is longer by more
 * than a busy machine adds to others. It checks its sums. WHAT is
 *
 *     buckets  four committed buckets, posted one after another, waited for at the end
 *     each     the same, each waited for before the next is posted
 *     mixed    the same as buckets, every other one of bf16
 *     calls    iterations of immediate calls, of which three are alike and one is of doubles
 *     stack    iterations of calls that are all alike but the last
 *     alike    iterations of three calls that are alike, all under way at once
 *     other    a call of another size each time
 *     doubles  calls that repeat, with no sum of f32 among them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wring/wring.h>

#define TENSORS 4
#define MOST 12000

static const uint64_t sizes[TENSORS] = {700, 12000, 1, 5000};
static const char *const names[TENSORS] = {"d", "c", "b", "a"};
static const int before_ms[TENSORS] = {8, 2, 1, 3};

static void compute(int ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

static bool fill(float *data, uint64_t elems, float value)
{
    for (uint64_t i = 0; i < elems; i++)
        data[i] = value;
    return true;
}

static bool holds(const float *data, uint64_t elems, float value)
{
    for (uint64_t i = 0; i < elems; i++)
        if (data[i] != value)
            return false;
    return true;
}

/** What all ranks contribute together, where each gives its rank + 1. */
static float sum_of(const struct wring_session *session)
{
    uint32_t n = wring_session_size(session);
    return (float)(n * (n + 1) / 2);
}

/** A bucket's data. */
struct gradient {
    enum wring_dtype dtype; /* f32 or bf16 */
    void *data;
};

/** A small whole number's upper half is all of it. */
static uint16_t upper_half(float value)
{
    uint16_t halves[2];

    memcpy(halves, &value, sizeof(halves));
    return halves[1];
}

static bool fill_gradient(const struct gradient *gradient, uint64_t elems, float value)
{
    uint16_t *halves = gradient->data;

    if (gradient->dtype == WRING_F32)
        return fill(gradient->data, elems, value);
    for (uint64_t i = 0; i < elems; i++)
        halves[i] = upper_half(value);
    return true;
}

static bool gradient_holds(const struct gradient *gradient, uint64_t elems, float value)
{
    const uint16_t *halves = gradient->data;

    if (gradient->dtype == WRING_F32)
        return holds(gradient->data, elems, value);
    for (uint64_t i = 0; i < elems; i++)
        if (halves[i] != upper_half(value))
            return false;
    return true;
}

static bool end_bucket(const struct wring_session *session, struct wring_bucket *bucket,
                       const struct gradient *gradient, int t)
{
    return wring_bucket_wait(bucket, WRING_FOREVER, NULL) == WRING_OK &&
           gradient_holds(gradient, sizes[t], sum_of(session));
}

static bool run_buckets(struct wring_session *session, int iterations, bool each, bool mixed)
{
    struct wring_bucket *buckets[TENSORS];
    struct gradient gradients[TENSORS];
    float own = (float)wring_session_rank(session) + 1;
    bool well = true;

    for (int t = 0; t < TENSORS && well; t++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        gradients[t].dtype = mixed && t % 2 == 1 ? WRING_BF16 : WRING_F32;
        well =
            wring_buffer_alloc(session, sizes[t] * sizeof(float), &gradients[t].data) == WRING_OK;
        params.name = names[t];
        params.data = gradients[t].data;
        params.dtype = gradients[t].dtype;
        params.elems = sizes[t];
        well = well && wring_bucket_register(session, &params, &buckets[t]) == WRING_OK;
    }
    well = well && wring_session_commit(session) == WRING_OK;
    for (int i = 0; i < iterations && well; i++) {
        for (int t = 0; t < TENSORS && well; t++) {
            compute(before_ms[t]);
            well = fill_gradient(&gradients[t], sizes[t], own) &&
                   wring_bucket_post(buckets[t]) == WRING_OK;
            well = well && (!each || end_bucket(session, buckets[t], &gradients[t], t));
        }
        for (int t = 0; t < TENSORS && well && !each; t++)
            well = end_bucket(session, buckets[t], &gradients[t], t);
    }
    return well;
}

static bool sum(struct wring_session *session, float *data, uint64_t elems)
{
    fill(data, elems, (float)wring_session_rank(session) + 1);
    return wring_allreduce(wring_session_world(session), data, data, elems, WRING_F32, WRING_SUM,
                           NULL, NULL) == WRING_OK &&
           holds(data, elems, sum_of(session));
}

static bool sum_double(struct wring_session *session)
{
    double value = 1;
    return wring_allreduce(wring_session_world(session), &value, &value, 1, WRING_F64, WRING_SUM,
                           NULL, NULL) == WRING_OK &&
           value == wring_session_size(session);
}

/** Three sums that are alike, of which two are under way at once; a scalar; one small sum. */
static bool iterate(struct wring_session *session, float data[][MOST])
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *requests[2];
    bool well = true;

    compute(60);
    for (int i = 0; i < 2 && well; i++) {
        fill(data[i], 4096, (float)wring_session_rank(session) + 1);
        well = wring_allreduce(world, data[i], data[i], 4096, WRING_F32, WRING_SUM, NULL,
                               &requests[i]) == WRING_OK;
        compute(2);
    }
    well = well && sum(session, data[2], 4096);
    for (int i = 0; i < 2 && well; i++)
        well = wring_request_wait(requests[i], WRING_FOREVER, NULL) == WRING_OK &&
               holds(data[i], 4096, sum_of(session));
    well = well && sum_double(session);
    compute(3);
    return well && sum(session, data[3], 100);
}

static bool run_calls(struct wring_session *session, int iterations)
{
    static float data[TENSORS][MOST];
    struct wring_group *world = wring_session_world(session);
    bool well = wring_broadcast(world, data[0], MOST, 0, NULL, NULL) == WRING_OK &&
                wring_barrier(world, NULL, NULL) == WRING_OK;

    for (int i = 0; i < iterations && well; i++)
        well = iterate(session, data);
    return well && sum(session, data[0], 9) && wring_barrier(world, NULL, NULL) == WRING_OK;
}

/** Sixty alike, then a larger one: no shorter sequence is an iteration. */
static bool run_stack(struct wring_session *session, int iterations)
{
    static float data[MOST];
    bool well = true;

    for (int i = 0; i < iterations && well; i++) {
        for (int layer = 0; layer < 60 && well; layer++)
            well = sum(session, data, 64);
        compute(2);
        well = well && sum(session, data, 512);
        compute(60);
    }
    return well;
}

static bool run_alike(struct wring_session *session, int iterations)
{
    static float data[3][MOST];
    struct wring_request *requests[3];
    bool well = true;

    for (int i = 0; i < iterations && well; i++) {
        compute(60);
        for (int c = 0; c < 3 && well; c++) {
            fill(data[c], MOST, (float)wring_session_rank(session) + 1);
            well = wring_allreduce(wring_session_world(session), data[c], data[c], MOST, WRING_F32,
                                   WRING_SUM, NULL, &requests[c]) == WRING_OK;
        }
        for (int c = 0; c < 3 && well; c++)
            well = wring_request_wait(requests[c], WRING_FOREVER, NULL) == WRING_OK &&
                   holds(data[c], MOST, sum_of(session));
    }
    return well;
}

static bool run_other(struct wring_session *session, int iterations)
{
    static float data[MOST];
    bool well = true;

    for (int i = 0; i < iterations && well; i++)
        well = sum(session, data, (uint64_t)i + 1);
    return well;
}

static bool run_doubles(struct wring_session *session, int iterations)
{
    bool well = true;

    for (int i = 0; i < iterations && well; i++)
        well = sum_double(session);
    return well;
}

static bool run(struct wring_session *session, const char *what, int iterations)
{
    if (strcmp(what, "buckets") == 0 || strcmp(what, "each") == 0 || strcmp(what, "mixed") == 0)
        return run_buckets(session, iterations, what[0] == 'e', what[0] == 'm');
    if (strcmp(what, "calls") == 0)
        return run_calls(session, iterations);
    if (strcmp(what, "stack") == 0)
        return run_stack(session, iterations);
    if (strcmp(what, "alike") == 0)
        return run_alike(session, iterations);
    if (strcmp(what, "other") == 0)
        return run_other(session, iterations);
    return strcmp(what, "doubles") == 0 && run_doubles(session, iterations);
}

int main(int argc, char **argv)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;

    if (argc != 3) {
        fprintf(stderr, "recorded_job WHAT ITERATIONS\n");
        return 2;
    }
    if (wring_session_open(&params, &session) != WRING_OK)
        return 1;
    bool well = run(session, argv[1], atoi(argv[2]));
    wring_session_close(session);
    return well ? 0 : 1;
}
