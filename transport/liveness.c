/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/liveness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "transport/control_tree.h"
#include "transport/fabric_connect.h"

#define WRING_MODULE "fabric"
#define TELL_NS (500 * WRING_NS_PER_MS) /* how long a failure is told before connections close */

static struct wring_control make_abort(const struct wring_fabric *fabric)
{
    struct wring_control control = {
        .kind = WRING_CONTROL_ABORT,
        .a = (uint32_t)fabric->failure.status,
        .b = (uint32_t)fabric->failure.rank,
    };
    snprintf(control.text, sizeof(control.text), "%.*s", (int)sizeof(control.text) - 1,
             fabric->failure.text);
    return control;
}

/** To a peer that may use the connection already that we have taken and that does not stand yet.
 *  Errors: WRING_ERR_CLOSED, there is none; WRING_ERR_AGAIN. */
static enum wring_status send_to_dialled(struct wring_peer *peer,
                                         const struct wring_control *control)
{
    bool stands_there = peer->dial != NULL && peer->dial->taken && !peer->owes_welcome;
    return stands_there ? wring_control_say(peer->conn, control) : WRING_ERR_CLOSED;
}

static void send_abort(struct wring_fabric *fabric, struct wring_peer *peer)
{
    const struct wring_control control = make_abort(fabric);
    enum wring_status status = peer->state == WRING_PEER_CONNECTING
                                   ? send_to_dialled(peer, &control)
                                   : wring_control_send(peer, &control);
    peer->owes_abort = status == WRING_ERR_AGAIN;
}

/** We are its peer, or it may think so already. */
static bool may_be_its_peer(const struct wring_peer *peer)
{
    return peer->state == WRING_PEER_READY || peer->state == WRING_PEER_CONNECTING;
}

void wring_failure_tell(struct wring_fabric *fabric)
{
    const struct wring_control control = make_abort(fabric);
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        if (may_be_its_peer(peer))
            send_abort(fabric, peer);
    if (fabric->tree != NULL)
        wring_control_tree_tell(fabric->tree, &control);
}

/** Tell those that there was no room for. */
static void failure_tell_again(struct wring_fabric *fabric)
{
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        if (may_be_its_peer(peer) && peer->owes_abort)
            send_abort(fabric, peer);
}

void wring_fabric_fail(struct wring_fabric *fabric, enum wring_status status, int32_t rank,
                       const char *format, ...)
{
    if (fabric->state >= WRING_FABRIC_FAILING)
        return;
    bool worked = fabric->state == WRING_FABRIC_WORKING && fabric->tree != NULL;
    fabric->failure = (struct wring_failure){.status = status, .rank = rank};
    va_list args;
    va_start(args, format);
    wring_number_vprint(fabric->failure.text, sizeof(fabric->failure.text), format, args);
    wring_text_clean(fabric->failure.text);
    va_end(args);

    wring_error(fabric->log, "rank %" PRIu32 ": %s", fabric->rank, fabric->failure.text);
    fabric->state = WRING_FABRIC_FAILING;
    fabric->due_ns = 0;
    fabric->failing_until_ns = wring_now_ns() + TELL_NS;
    atomic_store_explicit(&fabric->failed, (int)status, memory_order_release);
    wring_failure_tell(fabric);
    if (worked && status != WRING_ERR_CANCELLED) /* the caller that aborts it knows why */
        fabric->handler.failing(fabric->handler.arg);
}

enum wring_status wring_fabric_failure(struct wring_fabric *fabric, struct wring_failure *out)
{
    enum wring_status status = wring_fabric_status(fabric);
    if (status != WRING_OK && out != NULL)
        *out = fabric->failure;
    return status;
}

/* ---- liveness ---- */

#define DIALS_NS (10 * WRING_NS_PER_MS) /* between looks at dials that are to be repeated */

static bool is_ready(const struct wring_peer *peer)
{
    return peer->state == WRING_PEER_READY;
}

/** Did a rank's own system refuse something? To the others that rank is lost. */
static bool is_local_failure(enum wring_status status)
{
    return status == WRING_ERR_SYSTEM || status == WRING_ERR_NO_MEMORY;
}

