/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/pair.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "runtime/session/session.h"
#include "tools/commands.h"
#include "transport/auth.h"
#include "transport/fabric.h"
#include "transport/interface.h"
#include "transport/memory.h"
#include "transport/providers/fault/fault.h"

#define EVENTS_PER_POLL 32
#define YIELD_NS 200000   /* without sleep, after WRING_SPIN: links at hand answer sooner */
#define SLEEP_NS 50000000 /* at most, between looks at the session */

static enum wring_status fail_pair(struct wring_bench_pair *pair, enum wring_status status,
                                   const char *text)
{
    if (pair->status == WRING_OK) {
        wring_fail(pair->name, "rank %u: %s", pair->rank, text);
        pair->status = status;
    }
    return pair->status;
}

static void on_arrived(struct wring_bench_pair *pair, const struct wring_event *event)
{
    if (event->imm != (uint32_t)pair->arrived)
        fail_pair(pair, WRING_ERR_FRAME, "a put was lost, or came out of order");
    if (pair->arrived - pair->taken == WRING_PAIR_AHEAD)
        fail_pair(pair, WRING_ERR_FRAME, "the other rank sent more than was asked for");
    pair->arrived_bytes[pair->arrived++ % WRING_PAIR_AHEAD] = event->bytes;
}

static void on_event(struct wring_bench_pair *pair, const struct wring_event *event)
{
    switch (event->kind) {
    case WRING_EVENT_CONNECTED:
        pair->connected = true;
        return;
    case WRING_EVENT_ACCEPTED: /* only the other rank knows the secret */
        pair->conn = event->conn;
        pair->connected = true;
        return;
    case WRING_EVENT_PUT_DONE:
        pair->done++;
        return;
    case WRING_EVENT_ARRIVED:
        on_arrived(pair, event);
        return;
    case WRING_EVENT_MESSAGE:
        return; /* nobody sends one */
    case WRING_EVENT_CLOSED:
        if (event->conn == pair->conn)
            fail_pair(pair, event->status, event->text != NULL ? event->text : "connection closed");
        return;
    }
}

/** Nothing came: has the other rank died, or was this step to be over by now? */
static void check_peer_and_deadline(struct wring_bench_pair *pair)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    enum wring_status status = wring_session_error(pair->session, &detail);

    if (status != WRING_OK)
        fail_pair(pair, status, detail.text);
    if (wring_now_ns() >= pair->deadline_ns)
        fail_pair(pair, WRING_ERR_TIMEOUT, "nothing came within WRING_TIMEOUT");
}

static size_t poll_events(struct wring_bench_pair *pair)
{
    struct wring_event events[EVENTS_PER_POLL];
    size_t n = pair->provider->ops->poll(pair->provider, events, EVENTS_PER_POLL);

    for (size_t i = 0; i < n; i++)
        on_event(pair, &events[i]);
    if (n == 0)
        return 0;
    pair->idle_since_ns = 0;
    pair->deadline_ns = WRING_NEVER;
    if (pair->config->timeout_ns > 0)
        pair->deadline_ns = wring_deadline_in(pair->config->timeout_ns);
    return n;
}

static void sleep_a_while(struct wring_bench_pair *pair)
{
    struct wring_wait_set set = {.deadline_ns = wring_deadline_in(SLEEP_NS)};

    pair->provider->ops->arm(pair->provider, &set);
    if (poll_events(pair) == 0)
        wring_wait_set_sleep(&set);
    check_peer_and_deadline(pair);
}

/** Nothing came: poll again at once, then offer the core to others, then sleep. */
static void back_off_polling(struct wring_bench_pair *pair)
{
    uint64_t now = wring_now_ns();

    if (pair->idle_since_ns == 0)
        pair->idle_since_ns = now;
    if (now - pair->idle_since_ns > pair->config->spin_ns + YIELD_NS)
        sleep_a_while(pair);
    else if (now - pair->idle_since_ns > pair->config->spin_ns)
        sched_yield();
}

