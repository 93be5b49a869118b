/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/program_run.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define WAIT_NS (90 * WRING_NS_PER_S)
#define EVENTS_MAX (PROGRAM_BUCKETS + PROGRAM_CALLS)

/** Memory of a bucket or call. */
struct run_memory {
    struct run_memory *next;
    void *foreign;
};

struct run {
    struct wring_session *session;
    const struct program *p;
    const struct results *results;
    uint32_t rank;
    uint64_t random;
    struct wring_group *groups[PROGRAM_GROUPS];
    struct wring_bucket *buckets[PROGRAM_BUCKETS];
    void *data[PROGRAM_BUCKETS];
    void *state;
    size_t state_bytes;
    struct run_memory *kept;
    uint32_t op; /* under way */
    char *why;
};

/** What is under way in a phase: a bucket's step, or a call. */
struct event {
    const struct program_result *result;
    const struct program_call *call; /* NULL: a bucket */
    uint32_t bucket;
    struct wring_request *request;
    void *in, *out;
    void *memory[2]; /* that they lie in; the second one NULL: both in the first */
    uint64_t runs[PROGRAM_RANKS], from[PROGRAM_RANKS]; /* lengths, for as long as it is under way */
    bool under_way;
};

static uint32_t below(struct run *run, uint32_t n)
{
    uint64_t z = run->random += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/** Note where a call failed, once. */
static enum wring_status note(struct run *run, enum wring_status status, const char *what,
                              const struct event *event)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    char item[256] = "";

    if (status == WRING_OK || run->why[0] != '\0')
        return status;
    if (event != NULL)
        program_name_item(run->p, event->result->item, item, sizeof(item));
    wring_session_error(run->session, &detail);
    snprintf(run->why, RUN_TEXT, "rank %u, operation %u: %s: %s%s%s (%s)", run->rank, run->op, what,
             wring_status_text(status), item[0] != '\0' ? ": " : "", item, detail.text);
    return status;
}

/** Give others their turn, or let them be first for a while. */
static void dawdle(struct run *run)
{
    uint32_t way = below(run, 12);
    if (way == 0)
        usleep(below(run, 2000));
    else if (way < 3)
        sched_yield();
}

/* ---- memory ---- */

static void *get_memory(struct run *run, enum program_memory memory, size_t bytes)
{
    void *data = NULL;
    bytes = bytes > 0 ? bytes : 1;
    if (memory == PROGRAM_ALLOCATED)
        return wring_buffer_alloc(run->session, bytes, &data) == WRING_OK ? data : NULL;
    struct run_memory *kept = malloc(sizeof(*kept));
    data = calloc(1, bytes);
    *kept = (struct run_memory){run->kept, data};
    run->kept = kept;
    if (memory == PROGRAM_REGISTERED &&
        wring_buffer_register(run->session, data, bytes) != WRING_OK)
        return NULL;
    return data;
}

/** What was got from get_memory(), while nothing uses it. */
static void put_memory(struct run *run, enum program_memory memory, void *data)
{
    if (memory != PROGRAM_FOREIGN)
        wring_buffer_free(run->session, data);
    for (struct run_memory **at = &run->kept; *at != NULL; at = &(*at)->next)
        if ((*at)->foreign == data) {
            struct run_memory *gone = *at;
            *at = gone->next;
            free(gone->foreign);
            free(gone);
            return;
        }
}

void run_free(struct run_memory *kept)
{
    while (kept != NULL) {
        struct run_memory *next = kept->next;
        free(kept->foreign);
        free(kept);
        kept = next;
    }
}

/* ---- a phase ---- */

static bool is_mine(const struct run *run, uint32_t group)
{
    return program_is_member(run->p, group, run->rank);
}

static uint32_t my_index(const struct run *run, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS], n = program_members(run->p, group, ranks), i = 0;
    while (i < n && ranks[i] != run->rank)
        i++;
    return i;
}

