/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets, calls and messages that are under way together. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/random/run.h"

#define EVENTS_MAX (PROGRAM_BUCKETS + PROGRAM_CALLS + 2 * PROGRAM_MESSAGES)
#define SPOILT 0xA5 /* what memory is filled with that nothing may read or write any more */

/** What is under way in a phase: a bucket's step, a call, or a message's send or receive. */
struct event {
    const struct program_result *result;
    const struct program_call *call;       /* or NULL */
    const struct program_message *message; /* or NULL; both are for a bucket */
    bool sends;                            /* a message */
    uint32_t bucket;
    struct wring_request *request;
    struct wring_result got; /* of a receive */
    void *in, *out;
    void *memory[2]; /* that they lie in; the second one NULL: both in the first */
    size_t bytes[2]; /* of these */
    uint64_t runs[PROGRAM_RANKS], from[PROGRAM_RANKS]; /* lengths, for as long as it is under way */
    bool under_way;
    bool gone; /* its group was aborted; what it has of memory is still there */
};

static enum wring_status note(struct run *run, enum wring_status status, const char *what,
                              const struct event *event)
{
    return run_note(run, status, what, event != NULL ? event->result : NULL);
}

/** Give others their turn, or let them be first for a while. */
static void dawdle(struct run *run)
{
    uint32_t choice = run_below(run, 12);
    if (choice == 0)
        usleep(run_below(run, 2000));
    else if (choice < 3)
        sched_yield();
}

/* ---- calls and buckets ---- */

/** May `in` and `out` be one piece of memory? */
static bool can_be_one(const struct program_call *call, uint32_t me)
{
    if (call->kind == PROGRAM_ALLTOALL || call->kind == PROGRAM_ALLTOALLV)
        return false;
    return !program_has_root(call) || me == call->root || call->kind == PROGRAM_BROADCAST;
}

static bool is_bucket(const struct event *event)
{
    return event->call == NULL && event->message == NULL;
}

/** Where `in` and `out` of a call lie: in one piece of memory where the call allows it, at times.
 */
static bool choose_memory(struct run *run, struct event *event)
{
    const struct program_call *call = event->call;
    uint32_t me = run_my_index(run, call->group);
    size_t bytes = wring_dtype_bytes(call->dtype);
    size_t in = program_call_in(run->p, call, me) * bytes;
    size_t out = program_call_out(run->p, call, me) * bytes;
    size_t own = program_run_begin(call, me) * bytes;
    bool same = call->kind == PROGRAM_ALLREDUCE || call->kind == PROGRAM_BROADCAST;
    bool one = same || (can_be_one(call, me) && run_below(run, 2) == 0);

    event->bytes[0] = one && out > in ? out : in;
    event->bytes[1] = one ? 0 : out;
    event->memory[0] = run_get_memory(run, call->memory, event->bytes[0]);
    event->memory[1] = one ? NULL : run_get_memory(run, call->memory, event->bytes[1]);
    event->in = event->memory[0];
    event->out = event->memory[one ? 0 : 1];
    if (event->in == NULL || event->out == NULL)
        return false;
    if (one && in > out)
        event->out = (uint8_t *)event->in + own;
    if (one && in < out)
        event->in = (uint8_t *)event->out + own;
    for (uint32_t i = 0; i < PROGRAM_RANKS; i++) {
        bool pairs = call->kind == PROGRAM_ALLTOALLV;
        event->runs[i] = pairs ? program_pair_elems(call, me, i) : program_run_elems(call, i);
        event->from[i] = program_pair_elems(call, i, me);
    }
    return true;
}

static enum wring_status make_call(struct run *run, struct event *event,
                                   struct wring_request **request)
{
    const struct program_call *c = event->call;
    struct wring_group *group = run_group_of(run, c->group);
    const struct wring_call how = {
        .codec = c->codec,
        .factor =
            program_premultiplies(c) ? program_factor(&c->result, run_my_index(run, c->group)) : 0,
    };

