/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One rank of `wring bench p2p`. Rank 0 leads: it begins each round trip, sends the stream whose
 * bandwidth is measured, and decides how much of each there will be.
 *
 * Memory, of both ranks alike: a number to agree on, ours and the other's, a line each; a slot for
 * each put of a window to send from; as many to receive into.
 */
#include "tools/bench_p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/bench_pair.h"
#include "tools/bench_payload.h"
#include "tools/commands.h"

#define WINDOW_MAX 64
#define WINDOW_BYTES (16u << 20) /* under way at most, if more than two puts are */
#define LINE 64u
#define SLOTS_AT (2 * LINE)
#define ROUNDS_MIN 3
#define ROUNDS_MAX 9
#define BATCH_NS 1e7 /* of round trips between looks at the clock */
#define WARM_TRIPS 16
#define TRIPS_MIN 20
#define TRIPS_MAX 100000
#define PUTS_MAX (1u << 20) /* of a round */

struct p2p {
    const struct wring_p2p_params *params;
    struct wring_bench_pair pair;
    double *times; /* [TRIPS_MAX] */

    /* of the size at hand */
    size_t bytes, stride;
    uint32_t window;
};

static size_t stride_of(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static uint32_t window_of(size_t bytes, unsigned depth)
{
    size_t fit = WINDOW_BYTES / stride_of(bytes);
    uint32_t window = fit < WINDOW_MAX ? (uint32_t)fit : WINDOW_MAX;

    if (window > depth)
        window = depth;
    return window < 2 ? 2 : window;
}

/** Half of the slots: enough for the window of each size, whatever the provider's depth. */
static size_t half_bytes(const struct wring_p2p_params *params)
{
    size_t most = LINE;

    for (size_t i = 0; i < params->n_bytes; i++) {
        size_t bytes = window_of(params->bytes[i], WINDOW_MAX) * stride_of(params->bytes[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t slot_offset(const struct p2p *p2p, uint64_t i)
{
    return SLOTS_AT + i % p2p->window * p2p->stride;
}

static uint8_t *slot(const struct p2p *p2p, uint64_t i)
{
    return (uint8_t *)p2p->pair.memory.base + slot_offset(p2p, i);
}

static uint8_t *received_slot(const struct p2p *p2p, uint64_t i)
{
    return slot(p2p, i) + half_bytes(p2p->params);
}

/** Put the payload that slot i holds, its end stamped with the number of the put. */
static enum wring_status send_slot(struct p2p *p2p, uint64_t i)
{
    wring_payload_stamp(slot(p2p, i), p2p->bytes, p2p->pair.sent);
    return wring_bench_pair_put(&p2p->pair, slot_offset(p2p, i),
                                half_bytes(p2p->params) + slot_offset(p2p, i), p2p->bytes);
}

/** A put of nothing: a sign. */
static enum wring_status send_sign(struct p2p *p2p)
{
    return wring_bench_pair_put(&p2p->pair, 0, 0, 0);
}

static enum wring_status complain(struct p2p *p2p, const char *what)
{
    wring_fail(p2p->params->name, "rank %u: a put of %zu bytes over %s came with %s",
               p2p->pair.rank, p2p->bytes, p2p->params->provider->name, what);
    return p2p->pair.status = WRING_ERR_FRAME;
}

/** Wait for the payload of slot i, and look at its end. */
static enum wring_status take_slot(struct p2p *p2p, uint64_t i)
{
    uint64_t number = p2p->pair.taken;
    enum wring_status status = wring_bench_pair_take(&p2p->pair, p2p->bytes);

    if (status == WRING_OK && !wring_payload_has_stamp(received_slot(p2p, i), p2p->bytes, number))
        return complain(p2p, "wrong last bytes");
    return status;
}

/** All that the first n slots have received, but for the stamps. */
static enum wring_status check_slots(struct p2p *p2p, uint64_t n)
{
    for (uint64_t i = 0; i < n && i < p2p->window; i++)
        if (!wring_payload_is_right(received_slot(p2p, i), p2p->bytes, 1 - p2p->pair.rank))
            return complain(p2p, "wrong bytes");
    return WRING_OK;
}

/** Round trip i: rank 0 begins, rank 1 answers with a payload of its own. */
static enum wring_status round_trip(struct p2p *p2p, uint64_t i)
{
    bool leads = p2p->pair.rank == 0;
    enum wring_status status = leads ? send_slot(p2p, i) : take_slot(p2p, i);

    if (status == WRING_OK)
        status = leads ? take_slot(p2p, i) : send_slot(p2p, i);
    /* the slot is to be written again a window later */
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, p2p->window - 1) : status;
}

/** Round trips, one after the other. @param times out, [n], half of each in us; of rank 0 */
static enum wring_status time_trips(struct p2p *p2p, uint64_t n, double *times)
{
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        uint64_t begin = wring_now_ns();
        status = round_trip(p2p, i);
        times[i] = (double)(wring_now_ns() - begin) / 2e3;
    }
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, 0) : status;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/** How many puts each sign of the receiver's stands for. */
static uint64_t batch_of(const struct p2p *p2p)
{
    return p2p->window >= 4 ? p2p->window / 4 : 1;
}

/** Rank 0: n puts, a window of them under way, until the receiver has seen the last. */
static enum wring_status send_stream(struct p2p *p2p, uint64_t n)
{
    struct wring_bench_pair *pair = &p2p->pair;
    uint64_t batch = batch_of(p2p), seen = 0;
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        while (i - seen >= p2p->window && status == WRING_OK) {
            status = wring_bench_pair_take(pair, 0);
            seen = least(seen + batch, n);
        }
        if (status == WRING_OK)
            status = wring_bench_pair_drain(pair, p2p->window - 1);
        if (status == WRING_OK)
            status = send_slot(p2p, i);
    }
    for (; seen < n && status == WRING_OK; seen = least(seen + batch, n))
        status = wring_bench_pair_take(pair, 0);
    return status == WRING_OK ? wring_bench_pair_drain(pair, 0) : status;
}

/** Rank 1: look at the end of each payload before its slot is given back. */
static enum wring_status receive_stream(struct p2p *p2p, uint64_t n)
{
    uint64_t batch = batch_of(p2p);
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        status = take_slot(p2p, i);
        if (status == WRING_OK && ((i + 1) % batch == 0 || i + 1 == n))
            status = send_sign(p2p);
    }
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, 0) : status;
}

