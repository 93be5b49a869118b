/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_pair.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "tools/commands.h"
#include "transport/fabric.h"

#define EVENTS_PER_POLL 32
#define YIELD_NS 200000   /* without sleep, after WRING_SPIN: links at hand answer sooner */
#define SLEEP_NS 50000000 /* at most, between looks at the session */

static enum wring_status give_up(struct wring_bench_pair *pair, enum wring_status status,
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
        give_up(pair, WRING_ERR_FRAME, "a put was lost, or came out of order");
    if (pair->arrived - pair->taken == WRING_PAIR_AHEAD)
        give_up(pair, WRING_ERR_FRAME, "the other rank sent more than was asked for");
    pair->arrived_bytes[pair->arrived++ % WRING_PAIR_AHEAD] = event->bytes;
}

static void on_event(struct wring_bench_pair *pair, const struct wring_event *event)
{
    switch (event->kind) {
    case WRING_EVENT_CONNECTED:
        pair->connected = true;
        return;
    case WRING_EVENT_ACCEPTED: /* of whoever knows the secret: the other rank */
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
            give_up(pair, event->status, event->text != NULL ? event->text : "connection closed");
        return;
    }
}

/** Nothing came: has the other rank died, or was this step to be over by now? */
static void look_around(struct wring_bench_pair *pair)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    enum wring_status status = wring_session_error(pair->session, &detail);

    if (status != WRING_OK)
        give_up(pair, status, detail.text);
    if (wring_now_ns() >= pair->deadline_ns)
        give_up(pair, WRING_ERR_TIMEOUT, "nothing came within WRING_TIMEOUT");
}

static size_t take_events(struct wring_bench_pair *pair)
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
    if (take_events(pair) == 0)
        wring_wait_set_sleep(&set);
    look_around(pair);
}

/** Nothing came: poll again at once, then offer the core to others, then sleep. */
static void rest(struct wring_bench_pair *pair)
{
    uint64_t now = wring_now_ns();

    if (pair->idle_since_ns == 0)
        pair->idle_since_ns = now;
    if (now - pair->idle_since_ns > pair->config->spin_ns + YIELD_NS)
        sleep_a_while(pair);
    else if (now - pair->idle_since_ns > pair->config->spin_ns)
        sched_yield();
}

enum wring_status wring_bench_pair_poll(struct wring_bench_pair *pair)
{
    if (take_events(pair) == 0)
        rest(pair);
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
            return give_up(pair, status, wring_status_text(status));
        status =
            wring_bench_pair_poll(pair); /* makes room, or tells why the connection is closed */
        if (status != WRING_OK)
            return status;
    }
}

enum wring_status wring_bench_pair_take(struct wring_bench_pair *pair, size_t bytes)
{
    while (pair->taken == pair->arrived && wring_bench_pair_poll(pair) == WRING_OK)
        ;
    if (pair->status != WRING_OK)
        return pair->status;
    if (pair->arrived_bytes[pair->taken++ % WRING_PAIR_AHEAD] != bytes)
        return give_up(pair, WRING_ERR_FRAME, "a put came with another length than it left with");
    return WRING_OK;
}

enum wring_status wring_bench_pair_drain(struct wring_bench_pair *pair, uint64_t left)
{
    while (pair->sent - pair->done > left && wring_bench_pair_poll(pair) == WRING_OK)
        ;
    return pair->status;
}
