/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/failure.h"

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
static enum wring_status say_dialled(struct wring_peer *peer, const struct wring_control *control)
{
    bool stands_there = peer->dial != NULL && peer->dial->taken && !peer->owes_welcome;
    return stands_there ? wring_control_say(peer->conn, control) : WRING_ERR_CLOSED;
}

static void send_abort(struct wring_fabric *fabric, struct wring_peer *peer)
{
    const struct wring_control control = make_abort(fabric);
    enum wring_status status = peer->state == WRING_PEER_CONNECTING
                                   ? say_dialled(peer, &control)
                                   : wring_control_send(peer, &control);
    peer->owes_abort = status == WRING_ERR_AGAIN;
}

/** We are its peer, or it may think so already. */
static bool may_use(const struct wring_fabric *fabric, uint32_t i)
{
    return (i != fabric->rank && fabric->peers[i].state == WRING_PEER_READY) ||
           fabric->peers[i].state == WRING_PEER_CONNECTING;
}

void wring_failure_tell(struct wring_fabric *fabric)
{
    const struct wring_control control = make_abort(fabric);
    for (uint32_t i = 0; i < fabric->size; i++)
        if (may_use(fabric, i))
            send_abort(fabric, &fabric->peers[i]);
    if (fabric->tree != NULL)
        wring_control_tree_tell(fabric->tree, &control);
}

void wring_failure_tell_again(struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (may_use(fabric, i) && fabric->peers[i].owes_abort)
            send_abort(fabric, &fabric->peers[i]);
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