/** @param ns out, of rank 0, from the first put to the last sign */
static enum wring_status time_stream(struct p2p *p2p, uint64_t n, double *ns)
{
    uint64_t begin = wring_now_ns();
    enum wring_status status = p2p->pair.rank == 0 ? send_stream(p2p, n) : receive_stream(p2p, n);

    *ns = (double)(wring_now_ns() - begin);
    return status;
}

/** Rank 0's number for both, sent with its complement; both are here when this returns. */
static enum wring_status agree(struct p2p *p2p, uint64_t *number)
{
    struct wring_bench_pair *pair = &p2p->pair;
    uint64_t *own = pair->memory.base, *theirs = own + LINE / sizeof(*own);
    bool leads = pair->rank == 0;
    enum wring_status status = WRING_OK;

    own[0] = *number;
    own[1] = ~*number;
    if (leads)
        status = wring_bench_pair_put(pair, 0, LINE, 2 * sizeof(*own));
    if (status == WRING_OK)
        status = wring_bench_pair_take(pair, leads ? 0 : 2 * sizeof(*own));
    if (status == WRING_OK && !leads) {
        if (theirs[0] != ~theirs[1])
            return complain(p2p, "a number that was changed");
        *number = theirs[0];
        status = send_sign(p2p);
    }
    return status == WRING_OK ? wring_bench_pair_drain(pair, 0) : status;
}

/** As many as fit into that time. */
static uint64_t fit(double ns, double each_ns, uint64_t min, uint64_t max)
{
    double n = ns / (each_ns > 1 ? each_ns : 1);

    if (n <= (double)min)
        return min;
    return n < (double)max ? (uint64_t)n : max;
}

/** Half of the time of a size, from now on. */
static uint64_t half_time(const struct p2p *p2p)
{
    return wring_deadline_in((uint64_t)(p2p->params->seconds * 1e9 / 2));
}

/** Round trips until the time is over: rank 0 says how many are next, and in the end none. */
static enum wring_status time_latency(struct p2p *p2p, double trip_ns, uint64_t *total)
{
    uint64_t deadline = half_time(p2p), n = TRIPS_MIN;
    enum wring_status status = WRING_OK;

    for (*total = 0; status == WRING_OK; *total += n) {
        uint64_t room = TRIPS_MAX - *total;
        if (*total >= TRIPS_MIN)
            n = room > 0 && wring_now_ns() < deadline ? fit(BATCH_NS, trip_ns, 1, room) : 0;
        status = agree(p2p, &n);
        if (status == WRING_OK && n > room)
            return complain(p2p, "a number out of range");
        if (n == 0)
            return status;
        if (status == WRING_OK)
            status = time_trips(p2p, n, p2p->times + *total);
    }
    return status;
}

static enum wring_status measure_latency(struct p2p *p2p, struct wring_p2p_result *result)
{
    enum wring_status status = time_trips(p2p, WARM_TRIPS, p2p->times);

    if (status == WRING_OK)
        status = check_slots(p2p, WARM_TRIPS);
    if (status != WRING_OK)
        return status;
    double trip_ns = wring_spread_of(p2p->times, WARM_TRIPS).median * 2e3;
    status = time_latency(p2p, trip_ns, &result->round_trips);
    if (status == WRING_OK)
        result->latency_us = wring_spread_of(p2p->times, result->round_trips);
    return status;
}

