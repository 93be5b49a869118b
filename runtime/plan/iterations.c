/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/iterations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compress/codec.h"

void wring_iterations_init(struct wring_iterations *iterations, struct wring_session *session,
                           enum wring_status (*reached)(struct wring_iterations *iterations))
{
    *iterations = (struct wring_iterations){.session = session, .reached = reached};
    pthread_mutex_init(&iterations->mutex, NULL);
}

void wring_iterations_forget(struct wring_iterations *iterations)
{
    struct wring_session *session = iterations->session;
    struct wring_bucket *const lists[] = {session->buckets, session->fused};

    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next) {
            at->tensor = NULL;
            at->watch = NULL;
        }
    free(iterations->tensors);
    iterations->tensors = NULL;
    iterations->n = 0;
}

void wring_iterations_finish(struct wring_iterations *iterations)
{
    wring_iterations_forget(iterations);
    pthread_mutex_destroy(&iterations->mutex);
}

static enum wring_status arrive(struct wring_bucket *bucket);
static void posted(struct wring_bucket *bucket, uint64_t at_ns);
static bool is_over(struct wring_bucket *bucket, enum wring_status *status);
static void waited(struct wring_bucket *bucket, uint64_t began_ns, bool ended);

static const struct wring_bucket_watch watch = {
    .arrive = arrive,
    .posted = posted,
    .is_over = is_over,
    .waited = waited,
};

/* ---- who takes part ---- */

/** Only what is of one kind can travel as one: the first bucket's operation; plans merge elements
 * of one type. What was registered to go hierarchically or around a ring keeps the order of its
 * sums, and so its scheme; and an executor that is named. */
static bool may_travel_as_one(const struct wring_bucket *bucket, const struct wring_bucket *first)
{
    return wring_tensor_trace_has_type(bucket->dtype) && bucket->elems > 0 &&
           (bucket->op == WRING_SUM || bucket->op == WRING_AVG) &&
           !wring_scheme_is_hierarchical(bucket->scheme) && bucket->scheme != WRING_SCHEME_RING &&
           bucket->executor[0] == '\0' && bucket->group == bucket->session->world &&
           (first == NULL || bucket->op == first->op);
}

/** No plan switches off what changes training, or carries what a codec keeps from step to step. */
static bool is_movable(const struct wring_bucket *bucket)
{
    return !wring_codec_alters(bucket->codec) && wring_codec_info(bucket->codec)->states == 0;
}

enum wring_status wring_iterations_list(struct wring_iterations *iterations, bool movable)
{
    const struct wring_bucket *first = NULL;
    uint32_t n = 0;

    wring_iterations_forget(iterations);
    for (const struct wring_bucket *at = iterations->session->buckets; at != NULL; at = at->next)
        n++;
    iterations->tensors = calloc(n + 1, sizeof(*iterations->tensors));
    if (iterations->tensors == NULL)
        return WRING_ERR_NO_MEMORY;
    for (struct wring_bucket *at = iterations->session->buckets; at != NULL; at = at->next) {
        if (!may_travel_as_one(at, first) || (movable && !is_movable(at)))
            continue;
        first = first == NULL ? at : first;
        at->tensor = &iterations->tensors[iterations->n++];
        at->tensor->iterations = iterations;
        at->tensor->bucket = at;
        at->watch = &watch;
    }
    return WRING_OK;
}

/* ---- what an iteration is ---- */

void wring_iterations_restart(struct wring_iterations *iterations, uint64_t due)
{
    for (uint32_t i = 0; i < iterations->n; i++) {
        iterations->tensors[i].posts = 0;
        iterations->tensors[i].pending = false;
    }
    iterations->iteration = 0;
    iterations->due = due;
    iterations->left = iterations->n;
    iterations->began_ns = iterations->ended_ns = iterations->waited_ns = 0;
    iterations->early = false;
}

/** Where an iteration's times go: those after warming up, the last ones. */
static uint32_t iteration_slot(const struct wring_iterations *iterations)
{
    uint64_t warm = iterations->iteration < WRING_ITERATIONS_WARM ? 0 : WRING_ITERATIONS_WARM;

    return (uint32_t)((iterations->iteration - warm) % WRING_ITERATIONS_TIMED);
}

/** An iteration is complete; the next one begins where it ended. */
static enum wring_status begin_next_iteration(struct wring_iterations *iterations)
{
    uint64_t ended_ns = iterations->ended_ns;

    for (uint32_t i = 0; i < iterations->n; i++)
        if (iterations->tensors[i].pending) /* nobody has looked whether it ended */
            ended_ns = wring_now_ns();
    iterations->took_us[iteration_slot(iterations)] =
        (double)(ended_ns - iterations->began_ns) / 1e3;
    iterations->iteration++;
    iterations->began_ns = ended_ns;
    iterations->waited_ns = 0;
    for (uint32_t i = 0; i < iterations->n; i++)
        iterations->left += iterations->tensors[i].posts == iterations->iteration;
    return iterations->iteration < iterations->due ? WRING_OK : iterations->reached(iterations);
}

