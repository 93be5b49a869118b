/* SPDX-License-Identifier: Apache-2.0 */
/** The emulated link: puts wait until it has had time for them. */
#include "base/clock.h"
#include "transport/providers/fault/fault_private.h"

/** Take the link for some bytes. @return when the last of them is through */
static double take_link(double *free_ns, uint64_t begin_ns, size_t bytes, double ns_per_byte)
{
    double begin = *free_ns > (double)begin_ns ? *free_ns : (double)begin_ns;
    return *free_ns = begin + (double)bytes * ns_per_byte;
}

static struct fault_put *put_at(const struct fault_provider *provider,
                                const struct fault_lane *lane, uint32_t i)
{
    return &lane->puts[(lane->first + i) % provider->caps.put_depth];
}

/** Where the put waits that goes next: it took the link first, and nothing is in its way. */
static struct fault_lane *next_lane(const struct fault_provider *provider, struct fault_conn **out)
{
    struct fault_lane *next = NULL;
    for (struct fault_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        for (unsigned i = 0; i < provider->caps.lanes; i++) {
            struct fault_lane *lane = &conn->lanes[i];
            if (lane->n == 0 || lane->blocked)
                continue;
            if (next != NULL &&
                put_at(provider, next, 0)->number < put_at(provider, lane, 0)->number)
                continue;
            next = lane;
            *out = conn;
        }
    return next;
}

enum wring_status wring_fault_queue_put(struct fault_provider *provider, struct fault_conn *conn,
                                        const struct fault_put *put)
{
    struct fault_lane *lane = &conn->lanes[put->lane];
    struct fault_conn *whose;
    if (lane->n == provider->caps.put_depth)
        return WRING_ERR_AGAIN;
    /* what waits for its time kept the link busy, however late it is looked at */
    uint64_t begin_ns = next_lane(provider, &whose) != NULL ? 0 : wring_now_ns();
    struct fault_put *last = put_at(provider, lane, lane->n++);
    *last = *put;
    last->number = provider->posted++;
    last->due_ns = (uint64_t)take_link(&provider->egress_free_ns, begin_ns, put->bytes,
                                       provider->schedule.ns_per_byte);
    last->remote->waiting++;
    return WRING_OK;
}

static void drop_first(const struct fault_provider *provider, struct fault_lane *lane)
{
    wring_fault_remote_drop(put_at(provider, lane, 0)->remote);
    lane->first = (lane->first + 1) % provider->caps.put_depth;
    lane->n--;
}

static void try_all_again(struct fault_provider *provider)
{
    for (struct fault_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        for (unsigned i = 0; i < provider->caps.lanes; i++)
            conn->lanes[i].blocked = false;
}

void wring_fault_release_puts(struct fault_provider *provider, uint64_t now)
{
    struct fault_conn *conn = NULL;
    struct fault_lane *lane;
    try_all_again(provider);
    while ((lane = next_lane(provider, &conn)) != NULL) {
        const struct fault_put *put = put_at(provider, lane, 0);
        if (put->due_ns > now)
            return;
        if (wring_fault_cut(provider, conn, put->bytes))
            continue;
        lane->blocked = wring_fault_deliver(provider, conn, put) == WRING_ERR_AGAIN;
        if (!lane->blocked) /* it was sound: any other failure shows as the connection's end */
            drop_first(provider, lane);
    }
}

void wring_fault_forget_puts(const struct fault_provider *provider, struct fault_conn *conn)
{
    for (unsigned i = 0; i < provider->caps.lanes; i++)
        while (conn->lanes[i].n > 0)
            drop_first(provider, &conn->lanes[i]);
}

uint64_t wring_fault_puts_due(const struct fault_provider *provider)
{
    struct fault_conn *whose;
    const struct fault_lane *lane = next_lane(provider, &whose);
    /* one that is blocked goes on with the inner provider's next event */
    return lane != NULL ? put_at(provider, lane, 0)->due_ns : WRING_NEVER;
}