/** Rounds of a stream, likewise. @param speeds out, [ROUNDS_MAX] */
static enum wring_status time_bandwidth(struct p2p *p2p, double put_ns, uint64_t *puts,
                                        double *speeds, unsigned *rounds)
{
    uint64_t deadline = half_time(p2p);
    uint64_t planned =
        fit(p2p->params->seconds * 1e9 / 2 / ROUNDS_MAX, put_ns, p2p->window, PUTS_MAX);
    enum wring_status status = WRING_OK;

    for (*rounds = 0; *rounds < ROUNDS_MAX && status == WRING_OK; ++*rounds) {
        uint64_t n = *rounds < ROUNDS_MIN || wring_now_ns() < deadline ? planned : 0;
        double ns = 0;
        status = agree(p2p, &n);
        if (n == 0)
            return status;
        *puts = n;
        if (status == WRING_OK)
            status = time_stream(p2p, n, &ns);
        speeds[*rounds] = (double)p2p->bytes * (double)n / ns;
    }
    return status;
}

static enum wring_status measure_bandwidth(struct p2p *p2p, struct wring_p2p_result *result)
{
    double ns, speeds[ROUNDS_MAX];
    uint64_t warm = 2 * p2p->window;
    unsigned rounds;
    struct wring_verbs_counters before;
    enum wring_status status = time_stream(p2p, warm, &ns);

    if (status == WRING_OK && p2p->pair.rank == 1)
        status = check_slots(p2p, warm);
    result->has_work = wring_verbs_counters_of(p2p->pair.provider, &before);
    if (status == WRING_OK)
        status = time_bandwidth(p2p, ns / (double)warm, &result->puts, speeds, &rounds);
    if (status != WRING_OK)
        return status;
    result->bandwidth_gb_per_s = wring_spread_of(speeds, rounds).median;
    if (result->has_work && wring_verbs_counters_of(p2p->pair.provider, &result->work))
        wring_verbs_counters_since(&result->work, &before);
    return WRING_OK;
}

/** Write what this rank will send, and spoil what it will receive. */
static void prepare(struct p2p *p2p, size_t bytes)
{
    p2p->bytes = bytes;
    p2p->stride = stride_of(bytes);
    p2p->window = window_of(bytes, p2p->pair.caps.put_depth);
    for (uint32_t i = 0; i < p2p->window; i++) {
        wring_payload_fill(slot(p2p, i), bytes, p2p->pair.rank);
        wring_payload_spoil(received_slot(p2p, i), bytes, 1 - p2p->pair.rank);
    }
}

static enum wring_status measure(struct p2p *p2p, size_t bytes, struct wring_p2p_result *result)
{
    uint64_t ready = bytes;

    prepare(p2p, bytes); /* all that was sent before has been taken */
    *result = (struct wring_p2p_result){.bytes = bytes, .window = p2p->window};
    enum wring_status status = agree(p2p, &ready);
    if (status == WRING_OK)
        status = measure_latency(p2p, result);
    if (status == WRING_OK)
        status = measure_bandwidth(p2p, result);
    return status;
}

static int fail(const struct p2p *p2p, enum wring_status status)
{
    if (p2p->pair.status == WRING_OK) /* else it was said where it was found */
        wring_fail(p2p->params->name, "%s", wring_status_text(status));
    return WRING_EXIT_FAILURE;
}

static int measure_all(struct p2p *p2p, wring_p2p_report_fn report, void *arg)
{
    for (size_t i = 0; i < p2p->params->n_bytes; i++) {
        struct wring_p2p_result result;
        enum wring_status status = measure(p2p, p2p->params->bytes[i], &result);
        if (status != WRING_OK)
            return fail(p2p, status);
        if (p2p->pair.rank == 0)
            report(arg, &result);
    }
    /* who leaves first must not look lost to the other */
    enum wring_status status = wring_barrier(wring_session_world(p2p->pair.session));
    return status == WRING_OK ? WRING_EXIT_OK : fail(p2p, status);
}

static bool fits_provider(const struct p2p *p2p)
{
    for (size_t i = 0; i < p2p->params->n_bytes; i++)
        if (p2p->params->bytes[i] > p2p->pair.caps.put_max_bytes) {
            wring_fail(p2p->params->name, "a put over %s has at most %zu bytes",
                       p2p->params->provider->name, p2p->pair.caps.put_max_bytes);
            return false;
        }
    return true;
}

int wring_p2p_rank(const struct wring_p2p_params *params, wring_p2p_report_fn report, void *arg)
{
    struct p2p p2p = {.params = params, .times = calloc(TRIPS_MAX, sizeof(*p2p.times))};
    struct wring_bench_pair_params pair = {params->name, params->config, params->provider,
                                           SLOTS_AT + 2 * half_bytes(params)};
    int code = WRING_EXIT_FAILURE;

    if (p2p.times == NULL)
        return wring_fail(params->name, "out of memory");
    if (wring_bench_pair_open(&p2p.pair, &pair) == WRING_OK && fits_provider(&p2p))
        code = measure_all(&p2p, report, arg);
    wring_bench_pair_finish(&p2p.pair);
    free(p2p.times);
    return code;
}
