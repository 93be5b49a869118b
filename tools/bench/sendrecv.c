/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench sendrecv: the command line, the two ranks, and what is printed. */
#include "tools/bench/sendrecv.h"

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
#include "tools/rank_faults.h"
#include "tools/values.h"
#include <wring/wring.h>

#define WINDOW_MAX 64
#define WINDOW_BYTES (16u << 20) /* under way at most, if more than two messages are */
#define LINE 64
#define TURNS_MIN 3
#define BATCH_NS 1e7 /* of round trips between looks at the clock */
#define WARM_TRIPS 16
#define TRIPS_MIN 20
#define TRIPS_MAX 100000
#define STREAM_MAX (1u << 20) /* messages of a turn */

enum {
    TAG_PAYLOAD,
    TAG_SIGN /* a message of nothing: a stream has come */
};

struct bench {
    const struct wring_sendrecv_params *params;
    struct wring_rank_faults faults;
    struct wring_group *world;
    uint32_t rank;
    uint8_t *memory; /* a window of slots to send, then one to receive */
    uint64_t half_bytes;
    double *times; /* [TRIPS_MAX] */
    bool said;     /* why it fails */

    uint64_t bytes, stride; /* of a message, and of its slot */
    uint32_t window;
    uint64_t sent, taken; /* messages of a payload so far */
    struct wring_request *under_way[WINDOW_MAX];
};

static uint64_t stride_of(uint64_t bytes)
{
    return bytes > 0 ? (bytes + LINE - 1) / LINE * LINE : LINE;
}

static uint32_t window_of(uint64_t bytes)
{
    uint64_t fit = WINDOW_BYTES / stride_of(bytes);

    if (fit > WINDOW_MAX)
        return WINDOW_MAX;
    return fit < 2 ? 2 : (uint32_t)fit;
}

static uint8_t *slot_address(const struct bench *bench, uint64_t i)
{
    return bench->memory + i % bench->window * bench->stride;
}

static uint8_t *received_slot(const struct bench *bench, uint64_t i)
{
    return slot_address(bench, i) + bench->half_bytes;
}

static enum wring_status complain_of_message(struct bench *bench, const char *what)
{
    wring_fail(bench->params->name, "rank %u: a message of %llu bytes over %s came with %s",
               bench->rank, (unsigned long long)bench->bytes, bench->params->provider, what);
    bench->said = true;
    return WRING_ERR_FRAME;
}

/** Begin to send the payload of slot i, its end stamped. @param request  NULL: wait for its end */
static enum wring_status send_slot(struct bench *bench, uint64_t i, struct wring_request **request)
{
    wring_payload_stamp(slot_address(bench, i), bench->bytes, bench->sent++);
    return wring_send(bench->world, slot_address(bench, i), bench->bytes, 1 - bench->rank,
                      TAG_PAYLOAD, NULL, request);
}

static enum wring_status receive_slot(struct bench *bench, uint64_t i,
                                      struct wring_request **request)
{
    return wring_recv(bench->world, received_slot(bench, i), bench->bytes, 1 - bench->rank,
                      TAG_PAYLOAD, NULL, request);
}

/** Check the last bytes of the message in slot i. */
static enum wring_status check_slot(struct bench *bench, uint64_t i)
{
    if (!wring_payload_has_stamp(received_slot(bench, i), bench->bytes, bench->taken++))
        return complain_of_message(bench, "wrong last bytes");
    return WRING_OK;
}

/** Look at all bytes of the first n slots, but for their ends. */
static enum wring_status check_all_slots(struct bench *bench, uint64_t n)
{
    for (uint64_t i = 0; i < n && i < bench->window; i++)
        if (!wring_payload_is_right(received_slot(bench, i), bench->bytes, 1 - bench->rank))
            return complain_of_message(bench, "wrong bytes");
    return WRING_OK;
}

/** Round trip i: rank 0 begins, rank 1 answers with a payload of its own. */
static enum wring_status round_trip(struct bench *bench, uint64_t i)
{
    enum wring_status status = bench->rank == 0 ? send_slot(bench, i, NULL) : WRING_OK;

    if (status == WRING_OK)
        status = receive_slot(bench, i, NULL);
    if (status == WRING_OK)
        status = check_slot(bench, i);
    if (status == WRING_OK && bench->rank != 0)
        status = send_slot(bench, i, NULL);
    return status;
}

/** @param times  out, [n] us */
static enum wring_status time_trips(struct bench *bench, uint64_t n, double *times)
{
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        uint64_t begin = wring_now_ns();
        status = round_trip(bench, i);
        times[i] = (double)(wring_now_ns() - begin) / 2e3;
    }
    return status;
}