static void heard_abort(struct wring_fabric *fabric, uint32_t from,
                        const struct wring_control *control)
{
    enum wring_status status = (enum wring_status)control->a;
    int32_t rank = (int32_t)control->b;
    if (status <= WRING_OK || status > WRING_ERR_CANCELLED || is_local_failure(status))
        status = WRING_ERR_PEER;
    if (rank < -1 || rank >= (int32_t)fabric->size)
        rank = -1;

    if (rank == (int32_t)fabric->rank)
        wring_fabric_fail(fabric, WRING_ERR_PEER, rank, "rank %" PRIu32 " gave up on this rank: %s",
                          from, control->text);
    else
        wring_fabric_fail(fabric, status, rank, "%s", control->text);
}

/** Answer with our time. A rank that asks in vain, because there is no room for the answer, asks
 *  again. */
static void tell_time(struct wring_peer *peer, uint32_t number)
{
    uint64_t now = wring_now_ns();
    wring_control_send(peer, &(struct wring_control){.kind = WRING_CONTROL_CLOCK_ACK,
                                                     .a = (uint32_t)now,
                                                     .b = (uint32_t)(now >> 32),
                                                     .c = number});
}

static void ask_time(struct wring_fabric *fabric)
{
    struct wring_clocks *clocks = fabric->clocks;
    uint64_t now = wring_now_ns(); /* before it leaves: nothing may be earlier than the question */
    if (clocks == NULL || fabric->rank == 0 || wring_clocks_next(clocks) > now ||
        wring_fabric_reach(fabric, wring_fabric_peer(fabric, 0)) != WRING_OK)
        return;
    uint32_t number = wring_clocks_asked(clocks, now);
    wring_control_send(&fabric->peers[0],
                       &(struct wring_control){.kind = WRING_CONTROL_CLOCK, .c = number});
}

void wring_liveness_heard(struct wring_fabric *fabric, struct wring_peer *peer,
                          const struct wring_control *control)
{
    switch (control->kind) {
    case WRING_CONTROL_HEARTBEAT:
    case WRING_CONTROL_CREDIT:
    case WRING_CONTROL_CALL:
    case WRING_CONTROL_STANDSTILL:
    case WRING_CONTROL_WELCOME:
    case WRING_CONTROL_FORM:
    case WRING_CONTROL_PAIR:
    case WRING_CONTROL_CEASE:
    case WRING_CONTROL_LINK:
    case WRING_CONTROL_ASK:
    case WRING_CONTROL_GRANT:
    case WRING_CONTROL_SPARE:
    case WRING_CONTROL_LEND:
    case WRING_CONTROL_FLIGHT:
    case WRING_CONTROL_MEMBER:
    case WRING_CONTROL_LEFT:
    case WRING_CONTROL_END:
        return;
    case WRING_CONTROL_ABORT:
        peer->acked = true;
        heard_abort(fabric, peer->rank, control);
        return;
    case WRING_CONTROL_BYE:
        peer->left = fabric->any_left = true;
        wring_control_send(peer, &(struct wring_control){.kind = WRING_CONTROL_BYE_ACK});
        return;
    case WRING_CONTROL_BYE_ACK:
        peer->acked = true;
        return;
    case WRING_CONTROL_CLOCK:
        tell_time(peer, control->c);
        return;
    case WRING_CONTROL_CLOCK_ACK:
        if (peer->rank == 0 && fabric->clocks != NULL)
            wring_clocks_answered(fabric->clocks, control->c,
                                  control->a | (uint64_t)control->b << 32, wring_now_ns());
        return;
    }
}

void wring_liveness_told(void *arg, uint32_t from, const struct wring_control *control)
{
    struct wring_fabric *fabric = arg;
    if (control->kind == WRING_CONTROL_ABORT)
        heard_abort(fabric, from, control);
    else if (control->kind == WRING_CONTROL_BYE)
        fabric->peers[from].left = fabric->any_left = true;
    else if (control->kind == WRING_CONTROL_CALL)
        fabric->handler.call(fabric->handler.arg, wring_fabric_peer(fabric, from), control->a,
                             control->b, control->c, control->text);
    else if (control->kind == WRING_CONTROL_STANDSTILL)
        fabric->handler.standstill(fabric->handler.arg, wring_fabric_peer(fabric, from), control->a,
                                   control->b, control->c, control->text);
    else if (control->kind == WRING_CONTROL_FLIGHT)
        fabric->handler.flight(fabric->handler.arg, from, control);
    else if (control->kind == WRING_CONTROL_MEMBER)
        fabric->handler.member(fabric->handler.arg, from, control);
}

