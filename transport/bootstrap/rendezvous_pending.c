/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the root that have not proven anything yet. */
#include "transport/bootstrap/rendezvous_host.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define WRING_MODULE "rendezvous"
#define CROWDED_NS (500 * WRING_NS_PER_MS) /* what each may count on where places are short */
#define COMPLAINT_NS (10 * WRING_NS_PER_S) /* between two log lines of one kind */

/* What it still sends is read first, as an unread byte would make the system reset the connection
 * and could take our last word with it. */
void wring_rendezvous_drop(struct wring_rendezvous_pending *pending)
{
    char rest[512];
    shutdown(pending->fd, SHUT_WR);
    for (int i = 0; i < 8 && recv(pending->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
        ;
    wring_descriptor_close(pending->fd);
    pending->fd = -1;
}

/** A place for one more; where strangers hold all of them, the one held longest. */
static struct wring_rendezvous_pending *make_room(struct wring_rendezvous_host *host)
{
    struct wring_rendezvous_pending *oldest = &host->pending[0];
    struct pollfd waiting = {host->listen_fd, POLLIN, 0};

    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++) {
        if (host->pending[i].fd < 0)
            return &host->pending[i];
        if (host->pending[i].since_ns < oldest->since_ns)
            oldest = &host->pending[i];
    }
    if (wring_now_ns() - oldest->since_ns < CROWDED_NS || poll(&waiting, 1, 0) <= 0)
        return NULL;
    wring_rendezvous_drop(oldest);
    return oldest;
}

void wring_rendezvous_accept(struct wring_rendezvous_host *host)
{
    struct wring_rendezvous_pending *pending;
    while ((pending = make_room(host)) != NULL) {
        pending->fd =
            WRING_DESCRIPTOR(accept4(host->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (pending->fd < 0)
            return;
        int one = 1;
        setsockopt(pending->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        pending->since_ns = wring_now_ns();
        wring_rendezvous_peer(pending->fd, pending->from);
        wring_auth_init(&pending->auth, false, WRING_AUTH_RENDEZVOUS, host->secret, NULL, 0);
    }
}

void wring_rendezvous_refuse(struct wring_rendezvous_host *host,
                             const struct wring_rendezvous_pending *pending)
{
    enum wring_status status = wring_auth_status(&pending->auth);
    struct wring_rendezvous_refusals *kind = status == WRING_ERR_AUTH      ? &host->wrong_key
                                             : status == WRING_ERR_VERSION ? &host->other_version
                                                                           : &host->garbage;
    struct wring_rendezvous_names absent = {0};
    char text[WRING_RENDEZVOUS_TEXT], others[48] = "";
    uint64_t now = wring_now_ns();

    kind->n++;
    memcpy(kind->from, pending->from, sizeof(kind->from));
    if (now < kind->silent_until_ns) {
        kind->unsaid++;
        return;
    }
    if (kind->unsaid > 0)
        snprintf(others, sizeof(others), " (and %u like this before)", kind->unsaid);
    wring_auth_describe(&pending->auth, text, sizeof(text));
    wring_warn(host->rendezvous->log,
               "refused someone from %s who wanted to join: %s%s; %s yet to come", pending->from,
               text, others, wring_rendezvous_missing(host, &absent));
    kind->unsaid = 0;
    kind->silent_until_ns = now + COMPLAINT_NS;
}
