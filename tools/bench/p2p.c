/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench p2p: the command line, the two ranks, and what is printed. */
#include "tools/bench/p2p.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "tools/bench/bench.h"
#include "tools/bench/latency.h"
#include "tools/bench/payload.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/values.h"

#define WINDOW_MAX 64
#define WINDOW_BYTES (16u << 20) /* under way at most, if more than two puts are */

static size_t stride_of(size_t bytes)
{
    return (bytes + WRING_P2P_LINE - 1) / WRING_P2P_LINE * WRING_P2P_LINE;
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
static size_t p2p_half_bytes(const struct wring_p2p_params *params)
{
    size_t most = WRING_P2P_LINE;

    for (size_t i = 0; i < params->n_bytes; i++) {
        size_t bytes = window_of(params->bytes[i], WINDOW_MAX) * stride_of(params->bytes[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t slot_offset(const struct wring_p2p *p2p, uint64_t i)
{
    return WRING_P2P_SLOTS_AT + i % p2p->window * p2p->stride;
}

static uint8_t *slot_address(const struct wring_p2p *p2p, uint64_t i)
{
    return (uint8_t *)p2p->pair.memory.base + slot_offset(p2p, i);
}

static uint8_t *received_slot(const struct wring_p2p *p2p, uint64_t i)
{
    return slot_address(p2p, i) + p2p_half_bytes(p2p->params);
}

/** Put the payload that slot i holds, its end stamped with the number of the put. */
static enum wring_status send_slot(struct wring_p2p *p2p, uint64_t i)
{
    wring_payload_stamp(slot_address(p2p, i), p2p->bytes, p2p->pair.sent);
    return wring_bench_pair_put(&p2p->pair, slot_offset(p2p, i),
                                p2p_half_bytes(p2p->params) + slot_offset(p2p, i), p2p->bytes);
}

/** A put of nothing: a sign. */
static enum wring_status send_sign(struct wring_p2p *p2p)
{
    return wring_bench_pair_put(&p2p->pair, 0, 0, 0);
}

/** Say what is wrong with a put. @return WRING_ERR_FRAME, also from now on */
static enum wring_status p2p_complain(struct wring_p2p *p2p, const char *what)
{
    wring_fail(p2p->params->name, "rank %u: a put of %zu bytes over %s came with %s",
               p2p->pair.rank, p2p->bytes, p2p->params->provider->name, what);
    return p2p->pair.status = WRING_ERR_FRAME;
}

/** Wait for the payload of slot i, and look at its end. */
static enum wring_status take_slot(struct wring_p2p *p2p, uint64_t i)
{
    uint64_t number = p2p->pair.taken;
    enum wring_status status = wring_bench_pair_take(&p2p->pair, p2p->bytes);

    if (status == WRING_OK && !wring_payload_has_stamp(received_slot(p2p, i), p2p->bytes, number))
        return p2p_complain(p2p, "wrong last bytes");
    return status;
}

/** Look at all that the first n slots have received, but for the stamps. */
static enum wring_status p2p_check(struct wring_p2p *p2p, uint64_t n)
{
    for (uint64_t i = 0; i < n && i < p2p->window; i++)
        if (!wring_payload_is_right(received_slot(p2p, i), p2p->bytes, 1 - p2p->pair.rank))
            return p2p_complain(p2p, "wrong bytes");
    return WRING_OK;
}

/** Round trip i: rank 0 begins, rank 1 answers with a payload of its own. */
static enum wring_status round_trip(struct wring_p2p *p2p, uint64_t i)
{
    bool leads = p2p->pair.rank == 0;
    enum wring_status status = leads ? send_slot(p2p, i) : take_slot(p2p, i);

    if (status == WRING_OK)
        status = leads ? take_slot(p2p, i) : send_slot(p2p, i);
    /* the slot is to be written again a window later */
    return status == WRING_OK ? wring_bench_pair_drain(&p2p->pair, p2p->window - 1) : status;
}

/** Round trips, one after the other. @param times out, [n], half of each in us; of rank 0 */
static enum wring_status p2p_time_trips(struct wring_p2p *p2p, uint64_t n, double *times)
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
static uint64_t batch_of(const struct wring_p2p *p2p)
{
    return p2p->window >= 4 ? p2p->window / 4 : 1;
}

/** Rank 0: n puts, a window of them under way, until the receiver has seen the last. */
static enum wring_status send_stream(struct wring_p2p *p2p, uint64_t n)
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
static enum wring_status receive_stream(struct wring_p2p *p2p, uint64_t n)
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

/** n puts of rank 0's, a window of them under way. @param ns out, of rank 0, until the last was
 * seen */
static enum wring_status p2p_time_stream(struct wring_p2p *p2p, uint64_t n, double *ns)
{
    uint64_t begin = wring_now_ns();
    enum wring_status status = p2p->pair.rank == 0 ? send_stream(p2p, n) : receive_stream(p2p, n);

    *ns = (double)(wring_now_ns() - begin);
    return status;
}

/** Rank 0's number for both, sent with its complement; both are here when this returns. */
static enum wring_status p2p_agree(struct wring_p2p *p2p, uint64_t *number)
{
    struct wring_bench_pair *pair = &p2p->pair;
    uint64_t *own = pair->memory.base, *theirs = own + WRING_P2P_LINE / sizeof(*own);
    bool leads = pair->rank == 0;
    enum wring_status status = WRING_OK;

    own[0] = *number;
    own[1] = ~*number;
    if (leads)
        status = wring_bench_pair_put(pair, 0, WRING_P2P_LINE, 2 * sizeof(*own));
    if (status == WRING_OK)
        status = wring_bench_pair_take(pair, leads ? 0 : 2 * sizeof(*own));
    if (status == WRING_OK && !leads) {
        if (theirs[0] != ~theirs[1])
            return p2p_complain(p2p, "a number that was changed");
        *number = theirs[0];
        status = send_sign(p2p);
    }
    return status == WRING_OK ? wring_bench_pair_drain(pair, 0) : status;
}

/** Write what this rank will send, and spoil what it will receive. */
static void p2p_prepare(struct wring_p2p *p2p, size_t bytes)
{
    p2p->bytes = bytes;
    p2p->stride = stride_of(bytes);
    p2p->window = window_of(bytes, p2p->pair.caps.put_depth);
    for (uint32_t i = 0; i < p2p->window; i++) {
        wring_payload_fill(slot_address(p2p, i), bytes, p2p->pair.rank);
        wring_payload_spoil(received_slot(p2p, i), bytes, 1 - p2p->pair.rank);
    }
}

/* ---- p2p rank ---- */

#define TURNS_MIN 3
#define BATCH_NS 1e7 /* of round trips between looks at the clock */
#define WARM_TRIPS 16
#define TRIPS_MIN 20
#define TRIPS_MAX 100000
#define PUTS_MAX (1u << 20) /* of a turn */

/** Half of the time of a size, from now on. */
static uint64_t half_deadline(const struct wring_p2p *p2p)
{
    return wring_deadline_in((uint64_t)(p2p->params->seconds * 1e9 / 2));
}

/** Round trips until the time is over: rank 0 says how many are next, and in the end none. */
static enum wring_status time_latency(struct wring_p2p *p2p, double trip_ns, uint64_t *total)
{
    uint64_t deadline = half_deadline(p2p), n = TRIPS_MIN;
    enum wring_status status = WRING_OK;

    for (*total = 0; status == WRING_OK; *total += n) {
        uint64_t room = TRIPS_MAX - *total;
        if (*total >= TRIPS_MIN)
            n = room > 0 && wring_now_ns() < deadline ? wring_bench_fit(BATCH_NS, trip_ns, 1, room)
                                                      : 0;
        status = p2p_agree(p2p, &n);
        if (status == WRING_OK && n > room)
            return p2p_complain(p2p, "a number out of range");
        if (n == 0)
            return status;
        if (status == WRING_OK)
            status = p2p_time_trips(p2p, n, p2p->times + *total);
    }
    return status;
}

static enum wring_status measure_latency(struct wring_p2p *p2p, struct wring_p2p_result *result)
{
    enum wring_status status = p2p_time_trips(p2p, WARM_TRIPS, p2p->times);

    if (status == WRING_OK)
        status = p2p_check(p2p, WARM_TRIPS);
    if (status != WRING_OK)
        return status;
    double trip_ns = wring_spread_of(p2p->times, WARM_TRIPS).median * 2e3;
    status = time_latency(p2p, trip_ns, &result->round_trips);
    if (status == WRING_OK)
        result->latency_us = wring_spread_of(p2p->times, result->round_trips);
    result->trips_us = p2p->times;
    return status;
}

/** Turns of a stream, likewise. */
static enum wring_status time_bandwidth(struct wring_p2p *p2p, double put_ns,
                                        struct wring_p2p_result *result)
{
    uint64_t deadline = half_deadline(p2p);
    uint64_t planned = wring_bench_fit(p2p->params->seconds * 1e9 / 2 / WRING_P2P_TURNS_MAX, put_ns,
                                       p2p->window, PUTS_MAX);
    enum wring_status status = WRING_OK;

    for (unsigned i = 0; i < WRING_P2P_TURNS_MAX && status == WRING_OK; i++) {
        uint64_t n = i < TURNS_MIN || wring_now_ns() < deadline ? planned : 0;
        double ns = 0;
        status = p2p_agree(p2p, &n);
        if (n == 0)
            return status;
        result->puts = n;
        if (status == WRING_OK)
            status = p2p_time_stream(p2p, n, &ns);
        result->put_us[result->turns++] = ns / 1e3 / (double)n;
    }
    return status;
}

static enum wring_status measure_bandwidth(struct wring_p2p *p2p, struct wring_p2p_result *result)
{
    double ns;
    uint64_t warm = 2 * p2p->window;
    struct wring_verbs_counters before;
    enum wring_status status = p2p_time_stream(p2p, warm, &ns);

    if (status == WRING_OK && p2p->pair.rank == 1)
        status = p2p_check(p2p, warm);
    result->has_work = wring_verbs_counters_of(p2p->pair.provider, &before);
    if (status == WRING_OK)
        status = time_bandwidth(p2p, ns / (double)warm, result);
    if (status != WRING_OK)
        return status;
    result->bandwidth_gb_per_s =
        (double)p2p->bytes / 1e3 / wring_spread_of(result->put_us, result->turns).median;
    if (result->has_work && wring_verbs_counters_of(p2p->pair.provider, &result->work))
        wring_verbs_counters_since(&result->work, &before);
    return WRING_OK;
}

static enum wring_status measure_size(struct wring_p2p *p2p, size_t bytes,
                                      struct wring_p2p_result *result)
{
    uint64_t ready = bytes;

    p2p_prepare(p2p, bytes); /* all that was sent before has been taken */
    *result = (struct wring_p2p_result){.bytes = bytes, .window = p2p->window};
    enum wring_status status = p2p_agree(p2p, &ready);
    if (status == WRING_OK)
        status = measure_latency(p2p, result);
    if (status == WRING_OK)
        status = measure_bandwidth(p2p, result);
    return status;
}

static int fail_unless_said(const struct wring_p2p *p2p, enum wring_status status)
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
        enum wring_status status = measure_size(p2p, p2p->params->bytes[i], &result);
        if (status != WRING_OK)
            return fail_unless_said(p2p, status);
        if (p2p->pair.rank == 0)
            report(arg, &result);
    }
    /* who leaves first must not look lost to the other */
    enum wring_status status = wring_barrier(wring_session_world(p2p->pair.session), NULL, NULL);
    return status == WRING_OK ? WRING_EXIT_OK : fail_unless_said(p2p, status);
}

static bool check_sizes(const struct wring_p2p *p2p)
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
                                           .memory_bytes =
                                               WRING_P2P_SLOTS_AT + 2 * p2p_half_bytes(params),
                                           .session = params->session,
                                           .ranks = {params->ranks[0], params->ranks[1]}};
    int code = WRING_EXIT_FAILURE;

    if (p2p.times == NULL)
        return wring_fail(params->name, "out of memory");
    if (wring_bench_pair_open(&p2p.pair, &pair) == WRING_OK && check_sizes(&p2p))
        code = measure_all(&p2p, report, arg);
    wring_bench_pair_finish(&p2p.pair);
    free(p2p.times);
    return code;
}

/* ---- p2p ---- */

static const struct argp_option options[] = {
    {"provider", 'p', "NAME", 0, "transport provider (default: WRING_PROVIDER, or the best)", 0},
    {"bytes", 'b', "LIST", 0, "sizes, such as 8,4k,1m (default 8,4k,64k,1m)", 0},
    {0},
};

struct command {
    struct wring_p2p_params params;
    struct wring_config config;
    const char *provider; /* as given; NULL: as configured */
    bool json;
    struct wring_bench_options options;
    json_t *results;
};

static const struct wring_bench_sizes sizes = {1, 1u << 30, 1, "a size from 1 to 1g"};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->options;
        return 0;
    case 'p':
        command->provider = arg;
        return 0;
    case 'b':
        command->params.n_bytes =
            wring_bench_parse_sizes(&sizes, arg, command->params.bytes, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_bench_argp, 0, NULL, 0}, {0}};