/** Message i of a stream: rank 0 sends, rank 1 receives. */
static enum wring_status begin_message(struct bench *bench, uint64_t i)
{
    struct wring_request **request = &bench->under_way[i % bench->window];

    return bench->rank == 0 ? send_slot(bench, i, request) : receive_slot(bench, i, request);
}

static enum wring_status end_message(struct bench *bench, uint64_t i)
{
    enum wring_status status =
        wring_request_wait(bench->under_way[i % bench->window], WRING_FOREVER, NULL);

    return status == WRING_OK && bench->rank == 1 ? check_slot(bench, i) : status;
}

/** n messages, a window of them under way, until the receiver has the last. @param ns  out */
static enum wring_status time_stream(struct bench *bench, uint64_t n, double *ns)
{
    uint64_t begin = wring_now_ns(), ended = 0;
    enum wring_status status = WRING_OK;

    for (uint64_t i = 0; i < n && status == WRING_OK; i++) {
        if (i - ended == bench->window)
            status = end_message(bench, ended++);
        if (status == WRING_OK)
            status = begin_message(bench, i);
    }
    while (ended < n && status == WRING_OK)
        status = end_message(bench, ended++);
    if (status == WRING_OK)
        status = bench->rank == 0 ? wring_recv(bench->world, NULL, 0, 1, TAG_SIGN, NULL, NULL)
                                  : wring_send(bench->world, NULL, 0, 0, TAG_SIGN, NULL, NULL);
    *ns = (double)(wring_now_ns() - begin);
    return status;
}

/** Rank 0's number becomes rank 1's. */
static enum wring_status broadcast_number(struct bench *bench, uint64_t *number)
{
    return wring_broadcast(bench->world, number, sizeof(*number), 0, NULL, NULL);
}

/** Half of the time of a size, from now on. */
static uint64_t half_deadline(const struct bench *bench)
{
    return wring_deadline_in((uint64_t)(bench->params->seconds * 1e9 / 2));
}

/** Round trips until the time is over: rank 0 says how many are next, and in the end none. */
static enum wring_status time_latency(struct bench *bench, double trip_ns, uint64_t *total)
{
    uint64_t deadline = half_deadline(bench), n = TRIPS_MIN;
    enum wring_status status = WRING_OK;

    for (*total = 0; status == WRING_OK; *total += n) {
        uint64_t room = TRIPS_MAX - *total;
        if (*total >= TRIPS_MIN)
            n = room > 0 && wring_now_ns() < deadline ? wring_bench_fit(BATCH_NS, trip_ns, 1, room)
                                                      : 0;
        status = broadcast_number(bench, &n);
        if (n == 0)
            return status;
        if (status == WRING_OK && n > room)
            return complain_of_message(bench, "a number out of range");
        if (status == WRING_OK)
            status = time_trips(bench, n, bench->times + *total);
    }
    return status;
}

static enum wring_status measure_latency(struct bench *bench, struct wring_sendrecv_result *result)
{
    enum wring_status status = time_trips(bench, WARM_TRIPS, bench->times);

    if (status == WRING_OK)
        status = check_all_slots(bench, WARM_TRIPS);
    if (status != WRING_OK)
        return status;
    double trip_ns = wring_spread_of(bench->times, WARM_TRIPS).median * 2e3;
    status = time_latency(bench, trip_ns, &result->round_trips);
    if (status == WRING_OK)
        result->latency_us = wring_spread_of(bench->times, result->round_trips);
    return status;
}

/** Turns of a stream, likewise. @param us  out, [WRING_SENDRECV_TURNS_MAX] each message took */
static enum wring_status time_turns(struct bench *bench, double message_ns, double *us,
                                    unsigned *turns, struct wring_sendrecv_result *result)
{
    uint64_t deadline = half_deadline(bench);
    uint64_t planned = wring_bench_fit(bench->params->seconds * 1e9 / 2 / WRING_SENDRECV_TURNS_MAX,
                                       message_ns, bench->window, STREAM_MAX);
    enum wring_status status = WRING_OK;

    for (*turns = 0; *turns < WRING_SENDRECV_TURNS_MAX && status == WRING_OK; ++*turns) {
        uint64_t n = *turns < TURNS_MIN || wring_now_ns() < deadline ? planned : 0;
        double ns = 0;
        status = broadcast_number(bench, &n);
        if (n == 0 || status != WRING_OK)
            return status;
        result->in_a_stream = n;
        status = time_stream(bench, n, &ns);
        us[*turns] = ns / 1e3 / (double)n;
    }
    return status;
}

