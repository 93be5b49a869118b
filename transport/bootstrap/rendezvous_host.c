/* SPDX-License-Identifier: Apache-2.0 */
/* The side of rank 0: let the others in, or say why not. */
#include "transport/bootstrap/rendezvous_host.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define WRING_MODULE "rendezvous"
#define HANDSHAKE_NS (5 * WRING_NS_PER_S)
#define SLICE_NS (100 * WRING_NS_PER_MS)
#define CROWDED_SLICE_NS (10 * WRING_NS_PER_MS) /* where somebody has to wait for a place */
#define FAREWELL_NS (3 * WRING_NS_PER_S)        /* for late ranks to hear why the job has ended */

/** It knows the key: is it a rank that we miss? Two that cannot both be right end the job. */
static void read_and_judge(struct wring_rendezvous_host *host,
                           const struct wring_rendezvous_pending *pending,
                           struct wring_rendezvous_claim *out)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    size_t bytes;
    const uint8_t *hello = wring_auth_hello(&pending->auth, &bytes);

    out->from = pending->from;
    wring_rendezvous_read_claim(hello, bytes, out);
    if (out->rank < rendezvous->base.size && rendezvous->fds[out->rank] >= 0)
        wring_rendezvous_peer(rendezvous->fds[out->rank], out->holder);
    if (host->verdict.status == WRING_OK)
        wring_rendezvous_judge(out, rendezvous->base.size, &host->verdict);
}

static void admit(struct wring_rendezvous_host *host, struct wring_rendezvous_pending *pending)
{
    struct wring_rendezvous *rendezvous = host->rendezvous;
    const struct wring_rendezvous_verdict *verdict = &host->verdict;
    struct wring_rendezvous_claim claim = {0};

    read_and_judge(host, pending, &claim);
    if (verdict->status != WRING_OK) {
        wring_rendezvous_send_failure(pending->fd, verdict->status, verdict->rank, verdict->text);
        wring_rendezvous_drop(pending);
        host->told++;
        return;
    }
    wring_rendezvous_send_admitted(pending->fd);
    rendezvous->fds[claim.rank] = pending->fd;
    pending->fd = -1;
    host->joined++;
    wring_debug(rendezvous->log, "rank %" PRIu32 " joined from %s, %" PRIu32 " of %" PRIu32,
                claim.rank, pending->from, host->joined + 1, claim.size);
}

static void advance(struct wring_rendezvous_host *host, struct wring_rendezvous_pending *pending)
{
    bool alive = wring_stream_auth(pending->fd, &pending->auth);
    enum wring_status status = wring_auth_status(&pending->auth);

    if (status == WRING_OK) {
        admit(host, pending);
    } else if (status != WRING_ERR_AGAIN ||
               (alive && wring_now_ns() > pending->since_ns + HANDSHAKE_NS)) {
        wring_rendezvous_refuse(host, pending);
    } else if (!alive) {
        wring_rendezvous_drop(pending);
    }
}

/** Everybody who is in, so that one who leaves is seen at once. @return how many descriptors */
static unsigned watch(struct wring_rendezvous_host *host)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    unsigned n = 1;

    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd >= 0) {
            const void *data;
            bool out = wring_auth_output(&host->pending[i].auth, &data) > 0;
            host->fds[n++] = (struct pollfd){host->pending[i].fd, out ? POLLOUT : POLLIN, 0};
        }
    /* all places taken, or no descriptor left: let the queue of the system hold them */
    bool is_closed =
        n == WRING_RENDEZVOUS_PENDING + 1 || !wring_door_is_open(&host->door, wring_now_ns());
    host->fds[0] = (struct pollfd){is_closed ? -1 : host->listen_fd, POLLIN, 0};
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] >= 0 && host->verdict.status == WRING_OK)
            host->fds[n++] = (struct pollfd){rendezvous->fds[i], POLLRDHUP, 0};
    return n;
}

/** A rank that has joined and closes again will not come back. */
static void find_departed(struct wring_rendezvous_host *host, unsigned watched)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    const struct pollfd *at = host->fds + watched - host->joined; /* in order of rank */
    for (uint32_t i = 1; i < rendezvous->base.size; i++) {
        if (rendezvous->fds[i] < 0 || ((at++)->revents & WRING_RENDEZVOUS_GONE) == 0)
            continue;
        wring_rendezvous_end(&host->verdict, WRING_ERR_PEER, i,
                             "rank %" PRIu32 " ended while the others were joining", i);
        return;
    }
}

/** Wait a little for anything to happen on any socket, and deal with it. Errors: CLOSED. */
static enum wring_status serve(struct wring_rendezvous_host *host,
                               const struct wring_patience *patience)
{
    unsigned watched = watch(host);
    bool crowded = host->fds[0].fd < 0;
    uint64_t slice = wring_now_ns() + (crowded ? CROWDED_SLICE_NS : SLICE_NS);
    struct wring_patience brief = {slice < patience->deadline_ns ? slice : patience->deadline_ns,
                                   patience->cancel};

    enum wring_status status = wring_stream_poll(host->fds, watched, &brief);
    if (status == WRING_ERR_CLOSED)
        return status;
    if (status == WRING_OK && host->verdict.status == WRING_OK)
        find_departed(host, watched);
    wring_rendezvous_accept(host);
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd >= 0)
            advance(host, &host->pending[i]);
    return WRING_OK;
}

/** Tell everyone who is here, and for a moment those who still come. */
static void spread_verdict(struct wring_rendezvous_host *host,
                           const struct wring_patience *patience, bool linger)
{
    struct wring_rendezvous *rendezvous = host->rendezvous;
    const struct wring_rendezvous_verdict *verdict = &host->verdict;
    struct wring_patience farewell = {wring_now_ns() + FAREWELL_NS, patience->cancel};

    wring_error(rendezvous->log, "%s", verdict->text);
    wring_rendezvous_tell_failure(rendezvous, verdict->status, verdict->rank, verdict->text);
    while (linger && host->joined + host->told + 1 < rendezvous->base.size &&
           wring_now_ns() < farewell.deadline_ns)
        if (serve(host, &farewell) != WRING_OK)
            return;
}

static enum wring_status admit_all(struct wring_rendezvous_host *host,
                                   const struct wring_rendezvous_params *params)
{
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    bool late = false;

    while (host->verdict.status == WRING_OK && host->joined + 1 < host->rendezvous->base.size) {
        late = wring_now_ns() >= params->deadline_ns;
        if (late) {
            wring_rendezvous_give_up(host);
            break;
        }
        enum wring_status status = serve(host, &patience);
        if (status != WRING_OK)
            return status;
    }
    if (host->verdict.status != WRING_OK)
        spread_verdict(host, &patience, !late);
    return host->verdict.status;
}

enum wring_status wring_rendezvous_host(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret)
{
    struct wring_rendezvous_host *host = calloc(1, sizeof(*host));
    struct pollfd *fds = calloc(1 + WRING_RENDEZVOUS_PENDING + params->size, sizeof(*fds));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (host == NULL || fds == NULL)
        goto free_host;
    host->rendezvous = rendezvous;
    host->door.module = WRING_MODULE;
    host->secret = secret;
    host->fds = fds;
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        host->pending[i].fd = -1;

    status = wring_rendezvous_listen(params, &host->listen_fd);
    if (status == WRING_OK) {
        status = admit_all(host, params);
        if (host->listen_fd != params->root_fd)
            wring_descriptor_close(host->listen_fd); /* nobody else may join */
    }
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd >= 0)
            wring_rendezvous_drop(&host->pending[i]);
free_host:
    free(fds);
    free(host);
    return status;
}
