/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/providers/fault/inside.h"

static bool draw(const struct fault_provider *provider, double chance, enum wring_fault_draw kind,
                 uint64_t n)
{
    return chance > 0 && wring_fault_hits(&provider->schedule, chance, provider->rank, kind, n);
}

/** A count cuts once: the counts stand still after it. */
static bool reaches_count(const struct fault_provider *provider, size_t bytes)
{
    const struct wring_fault_schedule *schedule = &provider->schedule;
    if (schedule->after_puts > 0)
        return provider->puts == schedule->after_puts;
    return schedule->after_bytes > 0 && provider->put_bytes <= schedule->after_bytes &&
           provider->put_bytes + bytes > schedule->after_bytes;
}

bool wring_fault_cut(struct fault_provider *provider, struct fault_conn *conn, size_t bytes)
{
    bool counted = reaches_count(provider, bytes);
    if (!counted && !draw(provider, provider->schedule.disconnect, WRING_FAULT_CUT, provider->puts))
        return false;

    snprintf(conn->text, sizeof(conn->text),
             "cut after %" PRIu64 " puts of %" PRIu64 " bytes in all, as disconnect= of "
             "WRING_FAULT on rank %" PRIu32 " asks for; unset it to run without",
             provider->puts, provider->put_bytes, provider->rank);
    wring_info(provider->log, "%s", conn->text);
    provider->puts++; /* so that a count is reached once, and a chance drawn anew */
    provider->put_bytes += bytes;
    wring_fault_forget(provider, conn);
    provider->inner->ops->disconnect(conn->inner);
    conn->inner = NULL;
    conn->closed = conn->cut_untold = true;
    provider->cuts_untold++;
    return true;
}

/** Which bits flip. Never 0. */
static uint8_t mask_of(uint64_t random)
{
    return (uint8_t)(1 + (random >> 56) % 255);
}

static void copy_free(struct fault_provider *provider, struct fault_copy *copy)
{
    provider->inner->ops->region_destroy(copy->region);
    free(copy);
}

/** Known to the device, where it can send from nothing else. */
static bool copy_register(struct fault_provider *provider, struct fault_copy *copy, size_t bytes)
{
    const struct wring_memory memory = {
        .base = copy->data, .bytes = bytes, .kind = WRING_MEMORY_HOST, .fd = -1};
    if (provider->caps.local_any)
        return true;
    return provider->inner->ops->region_create(provider->inner, &memory, &copy->region) == WRING_OK;
}

static struct fault_copy *copy_create(struct fault_provider *provider,
                                      const struct fault_conn *conn, uint64_t number,
                                      const struct fault_put *put)
{
    struct fault_copy *copy = malloc(sizeof(*copy) + put->bytes);
    if (copy == NULL)
        return NULL;
    copy->region = NULL;
    if (!copy_register(provider, copy, put->bytes)) {
        free(copy);
        return NULL;
    }
    copy->next = provider->copies;
    copy->conn = conn;
    copy->number = number;
    memcpy(copy->data, put->local, put->bytes);
    provider->copies = copy;
    return copy;
}

static bool is_copy(const struct fault_provider *provider, const void *local)
{
    const struct fault_copy *at = provider->copies;
    while (at != NULL && at->data != local)
        at = at->next;
    return at != NULL;
}

bool wring_fault_copy_source(struct fault_provider *provider, const struct fault_conn *conn,
                             uint32_t i, struct fault_put *put)
{
    if (put->bytes == 0 || is_copy(provider, put->local))
        return true;
    struct fault_copy *copy = copy_create(provider, conn, conn->left + i, put);
    if (copy == NULL)
        return false;
    put->local = copy->data;
    put->region = copy->region;
    return true;
}

/** @param number  NULL: of any put */
static void copies_free(struct fault_provider *provider, const struct fault_conn *conn,
                        const uint64_t *number)
{
    for (struct fault_copy **at = &provider->copies; *at != NULL;) {
        struct fault_copy *copy = *at;
        if ((conn != NULL && copy->conn != conn) || (number != NULL && copy->number != *number)) {
            at = &copy->next;
            continue;
        }
        *at = copy->next;
        copy_free(provider, copy);
    }
}

