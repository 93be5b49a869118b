/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is one JSON array of events in the Trace Event Format (array form), which Perfetto and
 * Chrome show. Each rank adds its own when its session closes, on rank 0's clock, under a lock on
 * the file; so the file is whole after every rank, also when the job failed. Hosts that share no
 * file system write a file each; the arrays can be joined.
 */
#include "runtime/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/json.h"

#define WRING_MODULE "trace"
#define CAPACITY 200000 /* events: 9 MB, and about 40 MB of JSON */
#define ANSWERS 4       /* of rank 0's clock, before the session's first step */
#define ANSWERS_WITHIN_NS (1 * WRING_NS_PER_S)

static bool is_trace_wanted(const struct wring_session *session)
{
    return session->config.trace[0] != '\0';
}

static int warn_unwritable(const struct wring_session *session)
{
    wring_error(&session->log, "WRING_TRACE=%s: cannot be written: %s", session->config.trace,
                strerror(errno));
    return WRING_ERR_SYSTEM;
}

enum wring_status wring_session_trace_open(struct wring_session *session)
{
    if (!is_trace_wanted(session))
        return WRING_OK;
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (session->rank == 0 ? O_TRUNC : 0);
    int fd = open(session->config.trace, flags, 0666);
    if (fd < 0)
        return warn_unwritable(session);
    close(fd);
    return wring_trace_create(CAPACITY, &session->trace);
}

static bool have_clocks_met(const void *arg)
{
    const struct wring_clocks *clocks = arg;
    return atomic_load_explicit(&clocks->n_heard, memory_order_acquire) >= ANSWERS;
}

bool wring_session_trace_clocks(struct wring_session *session)
{
    if (session->trace == NULL || session->size == 1)
        return false;
    struct wring_clocks *clocks = &session->trace->clocks;
    wring_progress_lock(session->progress);
    session->fabric->clocks = clocks;
    wring_progress_unlock(session->progress);
    if (!session->all_trace) /* those who do not record do not wait for our answers */
        return false;
    if (session->rank != 0)
        wring_progress_drive(session->progress, (struct wring_goal){have_clocks_met, clocks},
                             wring_deadline_in(ANSWERS_WITHIN_NS));
    return true;
}

static const char *const kinds[] = {"step", "encode", "reduce", "decode", "send", "arrive", "wait"};

/** Lines of a rank in the picture, by groups; what overlaps in a group takes further lines. */
#define LINES 32
static const char *const groups[] = {"buckets", "codecs", "sends", "arrivals", "application"};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))
static const uint8_t group_of[] = {0, 1, 1, 1, 2, 3, 4};

struct lines {
    uint64_t busy_until_ns[GROUPS][LINES];
};

/** The first line of its group that is free when the event begins; events come in that order. */
static int take_free_line(struct lines *lines, const struct wring_trace_event *event)
{
    uint64_t *until = lines->busy_until_ns[group_of[event->kind]];
    int line = 0;
    while (line < LINES - 1 && until[line] > event->begin_ns)
        line++;
    until[line] = event->begin_ns + event->took_ns;
    return group_of[event->kind] * LINES + line;
}

static int by_begin(const void *a, const void *b)
{
    const struct wring_trace_event *x = a, *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/** A time of ours, by rank 0's clock. */
static double rank_0_time_us(const struct wring_session *session, uint64_t ns)
{
    struct wring_clock_ahead ahead = {0, 0};
    wring_clocks_ahead(&session->trace->clocks, ns, &ahead);
    return (double)((int64_t)ns - ahead.ns) / 1e3;
}

static json_t *event_to_json(const struct wring_session *session,
                             const struct wring_trace_event *event, int line)
{
    const char *label = session->trace->labels[event->label];
    json_t *arguments = json_pack("{s:o, s:I}", "bucket", wring_json_text(label), "number",
                                  (json_int_t)event->number);
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", kinds[event->kind], "cat",
        groups[group_of[event->kind]], "ph", event->kind == WRING_TRACE_ARRIVE ? "i" : "X", "ts",
        rank_0_time_us(session, event->begin_ns), "dur", (double)event->took_ns / 1e3, "pid",
        (int)session->rank, "tid", line, "args", arguments);
    if (event->bytes > 0)
        json_object_set_new(arguments, "bytes", json_integer((json_int_t)event->bytes));
    if (event->peer >= 0)
        json_object_set_new(arguments, "from_rank", json_integer(event->peer));
    if (event->kind <= WRING_TRACE_STEP || event->kind == WRING_TRACE_WAIT)
        json_object_set_new(object, "name", wring_json_text(label));
    return object;
}

