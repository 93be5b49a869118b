/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/recorded_calls.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wring_recorded_calls_add(struct wring_recorded_calls *calls,
                              const struct wring_recorded_call *call)
{
    if (calls->list == NULL)
        calls->list = malloc(WRING_CALLS_MAX * sizeof(*calls->list));
    if (calls->list == NULL || calls->n == WRING_CALLS_MAX)
        return false;
    calls->list[calls->n++] = *call;
    return true;
}

void wring_recorded_calls_finish(struct wring_recorded_calls *calls)
{
    free(calls->list);
    *calls = (struct wring_recorded_calls){0};
}

/* ---- what repeats ---- */

/** Calls from `begin` on. */
struct window {
    uint32_t begin, end;
};

/** Is that call as the one a period before? */
static bool repeats(const struct wring_recorded_calls *calls, uint32_t at, uint32_t period)
{
    return calls->list[at].signature == calls->list[at - period].signature;
}

/** The last calls as far as they repeat, but no more than are wanted. */
static struct window last_window(const struct wring_recorded_calls *calls, uint32_t period,
                                 uint32_t wanted)
{
    uint32_t at = calls->n;
    while (at > period && calls->n - at + period < wanted && repeats(calls, at - 1, period))
        at--;
    return (struct window){at - period, calls->n};
}

/** The most calls in a row that repeat. */
static struct window longest_window(const struct wring_recorded_calls *calls, uint32_t period)
{
    struct window best = {0, 0};
    uint32_t begin = 0;

    for (uint32_t at = period; at < calls->n; at++) {
        if (!repeats(calls, at, period))
            begin = at - period + 1;
        if (at + 1 - begin > best.end - best.begin)
            best = (struct window){begin, at + 1};
    }
    return best;
}

static bool has_tensor(const struct wring_recorded_calls *calls, struct window window,
                       uint32_t period)
{
    for (uint32_t i = window.end - period; i < window.end; i++)
        if (calls->list[i].elems > 0)
            return true;
    return false;
}

/** @return false: too few calls repeat so */
static bool find_window(const struct wring_recorded_calls *calls, uint32_t period, bool ends,
                        struct window *out)
{
    uint32_t least = ends ? calls->n / 2 : WRING_CALLS_SURE;

    if (least < period * WRING_CALLS_REPEATS)
        least = period * WRING_CALLS_REPEATS;
    if (least > calls->n)
        return false;
    *out = ends ? longest_window(calls, period) : last_window(calls, period, least);
    return out->end - out->begin >= least && has_tensor(calls, *out, period);
}

/* ---- where an iteration begins ---- */

static double gap_us(const struct wring_recorded_calls *calls, uint32_t at)
{
    return calls->list[at].at_us - calls->list[at - 1].at_us;
}

/** How long is computed before that call of the last iterations? */
static double usual_gap_us(const struct wring_recorded_calls *calls, uint32_t last, uint32_t period)
{
    double gaps[WRING_ITERATIONS_TIMED];
    for (uint32_t i = 0; i < WRING_ITERATIONS_TIMED; i++)
        gaps[i] = gap_us(calls, last - i * period);
    return wring_iterations_median(gaps, WRING_ITERATIONS_TIMED);
}

/** Behind the longest stretch of computing; where several are as long, the earliest call. */
static uint32_t find_begin(const struct wring_recorded_calls *calls, struct window window,
                           uint32_t period)
{
    uint32_t first = window.end - 2 * period + 1, best = first;
    double most_us = -1;

    for (uint32_t i = first; i < first + period; i++) {
        double us = usual_gap_us(calls, i, period);
        if (us <= most_us)
            continue;
        most_us = us;
        best = i;
    }
    return best;
}

/* ---- calls that are alike ---- */

/** The last calls in rows of `row` each, as many as there are: the same place in all rows is the
 *  same call of an iteration, if that is as long. */
struct rows {
    const struct wring_recorded_calls *calls;
    uint32_t end, row, n;
};

static uint32_t call_at(const struct rows *rows, uint32_t i, uint32_t place)
{
    return rows->end - (i + 1) * rows->row + place;
}

/** The place before which most is computed in most rows. @param counts  [row], scratch
 *  @return row: none in three of four */
static uint32_t find_leader(const struct rows *rows, uint32_t *counts)
{
    memset(counts, 0, rows->row * sizeof(*counts));
    for (uint32_t i = 0; i < rows->n; i++) {
        uint32_t longest = 0;
        for (uint32_t place = 1; place < rows->row; place++)
            if (gap_us(rows->calls, call_at(rows, i, place)) >
                gap_us(rows->calls, call_at(rows, i, longest)))
                longest = place;
        counts[longest]++;
    }
    uint32_t place = 0;
    while (place < rows->row && 4 * counts[place] < 3 * rows->n)
        place++;
    return place;
}