/** May `in` and `out` be one piece of memory? */
static bool can_be_one(const struct program_call *call, uint32_t me)
{
    if (call->kind == PROGRAM_ALLTOALL || call->kind == PROGRAM_ALLTOALLV)
        return false;
    return !program_has_root(call) || me == call->root || call->kind == PROGRAM_BROADCAST;
}

/** Where `in` and `out` of a call lie: in one piece of memory where the call allows it, at times.
 */
static bool place_call(struct run *run, struct event *event)
{
    const struct program_call *call = event->call;
    uint32_t me = my_index(run, call->group);
    size_t bytes = wring_dtype_bytes(call->dtype);
    size_t in = program_call_in(run->p, call, me) * bytes;
    size_t out = program_call_out(run->p, call, me) * bytes;
    size_t own = program_run_begin(call, me) * bytes;
    bool same = call->kind == PROGRAM_ALLREDUCE || call->kind == PROGRAM_BROADCAST;
    bool one = same || (can_be_one(call, me) && below(run, 2) == 0);

    event->memory[0] = get_memory(run, call->memory, one && out > in ? out : in);
    event->memory[1] = one ? NULL : get_memory(run, call->memory, out);
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
    struct wring_group *group =
        c->group == 0 ? wring_session_world(run->session) : run->groups[c->group];
    const struct wring_call how = {.codec = c->codec};

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

static enum wring_status begin_call(struct run *run, const struct program_phase *phase,
                                    struct event *event)
{
    const struct program_call *c = event->call;
    bool waits = phase->blocking && (c->kind == PROGRAM_BARRIER || below(run, 2) == 0);

    if (!place_call(run, event))
        return note(run, WRING_ERR_NO_MEMORY, "memory of a call", event);
    uint32_t me = my_index(run, c->group);
    program_fill(phase, &c->result, run->rank, c->dtype, program_call_in(run->p, c, me), event->in);
    enum wring_status status = make_call(run, event, waits ? NULL : &event->request);
    event->under_way = !waits;
    return note(run, status, waits ? "call" : "call begun", event);
}

static enum wring_status begin_bucket(struct run *run, const struct program_phase *phase,
                                      struct event *event)
{
    const struct program_bucket *b = &run->p->buckets[event->bucket];

    program_fill(phase, event->result, run->rank, b->dtype, b->elems, run->data[event->bucket]);
    event->under_way = true;
    return note(run, wring_bucket_post(run->buckets[event->bucket]), "post", event);
}

/** Buckets in any order, calls in that of their group; where they wait, in that of all. */
static uint32_t order_events(struct run *run, const struct program_phase *phase,
                             struct event *events)
{
    struct event buckets[PROGRAM_BUCKETS], calls[PROGRAM_CALLS];
    uint32_t n_buckets = 0, n_calls = 0, n = 0;

    for (uint32_t b = 0; b < phase->n_buckets; b++)
        if (is_mine(run, run->p->buckets[phase->buckets[b]].group))
            buckets[n_buckets++] =
                (struct event){.result = &phase->results[b], .bucket = phase->buckets[b]};
    for (uint32_t c = 0; c < phase->n_calls; c++)
        if (is_mine(run, phase->calls[c].group))
            calls[n_calls++] =
                (struct event){.result = &phase->calls[c].result, .call = &phase->calls[c]};
    while (n_buckets > 0 || n_calls > 0) {
        uint32_t at = below(run, n_buckets + n_calls);
        if (at < n_buckets) {
            events[n++] = buckets[at];
            buckets[at] = buckets[--n_buckets];
            continue;
        }
        at = phase->blocking ? 0 : at - n_buckets;
        for (uint32_t c = 0; c < at; c++) /* the first one of its group */
            if (calls[c].call->group == calls[at].call->group)
                at = c;
        events[n++] = calls[at];
        memmove(&calls[at], &calls[at + 1], (--n_calls - at) * sizeof(*calls));
    }
    return n;
}

static enum wring_status poll_until(struct run *run, struct event *event)
{
    uint64_t deadline = wring_deadline_in(WAIT_NS);
    for (;;) {
        enum wring_status status = event->call != NULL
                                       ? wring_request_test(event->request, NULL)
                                       : wring_bucket_test(run->buckets[event->bucket], NULL);
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
    uint32_t way = below(run, 3);

    if (way == 0)
        return poll_until(run, event);
    for (uint32_t i = 0; i < 2 && status == WRING_ERR_TIMEOUT; i++) {
        uint64_t limit = way == 1 && i == 0 ? below(run, 1000000) : WAIT_NS;
        status = event->call != NULL ? wring_request_wait(event->request, limit, NULL)
                                     : wring_bucket_wait(run->buckets[event->bucket], limit, NULL);
    }
    return status;
}

/** One of several buckets and calls: whichever is done. @return its index */
static enum wring_status wait_any(struct run *run, struct event *events, uint32_t n, uint32_t *done)
{
    struct wring_waitable entries[EVENTS_MAX] = {{.bucket = NULL}};
    size_t index = n;

    for (uint32_t i = 0; i < n; i++)
        if (events[i].under_way && events[i].call == NULL)
            entries[i].bucket = run->buckets[events[i].bucket];
        else if (events[i].under_way)
            entries[i].request = events[i].request;
    enum wring_status status = wring_wait_any(entries, n, WAIT_NS, &index, NULL);
    *done = (uint32_t)index;
    return status;
}

/** A request that has ended in whatever way is freed. */
static void ended(struct run *run, struct event *event)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct results_item *item = &run->results->items[event->result->item];
    bool is_bucket = event->call == NULL;
    uint64_t elems = is_bucket
                         ? run->p->buckets[event->bucket].elems
                         : program_call_out(run->p, event->call, my_index(run, event->call->group));
    enum wring_dtype dtype = is_bucket ? run->p->buckets[event->bucket].dtype : event->call->dtype;

    memcpy(results_at(run->results, event->result, run->rank),
           is_bucket ? run->data[event->bucket] : event->out, elems * wring_dtype_bytes(dtype));
    if (is_bucket && run->p->bypasses &&
        wring_bucket_stats(run->buckets[event->bucket], &stats) == WRING_OK)
        item->raw[run->rank] = strcmp(stats.codec, "none") == 0;
    item->done[run->rank] = true;
    event->under_way = false;
    for (int i = 0; i < 2 && !is_bucket; i++)
        if (event->memory[i] != NULL)
            put_memory(run, event->call->memory, event->memory[i]);
}

static uint32_t pick_pending(struct run *run, const struct event *events, uint32_t n)
{
    uint32_t pending[EVENTS_MAX], n_pending = 0;
    for (uint32_t i = 0; i < n; i++)
        if (events[i].under_way)
            pending[n_pending++] = i;
    return n_pending > 0 ? pending[below(run, n_pending)] : n;
}

static enum wring_status run_phase(struct run *run, const struct program_phase *phase)
{
    struct event events[EVENTS_MAX];
    uint32_t n = order_events(run, phase, events), at;
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < n && status == WRING_OK; i++) {
        status = events[i].call != NULL ? begin_call(run, phase, &events[i])
                                        : begin_bucket(run, phase, &events[i]);
        if (status == WRING_OK && !events[i].under_way)
            ended(run, &events[i]);
        dawdle(run);
    }
    while (status == WRING_OK && (at = pick_pending(run, events, n)) != n) {
        uint32_t any = at;
        if (below(run, 3) == 0)
            status = wait_any(run, events, n, &any);
        else
            status = wait_one(run, &events[at]);
        if (any < n && status != WRING_OK)
            note(run, status, "wait", &events[any]);
        if (any < n && status == WRING_OK)
            ended(run, &events[any]);
        dawdle(run);
    }
    return note(run, status, "wait", NULL);
}

