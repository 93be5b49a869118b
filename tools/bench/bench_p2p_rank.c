/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One rank of `wring bench p2p`. Rank 0 leads: it begins each round trip, sends the stream whose
 * bandwidth is measured, and decides how much of each there will be.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "tools/bench/bench_p2p_moves.h"
#include "tools/commands.h"

#define ROUNDS_MIN 3
#define BATCH_NS 1e7 /* of round trips between looks at the clock */
#define WARM_TRIPS 16
#define TRIPS_MIN 20
#define TRIPS_MAX 100000
#define PUTS_MAX (1u << 20) /* of a round */

/** Half of the time of a size, from now on. */
static uint64_t half_time(const struct wring_p2p *p2p)
{
    return wring_deadline_in((uint64_t)(p2p->params->seconds * 1e9 / 2));
}

/** Round trips until the time is over: rank 0 says how many are next, and in the end none. */
static enum wring_status time_latency(struct wring_p2p *p2p, double trip_ns, uint64_t *total)
{
    uint64_t deadline = half_time(p2p), n = TRIPS_MIN;
    enum wring_status status = WRING_OK;

    for (*total = 0; status == WRING_OK; *total += n) {
        uint64_t room = TRIPS_MAX - *total;
        if (*total >= TRIPS_MIN)
            n = room > 0 && wring_now_ns() < deadline ? wring_bench_fit(BATCH_NS, trip_ns, 1, room)
                                                      : 0;
        status = wring_p2p_agree(p2p, &n);
        if (status == WRING_OK && n > room)
            return wring_p2p_complain(p2p, "a number out of range");
        if (n == 0)
            return status;
        if (status == WRING_OK)
            status = wring_p2p_time_trips(p2p, n, p2p->times + *total);
    }
    return status;
}

static enum wring_status measure_latency(struct wring_p2p *p2p, struct wring_p2p_result *result)
{
    enum wring_status status = wring_p2p_time_trips(p2p, WARM_TRIPS, p2p->times);

    if (status == WRING_OK)
        status = wring_p2p_check(p2p, WARM_TRIPS);
    if (status != WRING_OK)
        return status;
    double trip_ns = wring_spread_of(p2p->times, WARM_TRIPS).median * 2e3;
    status = time_latency(p2p, trip_ns, &result->round_trips);
    if (status == WRING_OK)
        result->latency_us = wring_spread_of(p2p->times, result->round_trips);
    result->trips_us = p2p->times;
    return status;
}

/** Rounds of a stream, likewise. */
static enum wring_status time_bandwidth(struct wring_p2p *p2p, double put_ns,
                                        struct wring_p2p_result *result)
{
    uint64_t deadline = half_time(p2p);
    uint64_t planned = wring_bench_fit(p2p->params->seconds * 1e9 / 2 / WRING_P2P_ROUNDS_MAX,
                                       put_ns, p2p->window, PUTS_MAX);
    enum wring_status status = WRING_OK;

    for (unsigned i = 0; i < WRING_P2P_ROUNDS_MAX && status == WRING_OK; i++) {
        uint64_t n = i < ROUNDS_MIN || wring_now_ns() < deadline ? planned : 0;
        double ns = 0;
        status = wring_p2p_agree(p2p, &n);
        if (n == 0)
            return status;
        result->puts = n;
        if (status == WRING_OK)
            status = wring_p2p_time_stream(p2p, n, &ns);
        result->put_us[result->rounds++] = ns / 1e3 / (double)n;
    }
    return status;
}

static enum wring_status measure_bandwidth(struct wring_p2p *p2p, struct wring_p2p_result *result)
{
    double ns;
    uint64_t warm = 2 * p2p->window;
    struct wring_verbs_counters before;
    enum wring_status status = wring_p2p_time_stream(p2p, warm, &ns);

    if (status == WRING_OK && p2p->pair.rank == 1)
        status = wring_p2p_check(p2p, warm);
    result->has_work = wring_verbs_counters_of(p2p->pair.provider, &before);
    if (status == WRING_OK)
        status = time_bandwidth(p2p, ns / (double)warm, result);
    if (status != WRING_OK)
        return status;
    result->bandwidth_gb_per_s =
        (double)p2p->bytes / 1e3 / wring_spread_of(result->put_us, result->rounds).median;
    if (result->has_work && wring_verbs_counters_of(p2p->pair.provider, &result->work))
        wring_verbs_counters_since(&result->work, &before);
    return WRING_OK;
}

static enum wring_status measure(struct wring_p2p *p2p, size_t bytes,
                                 struct wring_p2p_result *result)
{
    uint64_t ready = bytes;

    wring_p2p_prepare(p2p, bytes); /* all that was sent before has been taken */
    *result = (struct wring_p2p_result){.bytes = bytes, .window = p2p->window};
    enum wring_status status = wring_p2p_agree(p2p, &ready);
    if (status == WRING_OK)
        status = measure_latency(p2p, result);
    if (status == WRING_OK)
        status = measure_bandwidth(p2p, result);
    return status;
}

static int fail(const struct wring_p2p *p2p, enum wring_status status)
{
    if (p2p->pair.status == WRING_OK) /* else it was said where it was found */
        wring_fail(p2p->params->name, "%s", wring_status_text(status));
    return WRING_EXIT_FAILURE;
}

static int measure_all(struct wring_p2p *p2p, wring_p2p_report_fn report, void *arg)
{
    bool looks_on = p2p->pair.rank == WRING_PAIR_LOOKS_ON;

    for (size_t i = 0; i < p2p->params->n_bytes && !looks_on; i++) {
        struct wring_p2p_result result;
        enum wring_status status = measure(p2p, p2p->params->bytes[i], &result);
        if (status != WRING_OK)
            return fail(p2p, status);
        if (p2p->pair.rank == 0)
            report(arg, &result);
    }
    /* who leaves first must not look lost to the other */
    enum wring_status status = wring_barrier(wring_session_world(p2p->pair.session), NULL, NULL);
    return status == WRING_OK ? WRING_EXIT_OK : fail(p2p, status);
}

static bool fits_provider(const struct wring_p2p *p2p)
{
    for (size_t i = 0; i < p2p->params->n_bytes && p2p->pair.rank != WRING_PAIR_LOOKS_ON; i++)
        if (p2p->params->bytes[i] > p2p->pair.caps.put_max_bytes) {
            wring_fail(p2p->params->name, "a put over %s has at most %zu bytes",
                       p2p->params->provider->name, p2p->pair.caps.put_max_bytes);
            return false;
        }
    return true;
}

int wring_p2p_rank(const struct wring_p2p_params *params, wring_p2p_report_fn report, void *arg)
{
    struct wring_p2p p2p = {.params = params, .times = calloc(TRIPS_MAX, sizeof(*p2p.times))};
    struct wring_bench_pair_params pair = {.name = params->name,
                                           .config = params->config,
                                           .provider = params->provider,
                                           .memory_bytes = WRING_P2P_SLOTS_AT +
                                                           2 * wring_p2p_half_bytes(params),
                                           .session = params->session,
                                           .ranks = {params->ranks[0], params->ranks[1]}};
    int code = WRING_EXIT_FAILURE;

    if (p2p.times == NULL)
        return wring_fail(params->name, "out of memory");
    if (wring_bench_pair_open(&p2p.pair, &pair) == WRING_OK && fits_provider(&p2p))
        code = measure_all(&p2p, report, arg);
    wring_bench_pair_finish(&p2p.pair);
    free(p2p.times);
    return code;
}