    switch (c->kind) {
    case PROGRAM_ALLREDUCE:
        return wring_allreduce(group, event->out, event->out, c->elems, c->dtype, c->op, &how,
                               request);
    case PROGRAM_REDUCE_SCATTER:
        return wring_reduce_scatter(group, event->in, event->out, c->elems, c->dtype, c->op, &how,
                                    request);
    case PROGRAM_ALLGATHER:
        return wring_allgather(group, event->in, event->out, c->elems, c->dtype, &how, request);
    case PROGRAM_ALLTOALL:
        return wring_alltoall(group, event->in, event->out, c->elems, c->dtype, &how, request);
    case PROGRAM_BROADCAST:
        return wring_broadcast(group, event->out, c->elems * wring_dtype_bytes(c->dtype), c->root,
                               &how, request);
    case PROGRAM_REDUCE:
        return wring_reduce(group, event->in, event->out, c->elems, c->dtype, c->op, c->root, &how,
                            request);
    case PROGRAM_GATHER:
        return wring_gather(group, event->in, event->out, c->elems, c->dtype, c->root, &how,
                            request);
    case PROGRAM_SCATTER:
        return wring_scatter(group, event->in, event->out, c->elems, c->dtype, c->root, &how,
                             request);
    case PROGRAM_REDUCE_SCATTERV:
        return wring_reduce_scatterv(group, event->in, event->out, event->runs, c->dtype, c->op,
                                     &how, request);
    case PROGRAM_ALLGATHERV:
        return wring_allgatherv(group, event->in, event->out, event->runs, c->dtype, &how, request);
    case PROGRAM_ALLTOALLV:
        return wring_alltoallv(group, event->in, event->runs, event->out, event->from, c->dtype,
                               &how, request);
    case PROGRAM_BARRIER:
    case PROGRAM_CALL_KINDS:
        break;
    }
    return wring_barrier(group, NULL, NULL);
}

/** Is it of a group that is aborted? */
static bool may_be_cancelled(const struct run *run, const struct program_phase *phase,
                             const struct event *event)
{
    if (event->message != NULL || phase->aborted_group == PROGRAM_NONE)
        return false;
    return phase->aborted_group ==
           (event->call != NULL ? event->call->group : run->p->buckets[event->bucket].group);
}

static enum wring_status begin_call(struct run *run, const struct program_phase *phase,
                                    struct event *event)
{
    const struct program_call *c = event->call;
    bool waits = phase->blocking && (c->kind == PROGRAM_BARRIER || run_below(run, 2) == 0);

    if (!choose_memory(run, event))
        return note(run, WRING_ERR_NO_MEMORY, "memory of a call", event);
    uint32_t me = run_my_index(run, c->group);
    program_fill(phase, &c->result, run->rank, c->dtype, program_call_in(run->p, c, me), event->in);
    enum wring_status status = make_call(run, event, waits ? NULL : &event->request);
    event->gone = may_be_cancelled(run, phase, event) && status == WRING_ERR_CANCELLED;
    event->under_way = !waits && !event->gone;
    if (event->gone)
        return WRING_OK;
    return note(run, status, waits ? "call" : "call begun", event);
}

static enum wring_status begin_bucket(struct run *run, const struct program_phase *phase,
                                      struct event *event)
{
    const struct program_bucket *b = &run->p->buckets[event->bucket];
    bool may_be_gone = may_be_cancelled(run, phase, event);

    event->memory[0] = run->data[event->bucket];
    event->bytes[0] = b->elems * wring_dtype_bytes(b->dtype);
    program_fill(phase, event->result, run->rank, b->dtype, b->elems, event->memory[0]);
    /* where the group is aborted for certain, not all members need begin a step */
    event->gone = may_be_gone && !phase->cancels && run_below(run, 4) == 0;
    if (event->gone)
        return WRING_OK;
    enum wring_status status = wring_bucket_post(run->buckets[event->bucket]);
    event->gone = may_be_gone && status == WRING_ERR_CANCELLED;
    event->under_way = !event->gone;
    return event->gone ? WRING_OK : note(run, status, "post", event);
}

/* ---- messages ---- */

/** Room for each message of the phase that could come. */
static uint64_t longest_message(const struct run *run, const struct program_phase *phase)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < phase->n_messages; i++) {
        const struct program_message *m = &phase->messages[i];
        if (m->to == run_my_index(run, m->group) && m->bytes > most)
            most = m->bytes;
    }
    return most;
}