static int rising(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/** @param us  [n], scratch */
static double median_gap_us(const struct rows *rows, uint32_t place, double *us)
{
    for (uint32_t i = 0; i < rows->n; i++)
        us[i] = gap_us(rows->calls, call_at(rows, i, place));
    qsort(us, rows->n, sizeof(*us), rising);
    return us[rows->n / 2];
}

/** Is much more computed before it than before any other? @param us  [n], scratch */
static bool stands_out(const struct rows *rows, uint32_t leader, double *us)
{
    double most_us = median_gap_us(rows, leader, us);
    for (uint32_t place = 0; place < rows->row; place++)
        if (place != leader && median_gap_us(rows, place, us) * WRING_CALLS_STANDS_OUT > most_us)
            return false;
    return true;
}

/** Several of what repeats are one iteration, if that makes one call stand out. */
static void join_alike(const struct wring_recorded_calls *calls, struct window window,
                       struct wring_recorded_period *period)
{
    uint32_t n = window.end - window.begin - 1, step = period->calls;
    uint32_t *counts = malloc(n * sizeof(*counts));
    double *us = malloc(n * sizeof(*us));

    for (uint32_t row = step > 1 ? step : 2; row <= n / WRING_CALLS_REPEATS; row += step) {
        const struct rows rows = {calls, window.end, row, n / row};
        uint32_t leader = counts != NULL && us != NULL ? find_leader(&rows, counts) : row;
        if (leader == row || !stands_out(&rows, leader, us))
            continue;
        *period = (struct wring_recorded_period){row, call_at(&rows, leader > 0, leader)};
        break;
    }
    free(us);
    free(counts);
}

bool wring_recorded_calls_find(const struct wring_recorded_calls *calls, bool ends,
                               struct wring_recorded_period *out)
{
    struct window window;

    for (uint32_t period = 1; period <= calls->n / WRING_CALLS_REPEATS; period++)
        if (find_window(calls, period, ends, &window)) {
            *out = (struct wring_recorded_period){period, find_begin(calls, window, period)};
            join_alike(calls, window, out);
            return true;
        }
    return false;
}

/* ---- the trace ---- */

/** When that call of an iteration is made, as the medians have it, to the nanosecond. */
static double ready_us(const struct wring_recorded_calls *calls,
                       const struct wring_recorded_period *period, uint32_t call)
{
    double us[WRING_ITERATIONS_TIMED];

    for (uint32_t i = 0; i < WRING_ITERATIONS_TIMED; i++) {
        uint32_t first = period->last - i * period->calls;
        us[i] = calls->list[first + call].at_us - calls->list[first - 1].at_us;
    }
    return round(wring_iterations_median(us, WRING_ITERATIONS_TIMED) * 1e3) / 1e3;
}

static enum wring_status add_tensors(const struct wring_recorded_calls *calls,
                                     const struct wring_recorded_period *period,
                                     struct wring_tensor_trace *trace)
{
    char name[64];

    for (uint32_t i = 0; i < period->calls; i++) {
        uint64_t elems = calls->list[period->last + i].elems;
        if (elems == 0)
            continue;
        snprintf(name, sizeof(name), "call %" PRIu32 " of %" PRIu32, i + 1, period->calls);
        struct wring_tensor *tensor = &trace->tensors[trace->n];
        *tensor = (struct wring_tensor){strdup(name), elems, ready_us(calls, period, i)};
        if (tensor->name == NULL)
            return WRING_ERR_NO_MEMORY;
        trace->n++;
    }
    return WRING_OK;
}

static char *describe(const struct wring_recorded_period *period, uint32_t tensors)
{
    char text[256];

    snprintf(text, sizeof(text),
             "WRING_RECORD: rank 0, medians of %d iterations of %" PRIu32 " calls among all ranks, "
             "of which %" PRIu32 " are sums of f32; forward and the optimizer's step are before "
             "the first",
             WRING_ITERATIONS_TIMED, period->calls, tensors);
    return strdup(text);
}

enum wring_status wring_recorded_calls_trace(const struct wring_recorded_calls *calls,
                                             const struct wring_recorded_period *period,
                                             struct wring_tensor_trace **out)
{
    struct wring_tensor_trace *trace = calloc(1, sizeof(*trace));

    if (trace == NULL)
        return WRING_ERR_NO_MEMORY;
    trace->model = strdup("this job");
    trace->dtype = WRING_F32;
    trace->forward_us = NAN;
    trace->tensors = calloc(period->calls, sizeof(*trace->tensors));
    enum wring_status status = trace->model != NULL && trace->tensors != NULL
                                   ? add_tensors(calls, period, trace)
                                   : WRING_ERR_NO_MEMORY;
    trace->source = describe(period, trace->n);
    if (status == WRING_OK && trace->source != NULL)
        status = wring_tensor_trace_rehash(trace);
    if (status != WRING_OK || trace->source == NULL) {
        wring_tensor_trace_destroy(trace);
        return WRING_ERR_NO_MEMORY;
    }
    *out = trace;
    return WRING_OK;
}
