/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "runtime/plan/iterations.h"

#define WRING_MODULE "record"

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
static bool repeats_call_before(const struct wring_recorded_calls *calls, uint32_t at,
                                uint32_t period)
{
    return calls->list[at].signature == calls->list[at - period].signature;
}

/** The last calls as far as they repeat, but no more than are wanted. */
static struct window last_window(const struct wring_recorded_calls *calls, uint32_t period,
                                 uint32_t wanted)
{
    uint32_t at = calls->n;
    while (at > period && calls->n - at + period < wanted &&
           repeats_call_before(calls, at - 1, period))
        at--;
    return (struct window){at - period, calls->n};
}

/** The most calls in a row that repeat. */
static struct window longest_window(const struct wring_recorded_calls *calls, uint32_t period)
{
    struct window best = {0, 0};
    uint32_t begin = 0;

    for (uint32_t at = period; at < calls->n; at++) {
        if (!repeats_call_before(calls, at, period))
            begin = at - period + 1;
        if (at + 1 - begin > best.end - best.begin)
            best = (struct window){begin, at + 1};
    }
    return best;
}

static bool has_tensor_call(const struct wring_recorded_calls *calls, struct window window,
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
    return out->end - out->begin >= least && has_tensor_call(calls, *out, period);
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

static uint32_t recorded_call(const struct rows *rows, uint32_t i, uint32_t column)
{
    return rows->end - (i + 1) * rows->row + column;
}

/** The place before which most is computed in most rows. @param counts  [row], scratch
 *  @return row: none in three of four */
static uint32_t find_leader(const struct rows *rows, uint32_t *counts)
{
    memset(counts, 0, rows->row * sizeof(*counts));
    for (uint32_t i = 0; i < rows->n; i++) {
        uint32_t longest = 0;
        for (uint32_t column = 1; column < rows->row; column++)
            if (gap_us(rows->calls, recorded_call(rows, i, column)) >
                gap_us(rows->calls, recorded_call(rows, i, longest)))
                longest = column;
        counts[longest]++;
    }
    uint32_t column = 0;
    while (column < rows->row && 4 * counts[column] < 3 * rows->n)
        column++;
    return column;
}

static int compare_rising(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/** @param us  [n], scratch */
static double median_gap_us(const struct rows *rows, uint32_t column, double *us)
{
    for (uint32_t i = 0; i < rows->n; i++)
        us[i] = gap_us(rows->calls, recorded_call(rows, i, column));
    qsort(us, rows->n, sizeof(*us), compare_rising);
    return us[rows->n / 2];
}

/** Is much more computed before it than before any other? @param us  [n], scratch */
static bool stands_out(const struct rows *rows, uint32_t leader, double *us)
{
    double most_us = median_gap_us(rows, leader, us);
    for (uint32_t column = 0; column < rows->row; column++)
        if (column != leader && median_gap_us(rows, column, us) * WRING_CALLS_STANDS_OUT > most_us)
            return false;
    return true;
}

/** Take several repetitions as one iteration, if one call of it stands out then. */
static void join_repetitions(const struct wring_recorded_calls *calls, struct window window,
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
        *period = (struct wring_recorded_period){row, recorded_call(&rows, leader > 0, leader)};
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
            join_repetitions(calls, window, out);
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
        *tensor = (struct wring_tensor){.name = strdup(name),
                                        .elems = elems,
                                        .ready_us = ready_us(calls, period, i),
                                        .dtype = calls->list[period->last + i].dtype};
        if (tensor->name == NULL)
            return WRING_ERR_NO_MEMORY;
        trace->n++;
    }
    return WRING_OK;
}

static char *describe_period(const struct wring_recorded_period *period, uint32_t tensors)
{
    char text[256];

    snprintf(text, sizeof(text),
             "WRING_RECORD: rank 0, medians of %d iterations of %" PRIu32 " calls among all ranks, "
             "of which %" PRIu32 " are sums of f32, f16 or bf16; forward and the optimizer's step "
             "are before the first",
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
    trace->forward_us = NAN;
    trace->tensors = calloc(period->calls, sizeof(*trace->tensors));
    enum wring_status status = trace->model != NULL && trace->tensors != NULL
                                   ? add_tensors(calls, period, trace)
                                   : WRING_ERR_NO_MEMORY;
    trace->source = describe_period(period, trace->n);
    if (status == WRING_OK && trace->source != NULL) {
        wring_tensor_trace_gather_dtype(trace);
        status = wring_tensor_trace_rehash(trace);
    }
    if (status != WRING_OK || trace->source == NULL) {
        wring_tensor_trace_destroy(trace);
        return WRING_ERR_NO_MEMORY;
    }
    *out = trace;
    return WRING_OK;
}

/* ---- recorder ---- */

#define LOOK_CALLS 64 /* between looks whether calls repeat */

struct wring_recorder {
    struct wring_session *session;
    struct wring_iterations buckets; /* none take part: calls are recorded */
    atomic_bool by_calls;
    atomic_bool over; /* a trace was written, or cannot be */

    pthread_mutex_t mutex; /* guards the fields below */
    struct wring_recorded_calls calls;
    uint32_t inside;     /* threads whose time is none of computing */
    uint64_t resumed_ns; /* with none inside: since when all computes */
    uint64_t computed_ns;
};

/* ---- the file ---- */

static bool write_trace_file(const struct wring_tensor_trace *trace, const char *path,
                             enum wring_status *status)
{
    struct wring_atomic_file draft;

    *status = WRING_ERR_SYSTEM;
    if (!wring_atomic_file_open(&draft, path, 0644))
        return false;
    *status = wring_tensor_trace_save(trace, draft.file);
    return wring_atomic_file_close(&draft, path, *status == WRING_OK);
}

static void say_unwritten(const struct wring_session *session, const char *why)
{
    wring_warn(&session->log,
               "WRING_RECORD=%s: no trace can be written there: %s: name a file in a folder that "
               "exists, has room, and may be written",
               session->config.record, why);
}

void wring_recorder_write(struct wring_recorder *recorder, const struct wring_tensor_trace *trace)
{
    const struct wring_session *session = recorder->session;
    enum wring_status status;

    if (atomic_exchange(&recorder->over, true))
        return;
    if (write_trace_file(trace, session->config.record, &status))
        wring_info(&session->log, "WRING_RECORD=%s: the trace is written, %" PRIu32 " tensors: %s",
                   session->config.record, trace->n, trace->source);
    else if (status == WRING_ERR_NO_MEMORY)
        wring_warn(&session->log,
                   "WRING_RECORD=%s: no trace is written: there is no memory, or the name of a "
                   "bucket is not UTF-8, which JSON needs: rename it",
                   session->config.record);
    else
        say_unwritten(session, strerror(errno));
}

/** Before the job has run for hours. @return false: nothing can be written there */
static bool try_to_write(const struct wring_session *session)
{
    const char *path = session->config.record;
    struct wring_atomic_file draft;

    if (wring_atomic_file_open(&draft, path, 0644)) {
        wring_atomic_file_close(&draft, path, false);
        return true;
    }
    say_unwritten(session, strerror(errno));
    return false;
}

/* ---- committed buckets ---- */

static enum wring_status write_trace_of_buckets(struct wring_recorder *recorder)
{
    struct wring_iterations *buckets = &recorder->buckets;
    double *ready_us = calloc(buckets->n, sizeof(*ready_us));
    struct wring_tensor_trace trace = {0};
    enum wring_status status = ready_us != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    uint32_t *order = NULL;

    for (uint32_t i = 0; i < buckets->n && status == WRING_OK; i++)
        ready_us[i] = wring_iterations_median(buckets->tensors[i].ready_us, WRING_ITERATIONS_TIMED);
    if (status == WRING_OK)
        status = wring_iterations_trace(buckets, ready_us, &order, &trace);
    if (status == WRING_OK)
        wring_recorder_write(recorder, &trace);
    free(trace.tensors);
    free(order);
    free(ready_us);
    return status;
}

/** Enough iterations are complete. */
static enum wring_status on_iterations_complete(struct wring_iterations *iterations)
{
    struct wring_recorder *recorder = iterations->session->recorder;

    iterations->off = true;
    if (write_trace_of_buckets(recorder) != WRING_OK)
        wring_warn(&recorder->session->log, "WRING_RECORD=%s: no trace is written: out of memory",
                   recorder->session->config.record);
    atomic_store(&recorder->over, true);
    return WRING_OK;
}

enum wring_status wring_recorder_begin(struct wring_session *session)
{
    struct wring_recorder *recorder = session->recorder;

    if (recorder == NULL || session->autotune != NULL)
        return WRING_OK;
    if (atomic_load(&recorder->over)) { /* buckets take their fast path again */
        wring_iterations_forget(&recorder->buckets);
        return WRING_OK;
    }
    pthread_mutex_lock(&recorder->buckets.mutex);
    enum wring_status status = wring_iterations_list(&recorder->buckets, false);
    wring_iterations_restart(&recorder->buckets, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    recorder->buckets.off = recorder->buckets.n == 0;
    atomic_store(&recorder->by_calls, recorder->buckets.n == 0);
    pthread_mutex_unlock(&recorder->buckets.mutex);
    return status;
}

/* ---- immediate calls ---- */

static bool is_recording(const struct wring_recorder *recorder, const struct wring_group *group)
{
    return !atomic_load_explicit(&recorder->over, memory_order_relaxed) &&
           atomic_load_explicit(&recorder->by_calls, memory_order_relaxed) &&
           group->members.n == recorder->session->size;
}

/** Computing stands still from now on. */
static void stop_clock(struct wring_recorder *recorder)
{
    uint64_t now_ns = wring_now_ns();
    if (recorder->inside++ == 0)
        recorder->computed_ns += now_ns - recorder->resumed_ns;
}

static struct wring_recorded_call describe_call(const struct wring_op_check *call, double at_us)
{
    bool sums = call->op == WRING_SUM || call->op == WRING_AVG || call->op == WRING_PREMUL_SUM;
    bool planned = wring_tensor_trace_has_type(call->dtype);
    bool tensor = call->kind == WRING_CALL_ALLREDUCE && planned && sums;
    uint64_t hash =
        wring_fold(wring_fold(wring_fold(call->kind, call->dtype), call->op), call->root);

    return (struct wring_recorded_call){
        .signature = wring_fold(wring_fold(hash, call->elems), call->runs),
        .elems = tensor ? call->elems : 0,
        .dtype = call->dtype,
        .at_us = at_us,
    };
}

/** @param ends  no more calls follow. @return false: there are no iterations in them so far */
static bool write_trace_of_calls(struct wring_recorder *recorder, bool ends)
{
    struct wring_recorded_period period;
    struct wring_tensor_trace *trace;

    if (!wring_recorded_calls_find(&recorder->calls, ends, &period))
        return false;
    if (wring_recorded_calls_trace(&recorder->calls, &period, &trace) == WRING_OK) {
        wring_recorder_write(recorder, trace);
        wring_tensor_trace_destroy(trace);
    } else {
        wring_warn(&recorder->session->log, "WRING_RECORD=%s: no trace is written: out of memory",
                   recorder->session->config.record);
    }
    return true;
}

static void say_no_iterations(const struct wring_recorder *recorder)
{
    wring_warn(&recorder->session->log,
               "WRING_RECORD=%s: no trace is written: among the job's %" PRIu32
               " calls of all ranks no sequence with a sum of f32, f16 or bf16 repeats %d times in "
               "a row: run "
               "more iterations, or register buckets (docs/observing.md)",
               recorder->session->config.record, recorder->calls.n, WRING_CALLS_REPEATS);
}

static void note_call(struct wring_recorder *recorder, const struct wring_op_check *check)
{
    const struct wring_recorded_call call =
        describe_call(check, (double)recorder->computed_ns / 1e3);
    bool full = !wring_recorded_calls_add(&recorder->calls, &call);
    bool look = recorder->calls.n >= WRING_CALLS_SURE && recorder->calls.n % LOOK_CALLS == 0;

    bool written = (full || look) && write_trace_of_calls(recorder, full);
    if (full && !written)
        say_no_iterations(recorder);
    if (full || written)
        atomic_store(&recorder->over, true);
}

bool wring_recorder_call(struct wring_recorder *recorder, const struct wring_group *group,
                         const struct wring_work *work)
{
    if (!is_recording(recorder, group))
        return false;
    pthread_mutex_lock(&recorder->mutex);
    stop_clock(recorder);
    if (!atomic_load(&recorder->over))
        note_call(recorder, &work->call);
    pthread_mutex_unlock(&recorder->mutex);
    return true;
}

bool wring_recorder_wait(struct wring_recorder *recorder, const struct wring_group *group)
{
    if (!is_recording(recorder, group))
        return false;
    pthread_mutex_lock(&recorder->mutex);
    stop_clock(recorder);
    pthread_mutex_unlock(&recorder->mutex);
    return true;
}

void wring_recorder_leave(struct wring_recorder *recorder)
{
    pthread_mutex_lock(&recorder->mutex);
    if (--recorder->inside == 0)
        recorder->resumed_ns = wring_now_ns();
    pthread_mutex_unlock(&recorder->mutex);
}

/* ---- its life ---- */

enum wring_status wring_recorder_open(struct wring_session *session)
{
    if (session->rank != 0 || session->config.record[0] == '\0' || !try_to_write(session))
        return WRING_OK;
    struct wring_recorder *recorder = calloc(1, sizeof(*recorder));
    if (recorder == NULL)
        return WRING_ERR_NO_MEMORY;
    recorder->session = session;
    recorder->resumed_ns = wring_now_ns();
    atomic_init(&recorder->by_calls, true);
    atomic_init(&recorder->over, false);
    pthread_mutex_init(&recorder->mutex, NULL);
    wring_iterations_init(&recorder->buckets, session, on_iterations_complete);
    session->recorder = recorder;
    return WRING_OK;
}

static void end_bucket_record(struct wring_recorder *recorder)
{
    wring_iterations_end(&recorder->buckets); /* which may write the trace */
    if (atomic_load(&recorder->over))
        return;
    wring_warn(
        &recorder->session->log,
        "WRING_RECORD=%s: no trace is written: the job ended after %" PRIu64
        " of %d iterations, each of which posts every bucket that is a sum or average of f32, "
        "f16 or bf16 among all ranks: run more",
        recorder->session->config.record, recorder->buckets.iteration, WRING_CALLS_REPEATS);
}

static void end_recorder(struct wring_recorder *recorder)
{
    if (atomic_load(&recorder->over))
        return;
    if (recorder->session->autotune != NULL)
        wring_warn(&recorder->session->log,
                   "WRING_RECORD=%s: no trace is written: WRING_PLAN=auto had nothing to ask the "
                   "planner: run more iterations",
                   recorder->session->config.record);
    else if (!atomic_load(&recorder->by_calls))
        end_bucket_record(recorder);
    else if (!write_trace_of_calls(recorder, true))
        say_no_iterations(recorder);
}

void wring_recorder_close(struct wring_session *session)
{
    struct wring_recorder *recorder = session->recorder;

    if (recorder == NULL)
        return;
    end_recorder(recorder);
    wring_iterations_finish(&recorder->buckets);
    wring_recorded_calls_finish(&recorder->calls);
    pthread_mutex_destroy(&recorder->mutex);
    free(recorder);
    session->recorder = NULL;
}