static enum wring_status begin_message(struct run *run, const struct program_phase *phase,
                                       struct event *event)
{
    const struct program_message *m = event->message;
    struct wring_group *group = run_group_of(run, m->group);
    enum program_receives names = program_receives_of(phase, m);
    uint64_t bytes = event->sends ? m->bytes : longest_message(run, phase);
    bool any_source = names == PROGRAM_ANY_SOURCE || names == PROGRAM_NAMES_NEITHER;
    bool any_tag = names == PROGRAM_ANY_TAG || names == PROGRAM_NAMES_NEITHER;

    event->bytes[0] = bytes;
    event->memory[0] =
        run_get_memory(run, event->sends ? m->send_memory : m->receive_memory, event->bytes[0]);
    if (event->memory[0] == NULL)
        return note(run, WRING_ERR_NO_MEMORY, "memory of a message", event);
    event->under_way = true;
    if (event->sends) {
        program_fill(phase, &m->result, run->rank, WRING_U8, bytes, event->memory[0]);
        return note(
            run, wring_send(group, event->memory[0], bytes, m->to, m->tag, NULL, &event->request),
            "send", event);
    }
    event->got = (struct wring_result)WRING_RESULT_INIT;
    return note(run,
                wring_recv(group, event->memory[0], bytes, any_source ? WRING_ANY_SOURCE : m->from,
                           any_tag ? WRING_ANY_TAG : m->tag, NULL, &event->request),
                "receive", event);
}

/** Which of a member's messages a receive must have got: the first one that fits it and that none
 *  of the receives posted earlier got. @return their number: there is none */
static uint32_t find_message(const struct run *run, const struct program_phase *phase,
                             const struct event *event, const bool *taken)
{
    uint32_t me = run_my_index(run, event->message->group), i = 0;
    enum program_receives names = program_receives_of(phase, event->message);
    bool any_tag = names == PROGRAM_ANY_TAG || names == PROGRAM_NAMES_NEITHER;

    for (; i < phase->n_messages; i++) {
        const struct program_message *m = &phase->messages[i];
        if (!taken[i] && m->to == me && (int32_t)m->from == event->got.rank &&
            (any_tag || m->tag == event->got.tag))
            break;
    }
    return i;
}

/** All have come: receives took them in the order in which they were posted. */
static enum wring_status keep_messages(struct run *run, const struct program_phase *phase,
                                       struct event *events, uint32_t n)
{
    bool taken[PROGRAM_MESSAGES] = {false};

    for (uint32_t i = 0; i < n; i++) {
        struct event *event = &events[i];
        if (event->message == NULL || event->sends)
            continue;
        uint32_t at = find_message(run, phase, event, taken);
        const struct program_message *m = &phase->messages[at];
        if (at == phase->n_messages || m->bytes != event->got.bytes || m->tag != event->got.tag)
            return note(run, WRING_ERR_MISMATCH, "a receive got what was not sent so", event);
        taken[at] = true;
        memcpy(results_at(run->results, &m->result, run->rank), event->memory[0], m->bytes);
        run->results->items[m->result.item].done[run->rank] = true;
        run_put_memory(run, event->message->receive_memory, event->memory[0]);
    }
    return WRING_OK;
}

/* ---- what is under way ---- */

/** Must one be begun before the other, which stands after it in the program? */
static bool comes_before(const struct program_phase *phase, const struct event *first,
                         const struct event *second)
{
    if (first->call != NULL && second->call != NULL)
        return phase->blocking || first->call->group == second->call->group;
    return first->message != NULL && second->message != NULL && first->sends && second->sends &&
           first->message->to == second->message->to;
}

/** All that this rank has a part in, as it stands in the program. */
static uint32_t list_events(const struct run *run, const struct program_phase *phase,
                            struct event *events)
{
    uint32_t n = 0;