void wring_fault_put_done(struct fault_provider *provider, struct fault_conn *conn)
{
    copies_free(provider, conn, &conn->done);
    conn->done++;
}

void wring_fault_copies_free(struct fault_provider *provider, const struct fault_conn *conn)
{
    copies_free(provider, conn, NULL);
}

static enum wring_status put_inner(const struct fault_conn *conn, const struct fault_put *put,
                                   struct wring_region *region, const void *local)
{
    return conn->inner->provider->ops->put(conn->inner, region, local, put->remote->inner,
                                           put->remote_offset, put->bytes, put->imm, put->cookie);
}

static enum wring_status put_spoiled(struct fault_provider *provider, struct fault_conn *conn,
                                     const struct fault_put *put)
{
    const struct wring_provider_ops *ops = provider->inner->ops;
    uint64_t random =
        wring_fault_random(&provider->schedule, provider->rank, WRING_FAULT_PLACE, provider->puts);
    if (ops->spoil(conn->inner, random, mask_of(random)) == WRING_OK) {
        enum wring_status status = put_inner(conn, put, put->region, put->local);
        if (status != WRING_OK)
            ops->spoil(conn->inner, 0, 0);
        return status;
    }
    if (put->bytes == 0) /* nothing to change */
        return put_inner(conn, put, put->region, put->local);
    struct fault_copy *copy = copy_create(provider, conn, conn->left, put);
    if (copy == NULL)
        return WRING_ERR_AGAIN; /* the put was accepted: it waits until there is memory */
    copy->data[random % put->bytes] ^= mask_of(random);
    enum wring_status status = put_inner(conn, put, copy->region, copy->data);
    if (status != WRING_OK) { /* it waits on, perhaps in a copy of its own */
        provider->copies = copy->next;
        copy_free(provider, copy);
    }
    return status;
}

enum wring_status wring_fault_deliver(struct fault_provider *provider, struct fault_conn *conn,
                                      const struct fault_put *put)
{
    bool spoil = draw(provider, provider->schedule.corrupt, WRING_FAULT_SPOIL_PUT, provider->puts);
    enum wring_status status =
        spoil ? put_spoiled(provider, conn, put) : put_inner(conn, put, put->region, put->local);
    if (status == WRING_ERR_AGAIN)
        return status;
    if (spoil)
        wring_info(provider->log, "put %" PRIu64 ", %zu bytes, was corrupted", provider->puts,
                   put->bytes);
    provider->puts++;
    provider->put_bytes += put->bytes;
    conn->left += status == WRING_OK;
    return status;
}

enum wring_status wring_fault_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct fault_conn *conn = fault_conn_of(base);
    struct fault_provider *provider = fault_of(base->provider);
    const struct wring_provider_ops *ops = provider->inner->ops;
    uint8_t copy[WRING_SEND_MAX];

    if (conn->closed)
        return WRING_ERR_CLOSED;
    if (bytes < 1 || bytes > sizeof(copy))
        return WRING_ERR_INVALID;
    bool spoil =
        draw(provider, provider->schedule.corrupt, WRING_FAULT_SPOIL_MESSAGE, provider->messages);
    uint64_t random = wring_fault_random(&provider->schedule, provider->rank, WRING_FAULT_PLACE,
                                         ~provider->messages);
    bool below = spoil && ops->spoil(conn->inner, random, mask_of(random)) == WRING_OK;
    memcpy(copy, data, bytes);
    if (spoil && !below)
        copy[random % bytes] ^= mask_of(random);
    enum wring_status status = ops->send(conn->inner, copy, bytes);
    if (status != WRING_OK) {
        if (below)
            ops->spoil(conn->inner, 0, 0);
        return status;
    }
    if (spoil)
        wring_info(provider->log, "message %" PRIu64 " was corrupted", provider->messages);
    provider->messages++;
    return WRING_OK;
}