static void fail_silent(struct wring_fabric *fabric, uint32_t rank)
{
    wring_fabric_fail(fabric, WRING_ERR_PEER, (int32_t)rank,
                      "rank %" PRIu32 " gave no sign of life for %.3g s (WRING_PEER_TIMEOUT): "
                      "it hangs, is stopped, or is cut off",
                      rank, (double)fabric->config->peer_timeout_ns / 1e9);
}

static void fail_lost(struct wring_fabric *fabric, uint32_t rank, enum wring_status status,
                      const char *text)
{
    const struct wring_peer *peer = wring_fabric_peer(fabric, rank);

    if (fabric->state == WRING_FABRIC_JOINING)
        wring_connect_failed(fabric, WRING_ERR_PEER, peer,
                             "no connection to rank %" PRIu32 " over tcp, for control: %s", rank,
                             text);
    else if (status == WRING_ERR_TIMEOUT)
        fail_silent(fabric, rank);
    else
        wring_fabric_fail(fabric, WRING_ERR_PEER, (int32_t)rank,
                          "rank %" PRIu32 " is lost (control over tcp): %s", rank, text);
}

void wring_liveness_lost(void *arg, uint32_t rank, enum wring_status status, const char *text)
{
    struct wring_fabric *fabric = arg;

    if (fabric->peers[rank].left)
        return;
    if (fabric->state < WRING_FABRIC_FAILING)
        fail_lost(fabric, rank, status, text);
    if (fabric->state >= WRING_FABRIC_FAILING)
        fabric->handler.lost(fabric->handler.arg, rank);
}

/** All peers have heard, or are gone. */
static bool have_all_acked(const struct wring_fabric *fabric)
{
    for (const struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        if (is_ready(peer) && !peer->acked)
            return false;
    return true;
}

static void disconnect_all(struct wring_fabric *fabric)
{
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        wring_peer_drop(peer);
    fabric->state = WRING_FABRIC_FAILED;
}

/** Word of a death may come from others first. Providers that seldom look whether a connection has
 *  ended look now, as they do before a sleep. */
static void look_at_connections(struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
        fabric->devices[i].provider->ops->arm(fabric->devices[i].provider, &set);
    }
}

static void tick_failing(struct wring_fabric *fabric)
{
    failure_tell_again(fabric);
    bool late = fabric->tick_ns >= fabric->failing_until_ns;
    bool accounted = fabric->tree == NULL || fabric->handler.account(fabric->handler.arg);
    if (late || (accounted && have_all_acked(fabric)))
        disconnect_all(fabric);
    else
        look_at_connections(fabric);
}

/**
 * If nobody made progress for a while (this rank was stopped, or its application did not call),
 * the peers' silence is ours: move their clocks on.
 */
static void forgive_own_absence(struct wring_fabric *fabric, uint64_t previous_ns)
{
    uint64_t absent = fabric->tick_ns - previous_ns;
    if (absent < fabric->config->heartbeat_ns)
        return;
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        peer->heard_ns += absent;
}

static void tend_peer(struct wring_fabric *fabric, struct wring_peer *peer)
{
    uint64_t now = fabric->tick_ns;
    if (peer->left)
        return;
    if (now > peer->heard_ns && now - peer->heard_ns > fabric->config->peer_timeout_ns) {
        fail_silent(fabric, peer->rank);
        return;
    }
    if (now - peer->sent_ns >= fabric->config->heartbeat_ns)
        wring_control_send(peer, &(struct wring_control){.kind = WRING_CONTROL_HEARTBEAT});
}

bool wring_liveness_look(struct wring_fabric *fabric)
{
    return fabric->tree != NULL && wring_control_tree_poll(fabric->tree, fabric->tick_ns);
}

static void tend_peers(struct wring_fabric *fabric, uint64_t previous_ns)
{
    forgive_own_absence(fabric, previous_ns);
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        if (is_ready(peer))
            tend_peer(fabric, peer);
    if (fabric->owes_dials)
        wring_connect_redial(fabric);
    ask_time(fabric);
}

/** The job has not begun, or is over: what others say is all that there is to do. */
static bool tick_otherwise(struct wring_fabric *fabric)
{
    if (fabric->state == WRING_FABRIC_FAILING)
        tick_failing(fabric);
    return wring_liveness_look(fabric);
}