    for (uint32_t b = 0; b < phase->n_buckets; b++)
        if (run_is_mine(run, run->p->buckets[phase->buckets[b]].group))
            events[n++] = (struct event){.result = &phase->results[b], .bucket = phase->buckets[b]};
    for (uint32_t c = 0; c < phase->n_calls; c++)
        if (run_is_mine(run, phase->calls[c].group))
            events[n++] =
                (struct event){.result = &phase->calls[c].result, .call = &phase->calls[c]};
    for (uint32_t i = 0; i < phase->n_messages; i++) {
        const struct program_message *m = &phase->messages[i];
        if (run_is_mine(run, m->group) && m->from == run_my_index(run, m->group))
            events[n++] = (struct event){.result = &m->result, .message = m, .sends = true};
        if (run_is_mine(run, m->group) && m->to == run_my_index(run, m->group))
            events[n++] = (struct event){.result = &m->result, .message = m};
    }
    return n;
}

/** Buckets and receives in any order, calls in that of their group, or where they wait in that of
 *  all, and sends in that of their receiver. */
static uint32_t order_events(struct run *run, const struct program_phase *phase,
                             struct event *events)
{
    struct event left[EVENTS_MAX];
    uint32_t n_left = list_events(run, phase, left), n = 0;

    while (n_left > 0) {
        uint32_t at = run_below(run, n_left), first = 0;
        while (first < at && !comes_before(phase, &left[first], &left[at]))
            first++;
        events[n++] = left[first];
        memmove(&left[first], &left[first + 1], (--n_left - first) * sizeof(*left));
    }
    return n;
}

static struct wring_result *result_of(struct event *event)
{
    return event->message != NULL && !event->sends ? &event->got : NULL;
}

static enum wring_status poll_until(struct run *run, struct event *event)
{
    uint64_t deadline = wring_deadline_in(run_wait_ns(run));
    for (;;) {
        enum wring_status status = is_bucket(event)
                                       ? wring_bucket_test(run->buckets[event->bucket], NULL)
                                       : wring_request_test(event->request, result_of(event));
        if (status != WRING_ERR_AGAIN)
            return status;
        if (wring_now_ns() > deadline)
            return WRING_ERR_TIMEOUT;
        sched_yield();
    }
}

static enum wring_status wait_one(struct run *run, struct event *event)
{
    enum wring_status status = WRING_ERR_TIMEOUT;
    uint32_t choice = run_below(run, 3);

    if (choice == 0)
        return poll_until(run, event);
    for (uint32_t i = 0; i < 2 && status == WRING_ERR_TIMEOUT; i++) {
        uint64_t limit = choice == 1 && i == 0 ? run_below(run, 1000000) : run_wait_ns(run);
        status = is_bucket(event) ? wring_bucket_wait(run->buckets[event->bucket], limit, NULL)
                                  : wring_request_wait(event->request, limit, result_of(event));
    }
    return status;
}

/** One of several buckets, calls and messages: whichever is done. @return its index */
static enum wring_status wait_any(struct run *run, struct event *events, uint32_t n, uint32_t *done)
{
    struct wring_waitable entries[EVENTS_MAX] = {{.bucket = NULL}};
    struct wring_result result = WRING_RESULT_INIT;
    size_t index = n;

    for (uint32_t i = 0; i < n; i++)
        if (events[i].under_way && is_bucket(&events[i]))
            entries[i].bucket = run->buckets[events[i].bucket];
        else if (events[i].under_way)
            entries[i].request = events[i].request;
    enum wring_status status = wring_wait_any(entries, n, run_wait_ns(run), &index, &result);
    if (index < n)
        events[index].got = result;
    *done = (uint32_t)index;
    return status;
}

/** What was sent may be written again; what was received is looked at once all of it is there. */
static void ended_message(struct run *run, struct event *event)
{
    event->under_way = false;
    if (!event->sends)
        return;
    memset(event->memory[0], SPOILT, event->bytes[0]);
    run_put_memory(run, event->message->send_memory, event->memory[0]);
}

static void ended_bucket(struct run *run, struct event *event)
{
    const struct program_bucket *b = &run->p->buckets[event->bucket];
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct results_item *item = &run->results->items[event->result->item];

    memcpy(results_at(run->results, event->result, run->rank), run->data[event->bucket],
           b->elems * wring_dtype_bytes(b->dtype));
    if (run->p->bypasses && wring_bucket_stats(run->buckets[event->bucket], &stats) == WRING_OK)
        item->raw[run->rank] = strcmp(stats.codec, "none") == 0;
    item->done[run->rank] = true;
    event->under_way = false;
}