static void write_event(FILE *file, json_t *event, bool *first)
{
    fputs(*first ? "" : ",\n", file);
    *first = false;
    json_dumpf(event, file, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(event);
}

/** How far off the times of this rank's first n events can be, by rank 0's clock. */
static int64_t worst_error_ns(const struct wring_trace *trace, size_t n)
{
    struct wring_clock_ahead ahead;
    int64_t worst = 0;
    for (size_t i = 0; i < n; i++)
        if (wring_clocks_ahead(&trace->clocks, trace->events[i].begin_ns, &ahead))
            worst = ahead.error_ns > worst ? ahead.error_ns : worst;
    return worst;
}

/** How far the rank's times can be trusted, beside its name in the picture. */
static void write_clock(FILE *file, const struct wring_session *session, size_t n, bool *first)
{
    const struct wring_trace *trace = session->trace;
    double error_us = (double)worst_error_ns(trace, n) / 1e3;
    char text[64] = "the clock of all";
    json_t *arguments = json_object();
    if (session->rank != 0 && trace->clocks.n > 0)
        snprintf(text, sizeof(text), "clock within %.0f us of rank 0's", error_us);
    else if (session->rank != 0)
        snprintf(text, sizeof(text), "clock not compared with rank 0's");
    json_object_set_new(arguments, "labels", json_string(text));
    if (session->rank == 0 || trace->clocks.n > 0)
        json_object_set_new(arguments, "clock_error_us", json_real(error_us));
    write_event(file,
                json_pack("{s:s, s:s, s:i, s:o}", "name", "process_labels", "ph", "M", "pid",
                          (int)session->rank, "args", arguments),
                first);
}

static void write_names(FILE *file, const struct wring_session *session, bool *first)
{
    char name[32];
    snprintf(name, sizeof(name), "rank %" PRIu32, session->rank);
    write_event(file,
                json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid",
                          (int)session->rank, "args", "name", name),
                first);
    for (int i = 0; i < (int)GROUPS; i++)
        write_event(file,
                    json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M",
                              "pid", (int)session->rank, "tid", i * LINES, "args", "name",
                              groups[i]),
                    first);
}

/** Add to the array that stands in the file. */
static void append_events(FILE *file, const struct wring_session *session)
{
    const struct wring_trace *trace = session->trace;
    size_t n = atomic_load(&trace->n), held = n < trace->capacity ? n : trace->capacity;
    struct lines lines = {0};
    bool first = fseek(file, -3, SEEK_END) != 0; /* before its "\n]\n" */

    if (first)
        fputs("[\n", file);
    write_names(file, session, &first);
    write_clock(file, session, held, &first);
    qsort(trace->events, held, sizeof(*trace->events), by_begin);
    for (size_t i = 0; i < held; i++)
        write_event(
            file,
            event_to_json(session, &trace->events[i], take_free_line(&lines, &trace->events[i])),
            &first);
    fputs("\n]\n", file);
    if (n > trace->capacity)
        wring_warn(&session->log, "WRING_TRACE=%s holds the first %zu of %zu events",
                   session->config.trace, trace->capacity, n);
}

void wring_session_trace_close(struct wring_session *session)
{
    if (session->trace == NULL)
        return;
    if (session->fabric != NULL)
        session->fabric->clocks = NULL;
    wring_clocks_settle(&session->trace->clocks);
    if (session->rank != 0 && session->trace->clocks.n == 0)
        wring_warn(&session->log,
                   "WRING_TRACE=%s: rank 0 has not told its time: rank %" PRIu32
                   "'s events stand by its own clock",
                   session->config.trace, session->rank);
    struct wring_file_limit held;
    wring_file_limit_hold(&held);
    int fd = wring_descriptor_above_stdio(
        open(session->config.trace, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    FILE *file = fd >= 0 ? fdopen(fd, "r+") : NULL;
    bool locked = file != NULL && flock(fd, LOCK_EX) == 0;
    if (locked)
        append_events(file, session);
    if (!locked || ferror(file) != 0 || fflush(file) != 0)
        warn_unwritable(session);
    if (file != NULL)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    wring_file_limit_release(&held);
    wring_trace_destroy(session->trace);
    session->trace = NULL;
}