/** See what has come; rests a little when that was nothing for a while. */
static enum wring_status bench_pair_poll(struct wring_bench_pair *pair)
{
    if (poll_events(pair) == 0)
        back_off_polling(pair);
    return pair->status;
}

enum wring_status wring_bench_pair_put(struct wring_bench_pair *pair, size_t offset,
                                       size_t remote_offset, size_t bytes)
{
    const char *from = (const char *)pair->memory.base + offset;

    for (;;) {
        enum wring_status status =
            pair->provider->ops->put(pair->conn, pair->region, from, pair->remote, remote_offset,
                                     bytes, (uint32_t)pair->sent, pair->sent);
        if (status == WRING_OK) {
            pair->sent++;
            return WRING_OK;
        }
        if (status != WRING_ERR_AGAIN && status != WRING_ERR_CLOSED)
            return fail_pair(pair, status, wring_status_text(status));
        status = bench_pair_poll(pair); /* makes room, or tells why the connection is closed */
        if (status != WRING_OK)
            return status;
    }
}

enum wring_status wring_bench_pair_take(struct wring_bench_pair *pair, size_t bytes)
{
    while (pair->taken == pair->arrived && bench_pair_poll(pair) == WRING_OK)
        ;
    if (pair->status != WRING_OK)
        return pair->status;
    if (pair->arrived_bytes[pair->taken++ % WRING_PAIR_AHEAD] != bytes)
        return fail_pair(pair, WRING_ERR_FRAME, "a put came with another length than it left with");
    return WRING_OK;
}

enum wring_status wring_bench_pair_drain(struct wring_bench_pair *pair, uint64_t left)
{
    while (pair->sent - pair->done > left && bench_pair_poll(pair) == WRING_OK)
        ;
    return pair->status;
}

/* ---- pair open ---- */

/* How the two ranks of a pair meet: what a session does for its own connections, for one. */

#define NONCE_BYTES 32

static bool is_looking_on(const struct wring_bench_pair *pair)
{
    return pair->rank == WRING_PAIR_LOOKS_ON;
}

/** Short bytes of ours for the other rank's; who looks on gives and gets none.
 *  @param theirs out, [max] @param bytes out */
static enum wring_status exchange_bytes(struct wring_bench_pair *pair, const void *own,
                                        size_t own_bytes, void *theirs, size_t max, size_t *bytes)
{
    struct wring_blobs blobs;
    enum wring_status status =
        wring_session_exchange(pair->session, own, is_looking_on(pair) ? 0 : own_bytes, &blobs);

    *bytes = 0;
    if (status != WRING_OK)
        return status;
    struct wring_reader reader = wring_blobs_reader(&blobs, pair->peer);
    if (is_looking_on(pair))
        reader.bytes = 0;
    if (reader.bytes > max)
        status = WRING_ERR_FRAME;
    else if (reader.bytes > 0)
        memcpy(theirs, reader.data, *bytes = reader.bytes);
    wring_blobs_finish(&blobs);
    return status;
}

/** Could both do it? Each failure is said once by each rank. @param what "listen" */
static enum wring_status agree_on_status(struct wring_bench_pair *pair, enum wring_status status,
                                         const char *what)
{
    char text[WRING_TEXT_MAX];

    snprintf(text, sizeof(text), "rank %" PRIu32 " cannot %s: %s",
             wring_session_rank(pair->session), what, wring_status_text(status));
    return wring_session_agree(pair->session, status, text);
}

/** A session of its own. */
static enum wring_status open_own_session(struct wring_bench_pair *pair)
{
    static const char *const settings[] = {"WRING_FAULT=", "WRING_PROGRESS=thread",
                                           "WRING_EXECUTOR=inline", NULL};
    struct wring_session_params params = {.provider = "tcp", .settings = settings};
    enum wring_status status = wring_session_open(&params, &pair->session);

    if (status != WRING_OK)
        return status;
    pair->owns_session = true;
    pair->rank = wring_session_rank(pair->session);
    pair->peer = 1 - pair->rank;
    if (wring_session_size(pair->session) == 2)
        return WRING_OK;
    if (pair->rank == 0)
        wring_fail(pair->name, "needs 2 ranks; the launcher started %" PRIu32,
                   wring_session_size(pair->session));
    return WRING_ERR_INVALID;
}