static enum wring_status measure_bandwidth(struct bench *bench,
                                           struct wring_sendrecv_result *result)
{
    double ns, us[WRING_SENDRECV_TURNS_MAX];
    uint64_t warm = 2 * (uint64_t)bench->window;
    unsigned turns = 0;
    enum wring_status status = time_stream(bench, warm, &ns);

    if (status == WRING_OK && bench->rank == 1)
        status = check_all_slots(bench, warm);
    if (status == WRING_OK)
        status = time_turns(bench, ns / (double)warm, us, &turns, result);
    if (status == WRING_OK)
        result->message_us = wring_spread_of(us, turns).median;
    return status;
}

static enum wring_status measure_size(struct bench *bench, uint64_t bytes,
                                      struct wring_sendrecv_result *result)
{
    bench->bytes = bytes;
    bench->stride = stride_of(bytes);
    bench->window = window_of(bytes);
    *result = (struct wring_sendrecv_result){.bytes = bytes, .window = bench->window};
    for (uint32_t i = 0; i < bench->window; i++) {
        wring_payload_fill(slot_address(bench, i), bytes, bench->rank);
        wring_payload_spoil(received_slot(bench, i), bytes, 1 - bench->rank);
    }
    enum wring_status status = wring_barrier(bench->world, NULL, NULL);
    if (status == WRING_OK)
        status = measure_latency(bench, result);
    if (status == WRING_OK)
        status = measure_bandwidth(bench, result);
    return status;
}

static int measure_all(struct bench *bench, wring_sendrecv_report_fn report, void *arg)
{
    enum wring_status status = WRING_OK;

    for (size_t i = 0; i < bench->params->n_bytes && status == WRING_OK; i++) {
        struct wring_sendrecv_result result;
        status = measure_size(bench, bench->params->bytes[i], &result);
        if (status == WRING_OK && bench->rank == 0)
            report(arg, &result);
    }
    if (status == WRING_OK) /* the rank that leaves first must not look lost to the other */
        status = wring_barrier(bench->world, NULL, NULL);
    if (status == WRING_OK)
        return WRING_EXIT_OK;
    return bench->said ? WRING_EXIT_FAILURE
                       : wring_rank_say(&bench->faults, "cannot measure", status);
}

static int make_memory(struct bench *bench)
{
    const struct wring_sendrecv_params *params = bench->params;
    void *memory = NULL;
    enum wring_status status = WRING_OK;

    for (size_t i = 0; i < params->n_bytes; i++) {
        uint64_t bytes = window_of(params->bytes[i]) * stride_of(params->bytes[i]);
        bench->half_bytes = bytes > bench->half_bytes ? bytes : bench->half_bytes;
    }
    if (params->foreign)
        status = (memory = malloc(2 * bench->half_bytes)) != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
    else
        status = wring_buffer_alloc(bench->faults.session, 2 * bench->half_bytes, &memory);
    bench->memory = memory;
    bench->times = calloc(TRIPS_MAX, sizeof(*bench->times));
    if (status == WRING_OK && bench->times == NULL)
        status = WRING_ERR_NO_MEMORY;
    return status == WRING_OK ? WRING_EXIT_OK
                              : wring_rank_say(&bench->faults, "cannot prepare", status);
}

static int prepare_rank(struct bench *bench)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;

    params.provider = bench->params->provider;
    int code = wring_rank_open(&bench->faults, &params, 0);
    if (code != WRING_EXIT_OK)
        return code;
    uint32_t ranks = wring_session_size(bench->faults.session);
    if (ranks != 2)
        return wring_fail(bench->params->name, "needs 2 ranks; the launcher started %u", ranks);
    bench->world = wring_session_world(bench->faults.session);
    bench->rank = wring_session_rank(bench->faults.session);
    return make_memory(bench);
}

/** Be one of the two ranks. @return an exit status; failures are said */
static int sendrecv_rank(const struct wring_sendrecv_params *params,
                         wring_sendrecv_report_fn report, void *arg)
{
    struct bench bench = {.params = params, .faults.command = params->name};
    int code = prepare_rank(&bench);

    if (code == WRING_EXIT_OK)
        code = measure_all(&bench, report, arg);
    wring_session_close(bench.faults.session);
    if (params->foreign)
        free(bench.memory);
    free(bench.times);
    return code;
}

/* ---- sendrecv ---- */

enum {
    OPTION_FOREIGN = 0x100
};