static void put_call(struct run *run, struct event *event)
{
    for (int i = 0; i < 2; i++)
        if (event->memory[i] != NULL)
            run_put_memory(run, event->call->memory, event->memory[i]);
}

static void ended_call(struct run *run, struct event *event)
{
    const struct program_call *c = event->call;
    uint64_t elems = program_call_out(run->p, c, run_my_index(run, c->group));

    memcpy(results_at(run->results, event->result, run->rank), event->out,
           elems * wring_dtype_bytes(c->dtype));
    run->results->items[event->result->item].done[run->rank] = true;
    event->under_way = false;
    put_call(run, event);
}

/** A request that has ended in whatever way is freed. */
static void ended(struct run *run, struct event *event)
{
    if (event->call != NULL)
        ended_call(run, event);
    else if (event->message != NULL)
        ended_message(run, event);
    else
        ended_bucket(run, event);
}

/* ---- a group that is aborted ---- */

/** One member does it for certain, others at times. @return before which event; none: past n */
static uint32_t abort_when(struct run *run, const struct program_phase *phase, uint32_t n)
{
    bool may = phase->aborted_group != PROGRAM_NONE && run_is_mine(run, phase->aborted_group);
    bool does = may && (phase->aborter == run->rank || run_below(run, 4) == 0);
    return does ? run_below(run, n + 1) : n + 1;
}

static enum wring_status cancel(struct run *run, struct event *event)
{
    return is_bucket(event) ? wring_bucket_cancel(run->buckets[event->bucket])
                            : wring_request_cancel(event->request);
}

/** Abort it, or give a call or step of it up, where one is under way. */
static enum wring_status abort_group(struct run *run, const struct program_phase *phase,
                                     struct event *events, uint32_t n)
{
    struct event *event = NULL;
    enum wring_status status = WRING_OK;
    bool cancels = phase->aborter == run->rank ? phase->cancels : run_below(run, 2) == 0;

    for (uint32_t i = 0; i < n && event == NULL; i++)
        if (events[i].under_way && may_be_cancelled(run, phase, &events[i]) &&
            run_below(run, 2) == 0)
            event = &events[i];
    if (!cancels)
        status = wring_group_abort(run_group_of(run, phase->aborted_group));
    else if (event != NULL)
        status = cancel(run, event);
    return note(run, status == WRING_ERR_BUSY ? WRING_OK : status, "abort", event);
}

/** @param what  out, what of spoilt memory has changed. @return whether any has */
static bool find_change(const struct event *event, int memory, char *what, size_t bytes)
{
    const uint8_t *data = event->memory[memory];
    size_t begin = 0, end = event->bytes[memory], used = 0;

    while (begin < end && data[begin] == SPOILT)
        begin++;
    while (end > begin && data[end - 1] == SPOILT)
        end--;
    if (begin == end)
        return false;
    used = (size_t)snprintf(what, bytes,
                            "bytes %zu to %zu of %zu of memory %d were written after "
                            "an abort:",
                            begin, end, event->bytes[memory], memory);
    for (size_t at = begin; at < end && at < begin + 24 && used < bytes; at++)
        used += (size_t)snprintf(what + used, bytes - used, " %02x", data[at]);
    return true;
}

/** Nothing writes to what its calls and steps had, not even while others still hear of it. */
static enum wring_status watch_memory(struct run *run, struct event *events, uint32_t n)
{
    char what[256];

    for (uint32_t i = 0; i < n; i++)
        for (int m = 0; m < 2 && events[i].gone; m++)
            if (events[i].memory[m] != NULL)
                memset(events[i].memory[m], SPOILT, events[i].bytes[m]);
    enum wring_status status =
        wring_barrier(wring_session_world(run->session), NULL, NULL); /* all have left it */
    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        for (int m = 0; m < 2 && events[i].gone; m++)
            if (events[i].memory[m] != NULL && find_change(&events[i], m, what, sizeof(what)))
                return note(run, WRING_ERR_FRAME, what, &events[i]);
    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        if (events[i].gone && events[i].call != NULL)
            put_call(run, &events[i]);
    return note(run, status, "barrier after an abort", NULL);
}