/** That of a job. */
static void borrow_session(struct wring_bench_pair *pair,
                           const struct wring_bench_pair_params *params)
{
    uint32_t own = wring_session_rank(params->session);

    pair->session = params->session;
    pair->rank = own == params->ranks[0] ? 0 : own == params->ranks[1] ? 1 : WRING_PAIR_LOOKS_ON;
    pair->peer = params->ranks[pair->rank == 0];
}

/** Make the secret that both ends of the connection prove to know, from the job's key and a random
 *  number of rank 0. */
static enum wring_status make_secret(struct wring_bench_pair *pair, uint8_t *secret)
{
    const char *key = pair->session->config.key;
    uint8_t own[NONCE_BYTES], theirs[NONCE_BYTES];
    size_t bytes;

    if (getrandom(own, sizeof(own), 0) != sizeof(own)) {
        wring_fail(pair->name, "no random numbers: %s", WRING_REFUSED("getrandom"));
        return WRING_ERR_SYSTEM;
    }
    enum wring_status status =
        exchange_bytes(pair, own, sizeof(own), theirs, sizeof(theirs), &bytes);
    if (status == WRING_OK && bytes != NONCE_BYTES && !is_looking_on(pair))
        status = WRING_ERR_FRAME;
    if (status != WRING_OK || is_looking_on(pair))
        return status;
    return wring_secret_derive(key, strlen(key), "wring bench p2p", pair->rank == 0 ? own : theirs,
                               NONCE_BYTES, secret);
}

/**
 * The address to listen on, as sessions choose it: without a key it is loopback. The pair's own
 * session has refused impossible addresses already.
 * @param found [WRING_INTERFACE_ADDRESS], filled if need be @param out NULL: loopback
 */
static enum wring_status choose_bind(const struct wring_bench_pair *pair, char *found,
                                     const char **out)
{
    const struct wring_session *session = pair->session;
    const char *address = session->config.bind;

    if (address[0] == '\0' && session->config.key[0] != '\0')
        address = session->local_address;
    *out = address[0] != '\0' ? address : NULL;
    if (session->config.iface[0] == '\0')
        return WRING_OK;
    *out = found;
    return wring_interface_find(&pair->log, session->config.iface, address, found);
}

static enum wring_status wrap_in_faults(struct wring_bench_pair *pair,
                                        const struct wring_provider_params *params)
{
    struct wring_provider *inner = pair->provider;

    if (pair->config->fault[0] == '\0')
        return WRING_OK;
    return wring_fault_wrap(pair->config->fault, params, inner, &pair->provider);
}

static enum wring_status open_provider(struct wring_bench_pair *pair,
                                       const struct wring_provider_ops *ops, size_t memory_bytes)
{
    struct wring_provider_params params = {
        .log = &pair->log, .config = pair->config, .rank = pair->rank, .size = 2};
    char address[WRING_INTERFACE_ADDRESS];
    enum wring_status status = make_secret(pair, params.secret);

    if (is_looking_on(pair))
        return status;
    if (status == WRING_OK)
        status = choose_bind(pair, address, &params.bind);
    if (status == WRING_OK)
        status = ops->open(&params, &pair->provider);
    if (status == WRING_OK)
        status = wrap_in_faults(pair, &params);
    if (status == WRING_OK)
        status = wring_memory_alloc(memory_bytes, &pair->memory);
    if (status != WRING_OK)
        return status;
    memset(pair->memory.base, 0, pair->memory.bytes);
    ops = pair->provider->ops;
    ops->capabilities(pair->provider, &pair->caps);
    return ops->region_create(pair->provider, &pair->memory, &pair->region);
}

/** Can the provider reach from one rank to the other? Both find the same. */
static enum wring_status check_hosts(struct wring_bench_pair *pair)
{
    char own[WRING_CONFIG_TEXT] = "", theirs[WRING_CONFIG_TEXT];
    size_t bytes;