static const struct argp p2p_argp = {
    .options = options,
    .parser = parse_option,
    .children = children,
    .doc = "Measure a provider as it is, between two ranks: puts into each other's memory."
           "\v"
           "Latency is half the time of a put each way. Bandwidth is one way, with a window of "
           "puts under way, until the receiver has seen the last one; the median of turns. The "
           "receiver looks at every payload's last bytes, and at all bytes of the first ones: "
           "wrong data is an error. WRING_FAULT makes the link slower. Without a launcher, two "
           "ranks are started on this host.",
};

/** The provider asked for, or the best that works here; NULL after saying why not. */
static const struct wring_provider_ops *choose_provider(const struct command *command)
{
    const char *name = command->provider != NULL ? command->provider : command->config.provider;
    bool automatic = strcmp(name, "auto") == 0;
    char reason[256] = "";

    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++) {
        if (!automatic && strcmp((*ops)->name, name) != 0)
            continue;
        if ((*ops)->probe(reason, sizeof(reason)) == WRING_OK)
            return *ops;
        if (!automatic) {
            wring_fail(command->params.name, "provider %s cannot work here: %s", name, reason);
            return NULL;
        }
    }
    wring_fail(command->params.name, "no provider '%s'; wring info --providers lists them", name);
    return NULL;
}