/** Its members find out whether it was, all alike, and whether its memory is theirs. */
static enum wring_status end_of_group(struct run *run, const struct program_phase *phase,
                                      struct event *events, uint32_t n)
{
    struct wring_group *world = wring_session_world(run->session);
    struct wring_group *group = run_group_of(run, phase->aborted_group);
    struct results_item *item = &run->results->items[phase->aborted.item];

    if (!run_is_mine(run, phase->aborted_group))
        return note(run, wring_barrier(world, NULL, NULL), "barrier after an abort", NULL);
    enum wring_status status = wring_barrier(group, NULL, NULL);
    item->gone[run->rank] = status == WRING_ERR_CANCELLED;
    item->done[run->rank] = true;
    if (status == WRING_OK && !phase->cancels)
        return note(run, WRING_ERR_INVALID, "a call of an aborted group", NULL);
    if (status == WRING_OK)
        return note(run, wring_barrier(world, NULL, NULL), "barrier after no abort", NULL);
    uint64_t deadline = wring_deadline_in(run_wait_ns(run));
    bool cancelled = status == WRING_ERR_CANCELLED;
    while (cancelled && (status = wring_group_abort(group)) == WRING_ERR_BUSY)
        if (wring_now_ns() >= deadline) /* though all others are there */
            break;
    return status == WRING_OK ? watch_memory(run, events, n)
                              : note(run, status, "end of a group", NULL);
}

/* ---- all of a phase ---- */

static uint32_t pick_pending(struct run *run, const struct event *events, uint32_t n)
{
    uint32_t pending[EVENTS_MAX], n_pending = 0;
    for (uint32_t i = 0; i < n; i++)
        if (events[i].under_way)
            pending[n_pending++] = i;
    return n_pending > 0 ? pending[run_below(run, n_pending)] : n;
}

static enum wring_status begin_event(struct run *run, const struct program_phase *phase,
                                     struct event *event)
{
    if (event->call != NULL)
        return begin_call(run, phase, event);
    return event->message != NULL ? begin_message(run, phase, event)
                                  : begin_bucket(run, phase, event);
}

/** One of what is under way has ended; one of an aborted group in the way that it may. */
static enum wring_status take(struct run *run, const struct program_phase *phase,
                              struct event *event, enum wring_status status)
{
    if (may_be_cancelled(run, phase, event) && status == WRING_ERR_CANCELLED) {
        event->gone = true;
        event->under_way = false;
        return WRING_OK;
    }
    if (status == WRING_OK)
        ended(run, event);
    return note(run, status, "wait", event);
}

static enum wring_status wait_for_all(struct run *run, const struct program_phase *phase,
                                      struct event *events, uint32_t n)
{
    enum wring_status status = WRING_OK;
    uint32_t at;

    while (status == WRING_OK && (at = pick_pending(run, events, n)) != n) {
        uint32_t any = at;
        if (run_below(run, 3) == 0)
            status = wait_any(run, events, n, &any);
        else
            status = wait_one(run, &events[at]);
        if (any < n)
            status = take(run, phase, &events[any], status);
        dawdle(run);
    }
    return note(run, status, "wait", NULL);
}

enum wring_status run_phase(struct run *run, const struct program_phase *phase)
{
    struct event events[EVENTS_MAX];
    uint32_t n = order_events(run, phase, events);
    uint32_t abort_at = abort_when(run, phase, n);
    enum wring_status status = WRING_OK;

    if (phase->aborted_group != PROGRAM_NONE) /* what came before it is over everywhere */
        status = note(run, wring_barrier(wring_session_world(run->session), NULL, NULL),
                      "barrier before an abort", NULL);
    for (uint32_t i = 0; i <= n && status == WRING_OK; i++) {
        if (i == abort_at)
            status = abort_group(run, phase, events, i);
        if (i == n || status != WRING_OK)
            break;
        status = begin_event(run, phase, &events[i]);
        if (status == WRING_OK && !events[i].under_way && !events[i].gone)
            ended(run, &events[i]);
        dawdle(run);
    }
    if (status == WRING_OK)
        status = wait_for_all(run, phase, events, n);
    if (status == WRING_OK)
        status = keep_messages(run, phase, events, n);
    if (status == WRING_OK && phase->aborted_group != PROGRAM_NONE)
        status = end_of_group(run, phase, events, n);
    return status;
}
