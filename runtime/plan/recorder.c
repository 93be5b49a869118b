/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/draft.h"
#include "runtime/plan/iterations.h"
#include "runtime/plan/recorded_calls.h"

#define WRING_MODULE "record"
#define LOOK_CALLS 64 /* between looks whether calls repeat */

struct wring_recorder {
    struct wring_session *session;
    struct wring_iterations buckets; /* none take part: calls are recorded */
    atomic_bool by_calls;
    atomic_bool over; /* a trace was written, or cannot be */

    pthread_mutex_t mutex; /* of what follows */
    struct wring_recorded_calls calls;
    uint32_t inside;     /* threads whose time is none of computing */
    uint64_t resumed_ns; /* with none inside: since when all computes */
    uint64_t computed_ns;
};

/* ---- the file ---- */

static bool write_file(const struct wring_tensor_trace *trace, const char *path,
                       enum wring_status *status)
{
    struct wring_draft draft;

    *status = WRING_ERR_SYSTEM;
    if (!wring_draft_open(&draft, path, 0644))
        return false;
    *status = wring_tensor_trace_save(trace, draft.file);
    return wring_draft_close(&draft, path, *status == WRING_OK);
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
    if (write_file(trace, session->config.record, &status))
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
static bool may_write(const struct wring_session *session)
{
    const char *path = session->config.record;
    struct wring_draft draft;

    if (wring_draft_open(&draft, path, 0644)) {
        wring_draft_close(&draft, path, false);
        return true;
    }
    say_unwritten(session, strerror(errno));
    return false;
}

/* ---- committed buckets ---- */

static enum wring_status write_buckets(struct wring_recorder *recorder)
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
static enum wring_status reached(struct wring_iterations *iterations)
{
    struct wring_recorder *recorder = iterations->session->recorder;

    iterations->off = true;
    if (write_buckets(recorder) != WRING_OK)
        wring_warn(&recorder->session->log, "WRING_RECORD=%s: no trace is written: out of memory",
                   recorder->session->config.record);
    atomic_store(&recorder->over, true);
    return WRING_OK;
}

enum wring_status wring_recorder_begin(struct wring_session *session)
{
    struct wring_recorder *recorder = session->recorder;

    if (recorder == NULL || session->autoplan != NULL)
        return WRING_OK;
    if (atomic_load(&recorder->over)) { /* buckets go their short way again */
        wring_iterations_forget(&recorder->buckets);
        return WRING_OK;
    }
    pthread_mutex_lock(&recorder->buckets.mutex);
    enum wring_status status = wring_iterations_list(&recorder->buckets);
    wring_iterations_restart(&recorder->buckets, WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED);
    recorder->buckets.off = recorder->buckets.n == 0;
    atomic_store(&recorder->by_calls, recorder->buckets.n == 0);
    pthread_mutex_unlock(&recorder->buckets.mutex);
    return status;
}

/* ---- immediate calls ---- */

static bool records(const struct wring_recorder *recorder, const struct wring_group *group)
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

static uint64_t fold(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u; /* 2^64 by the golden ratio */
    return hash ^ hash >> 32;
}

static struct wring_recorded_call describe(const struct wring_op_check *call, double at_us)
{
    bool sums = call->op == WRING_SUM || call->op == WRING_AVG || call->op == WRING_PREMUL_SUM;
    bool tensor = call->kind == WRING_CALL_ALLREDUCE && call->dtype == WRING_F32 && sums;
    uint64_t hash = fold(fold(fold(call->kind, call->dtype), call->op), call->root);

    return (struct wring_recorded_call){
        .signature = fold(fold(hash, call->elems), call->runs),
        .elems = tensor ? call->elems : 0,
        .at_us = at_us,
    };
}

/** @param ends  no more calls follow. @return false: there are no iterations in them so far */
static bool write_calls(struct wring_recorder *recorder, bool ends)
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
               " calls of all ranks no sequence with a sum of f32 repeats %d times in a row: run "
               "more iterations, or register buckets (docs/observing.md)",
               recorder->session->config.record, recorder->calls.n, WRING_CALLS_REPEATS);
}

static void note_call(struct wring_recorder *recorder, const struct wring_op_check *check)
{
    const struct wring_recorded_call call = describe(check, (double)recorder->computed_ns / 1e3);
    bool full = !wring_recorded_calls_add(&recorder->calls, &call);
    bool look = recorder->calls.n >= WRING_CALLS_SURE && recorder->calls.n % LOOK_CALLS == 0;

    bool written = (full || look) && write_calls(recorder, full);
    if (full && !written)
        say_no_iterations(recorder);
    if (full || written)
        atomic_store(&recorder->over, true);
}

bool wring_recorder_call(struct wring_recorder *recorder, const struct wring_group *group,
                         const struct wring_work *work)
{
    if (!records(recorder, group))
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
    if (!records(recorder, group))
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
    if (session->rank != 0 || session->config.record[0] == '\0' || !may_write(session))
        return WRING_OK;
    struct wring_recorder *recorder = calloc(1, sizeof(*recorder));
    if (recorder == NULL)
        return WRING_ERR_NO_MEMORY;
    recorder->session = session;
    recorder->resumed_ns = wring_now_ns();
    atomic_init(&recorder->by_calls, true);
    atomic_init(&recorder->over, false);
    pthread_mutex_init(&recorder->mutex, NULL);
    wring_iterations_init(&recorder->buckets, session, reached);
    session->recorder = recorder;
    return WRING_OK;
}

static void end_buckets(struct wring_recorder *recorder)
{
    wring_iterations_end(&recorder->buckets); /* which may write the trace */
    if (atomic_load(&recorder->over))
        return;
    wring_warn(
        &recorder->session->log,
        "WRING_RECORD=%s: no trace is written: the job ended after %" PRIu64
        " of %d iterations, each of which posts every bucket that is a sum or average of f32 "
        "among all ranks: run more",
        recorder->session->config.record, recorder->buckets.iteration, WRING_CALLS_REPEATS);
}

static void end(struct wring_recorder *recorder)
{
    if (atomic_load(&recorder->over))
        return;
    if (recorder->session->autoplan != NULL)
        wring_warn(&recorder->session->log,
                   "WRING_RECORD=%s: no trace is written: WRING_PLAN=auto had nothing to ask the "
                   "planner: run more iterations",
                   recorder->session->config.record);
    else if (!atomic_load(&recorder->by_calls))
        end_buckets(recorder);
    else if (!write_calls(recorder, true))
        say_no_iterations(recorder);
}

void wring_recorder_close(struct wring_session *session)
{
    struct wring_recorder *recorder = session->recorder;

    if (recorder == NULL)
        return;
    end(recorder);
    wring_iterations_finish(&recorder->buckets);
    wring_recorded_calls_finish(&recorder->calls);
    pthread_mutex_destroy(&recorder->mutex);
    free(recorder);
    session->recorder = NULL;
}