/** What the bandwidth cost the provider, where it tells. */
static json_t *work_of(const struct wring_p2p_result *result)
{
    const struct wring_verbs_counters *work = &result->work;
    double mib = (double)work->put_bytes / 0x1p20, puts = work->puts > 0 ? (double)work->puts : 1;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "puts",
        (json_int_t)work->puts, "requests", (json_int_t)work->requests, "inlined",
        (json_int_t)work->inlined, "signalled", (json_int_t)work->signalled, "doorbells",
        (json_int_t)work->doorbells, "credit_writes", (json_int_t)work->credit_writes,
        "receive_doorbells", (json_int_t)work->receive_doorbells, "completions",
        (json_int_t)work->completions, "control_bytes", (json_int_t)work->control_bytes,
        "copied_bytes", (json_int_t)work->copied_bytes, "registrations",
        (json_int_t)work->registrations, "completions_per_mib",
        mib > 0 ? (double)work->completions / mib : 0.0, "doorbells_per_put",
        (double)work->doorbells / puts);
}

static void add_result(void *arg, const struct wring_p2p_result *result)
{
    struct command *command = arg;
    json_t *row =
        json_pack("{s:s, s:I, s:{s:f, s:f, s:f}, s:f, s:I, s:I, s:i}", "provider",
                  command->params.provider->name, "bytes", (json_int_t)result->bytes, "latency_us",
                  "min", result->latency_us.min, "median", result->latency_us.median, "p99",
                  result->latency_us.p99, "bandwidth_gb_per_s", result->bandwidth_gb_per_s,
                  "round_trips", (json_int_t)result->round_trips, "puts_per_round",
                  (json_int_t)result->puts, "window", (int)result->window);

    if (result->has_work)
        json_object_set_new(row, "verbs", work_of(result));
    json_array_append_new(command->results, row);
    wring_latency_progress(result->bytes, result->latency_us.median, result->bandwidth_gb_per_s);
}