/* ---- the other operations ---- */

static enum wring_status create_group(struct run *run, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS], n = program_members(run->p, group, ranks);

    if (!is_mine(run, group))
        return WRING_OK;
    return note(run,
                wring_group_create(wring_session_world(run->session), ranks, n, group,
                                   WRING_FOREVER, &run->groups[group]),
                "create group", NULL);
}

static enum wring_status register_bucket(struct run *run, uint32_t index)
{
    const struct program_bucket *b = &run->p->buckets[index];
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    if (!is_mine(run, b->group))
        return WRING_OK;
    run->data[index] = get_memory(run, b->memory, b->elems * wring_dtype_bytes(b->dtype));
    if (run->data[index] == NULL)
        return note(run, WRING_ERR_NO_MEMORY, "memory of a bucket", NULL);
    params.name = b->name;
    params.data = run->data[index];
    params.elems = b->elems;
    params.dtype = b->dtype;
    params.op = b->op;
    params.codec = b->codec;
    params.scheme = b->scheme;
    params.priority = b->priority;
    params.group = b->group == 0 ? NULL : run->groups[b->group];
    return note(run, wring_bucket_register(run->session, &params, &run->buckets[index]), "register",
                NULL);
}

static enum wring_status drop_bucket(struct run *run, uint32_t index)
{
    if (run->buckets[index] == NULL)
        return WRING_OK;
    enum wring_status status = wring_bucket_drop(run->buckets[index]);
    run->buckets[index] = NULL;
    return note(run, status, "drop", NULL);
}