static enum wring_status arrive(struct wring_bucket *bucket)
{
    struct wring_iterations *iterations = bucket->tensor->iterations;
    enum wring_status status = WRING_OK;

    pthread_mutex_lock(&iterations->mutex);
    if (iterations->left == 0 && !iterations->off)
        status = begin_next_iteration(iterations);
    pthread_mutex_unlock(&iterations->mutex);
    return status;
}

enum wring_status wring_iterations_end(struct wring_iterations *iterations)
{
    enum wring_status status = WRING_OK;

    pthread_mutex_lock(&iterations->mutex);
    if (iterations->left == 0 && iterations->n > 0 && !iterations->off)
        status = begin_next_iteration(iterations);
    pthread_mutex_unlock(&iterations->mutex);
    return status;
}

static void posted(struct wring_bucket *bucket, uint64_t at_ns)
{
    struct wring_iterated *tensor = bucket->tensor;
    struct wring_iterations *iterations = tensor->iterations;

    pthread_mutex_lock(&iterations->mutex);
    double computed_us = (double)(at_ns - iterations->began_ns - iterations->waited_ns) / 1e3;
    tensor->pending = true;
    if (tensor->posts++ == iterations->iteration) {
        iterations->left--;
        tensor->ready_us[iteration_slot(iterations)] = computed_us;
        iterations->compute_us[iteration_slot(iterations)] = computed_us;
    }
    iterations->waited_ns += wring_now_ns() - at_ns;
    pthread_mutex_unlock(&iterations->mutex);
}

static bool is_over(struct wring_bucket *bucket, enum wring_status *status)
{
    struct wring_iterations *iterations = bucket->tensor->iterations;

    pthread_mutex_lock(&iterations->mutex);
    bool over = bucket->committed && !bucket->tensor->pending;
    if (over)
        *status = (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                          memory_order_acquire);
    pthread_mutex_unlock(&iterations->mutex);
    return over;
}

static void waited(struct wring_bucket *bucket, uint64_t began_ns, bool ended)
{
    struct wring_iterations *iterations = bucket->tensor->iterations;

    pthread_mutex_lock(&iterations->mutex);
    if (bucket->tensor->pending) {
        uint64_t now_ns = wring_now_ns();
        if (iterations->left > 0 && began_ns != 0) {
            iterations->waited_ns += now_ns - began_ns;
            iterations->early = true;
        }
        bucket->tensor->pending = !ended;
        iterations->ended_ns = now_ns;
    }
    pthread_mutex_unlock(&iterations->mutex);
}

/* ---- what comes of it ---- */

static int compare_values(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

double wring_iterations_median(const double *values, uint32_t n)
{
    double sorted[WRING_ITERATIONS_TIMED];

    memcpy(sorted, values, n * sizeof(*values));
    qsort(sorted, n, sizeof(*sorted), compare_values);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/** Insertion: posts come in this order or nearly so. */
static void sort_by_ready(const struct wring_iterations *iterations, const double *ready_us,
                          uint32_t *order)
{
    for (uint32_t i = 0; i < iterations->n; i++) {
        uint32_t at = i;
        for (; at > 0 && ready_us[order[at - 1]] > ready_us[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

enum wring_status wring_iterations_trace(const struct wring_iterations *iterations,
                                         const double *ready_us, uint32_t **order,
                                         struct wring_tensor_trace *trace)
{
    trace->model = (char *)"this job";
    trace->source = (char *)"recorded while it ran; forward and the optimizer's step are before "
                            "the first tensor";
    trace->forward_us = NAN; /* it is in when they are ready, and so is the optimizer's step */
    trace->tensors = calloc(iterations->n, sizeof(*trace->tensors));
    *order = calloc(iterations->n, sizeof(**order));
    if (trace->tensors == NULL || *order == NULL)
        return WRING_ERR_NO_MEMORY;
    sort_by_ready(iterations, ready_us, *order);
    for (trace->n = 0; trace->n < iterations->n; trace->n++) {
        uint32_t i = (*order)[trace->n];
        const struct wring_bucket *bucket = iterations->tensors[i].bucket;
        trace->tensors[trace->n] = (struct wring_tensor){.name = (char *)bucket->name,
                                                         .elems = bucket->elems,
                                                         .ready_us = ready_us[i],
                                                         .dtype = bucket->dtype};
    }
    wring_tensor_trace_gather_dtype(trace);
    return wring_tensor_trace_rehash(trace);
}