static int print_results(const struct command *command)
{
    const char *fault = command->config.fault;
    char title[2 * WRING_CONFIG_TEXT];

    snprintf(title, sizeof(title), "puts between two ranks, provider %s%s%s",
             command->params.provider->name, fault[0] != '\0' ? ", WRING_FAULT=" : "", fault);
    return wring_latency_print(command->results, command->json, json_pack("{s:s}", "fault", fault),
                               title);
}

/** As one of the two ranks, or as the one who starts them. */
static int run_ranks(struct command *command, int argc, char **argv)
{
    static const char *const words[] = {"bench", "p2p", NULL};
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};

    if (!wring_bench_knows_provider(command->params.name, command->provider))
        return WRING_EXIT_USAGE;
    if (wring_config_load(&command->config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    command->params.provider = choose_provider(command);
    if (command->params.provider == NULL)
        return WRING_EXIT_FAILURE;
    if (wring_command_launched(&command->config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return wring_start_ranks(command->params.name, words, 2, argc, argv);
    command->params.config = &command->config;
    int code = wring_p2p_rank(&command->params, add_result, command);
    return code == WRING_EXIT_OK ? print_results(command) : code;
}

int wring_bench_p2p(int argc, char **argv)
{
    char usual[] = "8,4k,64k,1m";
    struct command command = {.params = {.name = argv[0], .seconds = 1},
                              .options = {&command.params.seconds, &command.json}};
    char **given = wring_arguments_copy(argc, argv);
    int code;

    command.params.n_bytes = wring_bench_parse_sizes(&sizes, usual, command.params.bytes, NULL);
    argp_parse(&p2p_argp, argc, argv, 0, NULL, &command);
    command.results = json_array();
    if (given == NULL || command.results == NULL)
        code = wring_fail(argv[0], "out of memory");
    else
        code = run_ranks(&command, argc, given);
    json_decref(command.results);
    wring_arguments_free(argc, given);
    return code;
}