bool wring_liveness_tick(struct wring_fabric *fabric)
{
    uint64_t previous_ns = fabric->judged_ns;

    if (fabric->state != WRING_FABRIC_WORKING)
        return tick_otherwise(fabric);
    if (fabric->tick_ns - previous_ns < WRING_CONTROL_TREE_LOOK_NS)
        return false;
    fabric->judged_ns = fabric->tick_ns;
    fabric->due_ns = fabric->tick_ns + WRING_CONTROL_TREE_LOOK_NS;
    bool any = wring_liveness_look(fabric);
    if (fabric->state == WRING_FABRIC_WORKING)
        tend_peers(fabric, previous_ns);
    return any;
}

uint64_t wring_liveness_deadline(const struct wring_fabric *fabric)
{
    if (fabric->state == WRING_FABRIC_FAILING)
        return fabric->failing_until_ns;
    if (fabric->state != WRING_FABRIC_WORKING || fabric->size == 1)
        return WRING_NEVER;
    uint64_t next = fabric->tick_ns + fabric->config->heartbeat_ns / 2;
    if (fabric->owes_dials && next > fabric->tick_ns + DIALS_NS)
        next = fabric->tick_ns + DIALS_NS;
    if (fabric->clocks == NULL || !is_ready(&fabric->peers[0]) ||
        wring_clocks_next(fabric->clocks) >= next)
        return next;
    /* soon, but not before it is looked at again */
    uint64_t look = fabric->judged_ns + WRING_CONTROL_TREE_LOOK_NS,
             ask = wring_clocks_next(fabric->clocks);
    return ask > look ? ask : look;
}

static void drop_arrived(void *arg, struct wring_peer *peer, uint32_t imm, size_t bytes)
{
    (void)arg, (void)peer, (void)imm, (void)bytes;
}

static void drop_put_done(void *arg, struct wring_peer *peer, uint64_t cookie)
{
    (void)arg, (void)peer, (void)cookie;
}

static void drop_credit(void *arg, struct wring_peer *peer, uint32_t channel, uint32_t generation,
                        uint32_t sequence)
{
    (void)arg, (void)peer, (void)channel, (void)generation, (void)sequence;
}

static void drop_text(void *arg, struct wring_peer *peer, uint32_t channel, uint32_t second,
                      uint32_t third, const char *text)
{
    (void)arg, (void)peer, (void)channel, (void)second, (void)third, (void)text;
}

static void drop_ring(void *arg, struct wring_peer *peer, const void *data, size_t bytes)
{
    (void)arg, (void)peer, (void)data, (void)bytes;
}

static void drop_group(void *arg, struct wring_peer *peer, const struct wring_control *control)
{
    (void)arg, (void)peer, (void)control;
}

static void drop_flight(void *arg, uint32_t from, const struct wring_control *control)
{
    (void)arg, (void)from, (void)control;
}

static void drop_failing(void *arg)
{
    (void)arg;
}

static void drop_lost(void *arg, uint32_t rank)
{
    (void)arg, (void)rank;
}

static bool account_for_nothing(void *arg)
{
    (void)arg;
    return true;
}

static void say_owed_byes(struct wring_fabric *fabric)
{
    const struct wring_control bye = {.kind = WRING_CONTROL_BYE};

    if (fabric->state != WRING_FABRIC_WORKING)
        return;
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met)
        if (peer->owes_bye && is_ready(peer))
            peer->owes_bye = wring_control_send(peer, &bye) == WRING_ERR_AGAIN;
}

void wring_fabric_turn_deaf(struct wring_fabric *fabric)
{
    fabric->handler = (struct wring_fabric_handler){
        NULL,      drop_arrived,        drop_put_done, drop_credit, drop_text,
        drop_text, drop_ring,           drop_group,    drop_flight, drop_failing,
        drop_lost, account_for_nothing, drop_flight};
    fabric->deaf = true;
    for (struct wring_peer *peer = fabric->met; peer != NULL; peer = peer->next_met) {
        peer->left = true; /* its end may close from now on */
        peer->owes_bye = is_ready(peer);
        wring_connect_cancel(peer);
    }
    say_owed_byes(fabric);
    if (fabric->tree != NULL)
        wring_control_tree_leave(fabric->tree);
}

static bool has_tree_left(const struct wring_fabric *fabric)
{
    return fabric->tree == NULL || wring_control_tree_has_left(fabric->tree);
}

bool wring_liveness_has_parted(struct wring_fabric *fabric)
{
    if (have_all_acked(fabric) && has_tree_left(fabric))
        return true;
    say_owed_byes(fabric);
    return false;
}
