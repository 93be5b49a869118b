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

static struct fault_put *put_at(const struct fault_provider *provider, struct fault_conn *conn,
                                uint32_t i)
{
    return &conn->puts[(conn->first + i) % provider->caps.put_depth];
}

/** Whose put goes next: it took the link first, and nothing is in its way. */
static struct fault_conn *next_conn(const struct fault_provider *provider)
{
    struct fault_conn *next = NULL;
    for (struct fault_conn *conn = provider->conns; conn != NULL; conn = conn->next) {
        if (conn->n == 0 || conn->blocked)
            continue;
        if (next == NULL || put_at(provider, conn, 0)->number < put_at(provider, next, 0)->number)
            next = conn;
    }
    return next;
}

enum wring_status wring_fault_queue_put(struct fault_provider *provider, struct fault_conn *conn,
                                        const struct fault_put *put)
{
    if (conn->n == provider->caps.put_depth)
        return WRING_ERR_AGAIN;
    /* what waits for its time kept the link busy, however late it is looked at */
    uint64_t begin_ns = next_conn(provider) != NULL ? 0 : wring_now_ns();
    struct fault_put *last = put_at(provider, conn, conn->n++);
    *last = *put;
    last->number = provider->posted++;
    last->due_ns = (uint64_t)take_link(&provider->egress_free_ns, begin_ns, put->bytes,
                                       provider->schedule.ns_per_byte);
    last->remote->waiting++;
    return WRING_OK;
}

enum wring_status wring_fault_copy_sources(struct wring_conn *base)
{
    struct fault_provider *provider = fault_of(base->provider);
    struct fault_conn *conn = fault_conn_of(base);

    if (conn->inner == NULL) /* nothing leaves any more */
        return WRING_OK;
    enum wring_status status = provider->inner->ops->copy_sources(conn->inner);
    for (uint32_t i = 0; i < conn->n && status == WRING_OK; i++)
        if (!wring_fault_copy_source(provider, conn, i, put_at(provider, conn, i)))
            status = WRING_ERR_NO_MEMORY;
    return status;
}

static void drop_first(const struct fault_provider *provider, struct fault_conn *conn)
{
    wring_fault_remote_drop(put_at(provider, conn, 0)->remote);
    conn->first = (conn->first + 1) % provider->caps.put_depth;
    conn->n--;
}

void wring_fault_release_puts(struct fault_provider *provider, uint64_t now)
{
    struct fault_conn *conn;

    for (conn = provider->conns; conn != NULL; conn = conn->next)
        conn->blocked = false;
    while ((conn = next_conn(provider)) != NULL) {
        const struct fault_put *put = put_at(provider, conn, 0);
        if (put->due_ns > now)
            return;
        if (wring_fault_cut(provider, conn, put->bytes))
            continue;
        conn->blocked = wring_fault_deliver(provider, conn, put) == WRING_ERR_AGAIN;
        if (!conn->blocked) /* it was sound: any other failure shows as the connection's end */
            drop_first(provider, conn);
    }
}

void wring_fault_forget_puts(const struct fault_provider *provider, struct fault_conn *conn)
{
    while (conn->n > 0)
        drop_first(provider, conn);
}

uint64_t wring_fault_puts_due(const struct fault_provider *provider)
{
    struct fault_conn *conn = next_conn(provider);
    /* one that is blocked goes on with the inner provider's next event */
    return conn != NULL ? put_at(provider, conn, 0)->due_ns : WRING_NEVER;
}