static const struct argp_option options[] = {
    {"provider", 'p', "NAME", 0, "transport provider (default: WRING_PROVIDER)", 0},
    {"bytes", 'b', "LIST", 0, "sizes, such as 0,8,4k,1m (default 8,4k,64k,1m)", 0},
    {"foreign", OPTION_FOREIGN, NULL, 0, "malloc'ed memory, not of wring_buffer_alloc()", 0},
    {0},
};

struct command {
    struct wring_sendrecv_params params;
    struct wring_config config;
    struct wring_bench_options options;
    json_t *results;
};

static const struct wring_bench_sizes sizes = {0, 1u << 30, 1, "a size from 0 to 1g"};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->options;
        return 0;
    case 'p':
        command->params.provider = arg;
        return 0;
    case 'b':
        command->params.n_bytes =
            wring_bench_parse_sizes(&sizes, arg, command->params.bytes, state);
        return 0;
    case OPTION_FOREIGN:
        command->params.foreign = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_bench_argp, 0, NULL, 0}, {0}};

static const struct argp sendrecv_argp = {
    .options = options,
    .parser = parse_option,
    .children = children,
    .doc = "Measure messages between two ranks, by wring_send() and wring_recv()."
           "\v"
           "Latency is half the time of a message each way. Bandwidth is one way, with a window of "
           "messages under way, until the receiver has the last one; the median of turns. "
           "wring bench p2p with the same sizes says how much of that the provider takes. The "
           "receiver looks at every message's last bytes, and at all bytes of the first ones: "
           "wrong data is an error. WRING_FAULT makes the link slower. Without a launcher, two "
           "ranks are started on this host.",
};

static double compute_bandwidth(const struct wring_sendrecv_result *result)
{
    return (double)result->bytes / 1e3 / result->message_us;
}

static void add_result(void *arg, const struct wring_sendrecv_result *result)
{
    struct command *command = arg;
    json_t *row = json_pack(
        "{s:s, s:I, s:{s:f, s:f, s:f}, s:f, s:f, s:I, s:I, s:i}", "provider",
        command->params.provider, "bytes", (json_int_t)result->bytes, "latency_us", "min",
        result->latency_us.min, "median", result->latency_us.median, "p99", result->latency_us.p99,
        "bandwidth_gb_per_s", compute_bandwidth(result), "messages_per_s", 1e6 / result->message_us,
        "round_trips", (json_int_t)result->round_trips, "messages_per_round",
        (json_int_t)result->in_a_stream, "window", (int)result->window);

    json_array_append_new(command->results, row);
    wring_latency_progress(result->bytes, result->latency_us.median, compute_bandwidth(result));
}

static int print_results(const struct command *command)
{
    const char *fault = command->config.fault;
    const char *memory = command->params.foreign ? "foreign" : "registered";
    char title[2 * WRING_CONFIG_TEXT];

    snprintf(title, sizeof(title), "messages between two ranks, provider %s, %s memory%s%s",
             command->params.provider, memory, fault[0] != '\0' ? ", WRING_FAULT=" : "", fault);
    return wring_latency_print(command->results, command->params.json,
                               json_pack("{s:s, s:s}", "fault", fault, "memory", memory), title);
}

/** As one of the two ranks, or as the one who starts them. */
static int measure_pair(struct command *command, int argc, char **argv)
{
    static const char *const words[] = {"bench", "sendrecv", NULL};
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};

    if (!wring_bench_knows_provider(command->params.name, command->params.provider))
        return WRING_EXIT_USAGE;
    if (wring_config_load(&command->config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    if (wring_command_launched(&command->config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return wring_start_ranks(command->params.name, words, 2, argc, argv);
    if (command->params.provider == NULL)
        command->params.provider = command->config.provider;
    int code = sendrecv_rank(&command->params, add_result, command);
    return code == WRING_EXIT_OK ? print_results(command) : code;
}

int wring_bench_sendrecv(int argc, char **argv)
{
    char usual[] = "8,4k,64k,1m";
    struct command command = {.params = {.name = argv[0], .seconds = 1},
                              .options = {&command.params.seconds, &command.params.json}};
    char **given = wring_arguments_copy(argc, argv);
    int code;

    command.params.n_bytes = wring_bench_parse_sizes(&sizes, usual, command.params.bytes, NULL);
    argp_parse(&sendrecv_argp, argc, argv, 0, NULL, &command);
    command.results = json_array();
    if (given == NULL || command.results == NULL)
        code = wring_fail(argv[0], "out of memory");
    else
        code = measure_pair(&command, argc, given);
    json_decref(command.results);
    wring_arguments_free(argc, given);
    return code;
}