    wring_host_of_rank(pair->config->node, wring_session_rank(pair->session), own, sizeof(own));
    enum wring_status status =
        exchange_bytes(pair, own, strlen(own), theirs, sizeof(theirs), &bytes);
    if (is_looking_on(pair))
        return status;
    bool same = status == WRING_OK && bytes == strlen(own) && memcmp(own, theirs, bytes) == 0;
    if (status != WRING_OK || same || !pair->caps.same_host_only)
        return status;
    if (pair->rank == 0)
        wring_fail(pair->name,
                   "the ranks are on two hosts, and %s reaches one only; try "
                   "--provider tcp",
                   pair->provider_name);
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status wait_connected(struct wring_bench_pair *pair, const uint8_t *address,
                                        size_t bytes)
{
    uint64_t deadline = wring_deadline_in(pair->config->join_timeout_ns);
    enum wring_status status = WRING_OK;

    if (pair->rank == 1)
        status =
            pair->provider->ops->connect(pair->provider, address, bytes, "p2p", 3, &pair->conn);
    while (status == WRING_OK && !pair->connected) {
        status = bench_pair_poll(pair);
        if (status == WRING_OK && wring_now_ns() >= deadline)
            status = WRING_ERR_PEER;
    }
    return status;
}

/** Rank 1 connects to rank 0. */
static enum wring_status connect_pair(struct wring_bench_pair *pair)
{
    uint8_t own[WRING_ADDRESS_MAX], theirs[WRING_ADDRESS_MAX];
    size_t own_bytes = 0, bytes;
    enum wring_status status = WRING_OK;

    if (!is_looking_on(pair))
        status = pair->provider->ops->listen(pair->provider, own, &own_bytes);
    status = agree_on_status(pair, status, "listen");
    if (status != WRING_OK)
        return status;
    status = exchange_bytes(pair, own, own_bytes, theirs, sizeof(theirs), &bytes);
    if (status != WRING_OK)
        return status;
    if (!is_looking_on(pair))
        status = wait_connected(pair, theirs, bytes);
    return agree_on_status(pair, status, "connect");
}

static enum wring_status import_memory(struct wring_bench_pair *pair)
{
    uint8_t own[WRING_REGION_KEY_MAX], theirs[WRING_REGION_KEY_MAX];
    size_t own_bytes = 0, bytes;

    if (!is_looking_on(pair))
        own_bytes = pair->provider->ops->region_export(pair->region, own);
    enum wring_status status = exchange_bytes(pair, own, own_bytes, theirs, sizeof(theirs), &bytes);
    if (status == WRING_OK && !is_looking_on(pair))
        status = pair->provider->ops->remote_import(pair->conn, theirs, bytes, &pair->remote);
    return agree_on_status(pair, status, "use the other's memory");
}

enum wring_status wring_bench_pair_open(struct wring_bench_pair *pair,
                                        const struct wring_bench_pair_params *params)
{
    *pair = (struct wring_bench_pair){
        .name = params->name,
        .config = params->config,
        .provider_name = params->provider->name,
        .log = {.level = wring_config_log_level(params->config)},
        .deadline_ns = WRING_NEVER,
    };
    enum wring_status status = WRING_OK;
    if (params->session != NULL)
        borrow_session(pair, params);
    else
        status = open_own_session(pair);
    if (status != WRING_OK)
        return status; /* said */
    status = agree_on_status(pair, open_provider(pair, params->provider, params->memory_bytes),
                             "open the provider");
    if (status == WRING_OK)
        status = agree_on_status(pair, check_hosts(pair), "reach the other rank");
    if (status == WRING_OK)
        status = connect_pair(pair);
    if (status == WRING_OK)
        status = import_memory(pair);
    return status;
}

void wring_bench_pair_finish(struct wring_bench_pair *pair)
{
    if (pair->provider != NULL) {
        const struct wring_provider_ops *ops = pair->provider->ops;
        ops->remote_release(pair->remote);
        ops->disconnect(pair->conn);
        ops->region_destroy(pair->region);
        ops->close(pair->provider);
    }
    wring_memory_free(&pair->memory);
    if (pair->owns_session)
        wring_session_close(pair->session);
}