/** After it the data of buckets that were dropped may go. */
static enum wring_status commit(struct run *run)
{
    enum wring_status status = note(run, wring_session_commit(run->session), "commit", NULL);
    for (uint32_t b = 0; b < run->p->n_buckets && status == WRING_OK; b++)
        if (run->buckets[b] == NULL && run->data[b] != NULL) {
            put_memory(run, run->p->buckets[b].memory, run->data[b]);
            run->data[b] = NULL;
        }
    return status;
}

static enum wring_status save_state(struct run *run)
{
    enum wring_status status = wring_session_save_state(run->session, NULL, &run->state_bytes);
    if (status != WRING_OK)
        return note(run, status, "size of state", NULL);
    free(run->state);
    run->state = malloc(run->state_bytes + 1);
    return note(run, wring_session_save_state(run->session, run->state, &run->state_bytes),
                "save state", NULL);
}

static enum wring_status run_op(struct run *run, const struct program_op *op)
{
    switch (op->kind) {
    case PROGRAM_CREATE:
        return create_group(run, op->index);
    case PROGRAM_DESTROY:
        wring_group_destroy(run->groups[op->index]);
        run->groups[op->index] = NULL;
        return WRING_OK;
    case PROGRAM_REGISTER:
        return register_bucket(run, op->index);
    case PROGRAM_DROP:
        return drop_bucket(run, op->index);
    case PROGRAM_COMMIT:
        return commit(run);
    case PROGRAM_PHASE:
        return run_phase(run, &op->phase);
    case PROGRAM_SAVE:
        return save_state(run);
    case PROGRAM_LOAD:
        return note(run, wring_session_load_state(run->session, run->state, run->state_bytes),
                    "load state", NULL);
    }
    return WRING_OK;
}

static void die_if_it_is_time(const struct run *run)
{
    if (run->p->killed == (int32_t)run->rank && run->p->killed_at == run->op)
        raise(SIGKILL);
}

enum wring_status run_program(struct wring_session *session, const struct results *results,
                              char *why, struct run_memory **kept)
{
    struct run run = {.session = session,
                      .p = results->p,
                      .results = results,
                      .rank = wring_session_rank(session),
                      .why = why};
    enum wring_status status = WRING_OK;

    run.random = run.p->seed * 7919 + run.rank;
    why[0] = '\0';
    for (; run.op < run.p->n_ops && status == WRING_OK; run.op++) {
        die_if_it_is_time(&run);
        status = run_op(&run, &run.p->ops[run.op]);
    }
    free(run.state);
    *kept = run.kept;
    return status;
}

void run_settings(const struct program *p, uint32_t rank, char *node, const char **list)
{
    uint32_t n = 0;

    snprintf(node, 32, "WRING_NODE=%u", p->node[rank]);
    list[n++] = node;
    for (uint32_t i = 0; i < p->n_settings; i++)
        list[n++] = p->settings[i];
    list[n] = NULL;
}
