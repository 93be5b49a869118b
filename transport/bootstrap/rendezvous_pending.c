/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the root that have not proven anything yet. */
#include "transport/bootstrap/rendezvous_host.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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

/** Close one so that another may come. @return its place; NULL: all of them may yet be ranks */
static struct wring_rendezvous_pending *make_room(struct wring_rendezvous_host *host)
{
    struct wring_door_guest guests[WRING_RENDEZVOUS_PENDING];
    struct wring_rendezvous_pending *who[WRING_RENDEZVOUS_PENDING];
    for (;;) {
        unsigned n = 0;
        char byte;
        for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++) {
            struct wring_rendezvous_pending *at = &host->pending[i];
            if (at->fd < 0)
                continue;
            at->has_spoken |= wring_auth_has_heard(&at->auth);
            who[n] = at;
            guests[n++] = (struct wring_door_guest){at->since_ns, at->origin, !at->has_spoken};
        }
        int chosen = wring_door_choose(guests, n, wring_now_ns(), CROWDED_NS);
        if (chosen < 0)
            return NULL;
        if (guests[chosen].silent && recv(who[chosen]->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
            who[chosen]->has_spoken = true; /* since we last looked */
            continue;
        }
        wring_rendezvous_refuse(host, who[chosen]);
        return who[chosen];
    }
}

static struct wring_rendezvous_pending *find_place(struct wring_rendezvous_host *host)
{
    struct pollfd waiting = {host->listen_fd, POLLIN, 0};
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd < 0)
            return &host->pending[i];
    return poll(&waiting, 1, 0) > 0 ? make_room(host) : NULL;
}

/** Descriptors that rank 0 needs: without strangers, with all ranks and a connection to each. */
static unsigned count_needed(const struct wring_rendezvous_host *host)
{
    uint32_t others = host->rendezvous->base.size - 1;
    struct rlimit limit;
    unsigned strangers = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > UINT32_MAX / 4)
        return 0;
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        strangers += host->pending[i].fd >= 0;
    return (unsigned)limit.rlim_cur - strangers + (others - host->joined) + others;
}

void wring_rendezvous_name_shortage(const struct wring_rendezvous_host *host, char *text,
                                    size_t bytes)
{
    text[0] = '\0';
    if (host->was_short)
        wring_door_shortage(host->door.error, count_needed(host), text, bytes);
}

/** @return false when nobody more can be taken now */
static bool accept_one(struct wring_rendezvous_host *host, struct wring_rendezvous_pending *pending)
{
    struct sockaddr_storage from = {0};
    int one = 1;
    enum wring_door_answer answer =
        wring_door_accept(&host->door, host->rendezvous->log, host->listen_fd, count_needed(host),
                          &pending->fd, &from);
    if (answer == WRING_DOOR_SHORT) {
        host->was_short = true;
        if (make_room(host) == NULL) /* a stranger holds what a rank needs */
            return false;
        host->door.retry_ns = 0;
        return true;
    }
    if (answer != WRING_DOOR_ACCEPTED)
        return false;
    setsockopt(pending->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    host->was_short = false;
    pending->since_ns = wring_now_ns();
    pending->origin = wring_door_origin(&from);
    pending->has_spoken = false;
    wring_rendezvous_peer(pending->fd, pending->from);
    wring_auth_init(&pending->auth, false, WRING_AUTH_RENDEZVOUS, host->secret, NULL, 0);
    return true;
}

void wring_rendezvous_accept(struct wring_rendezvous_host *host)
{
    struct wring_rendezvous_pending *pending;
    if (!wring_door_is_open(&host->door, wring_now_ns()))
        return;
    while ((pending = find_place(host)) != NULL)
        if (!accept_one(host, pending))
            return;
}

unsigned wring_rendezvous_count_silent(const struct wring_rendezvous_host *host, const char **from)
{
    unsigned n = host->silence.n;
    *from = host->silence.from;
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++) {
        const struct wring_rendezvous_pending *at = &host->pending[i];
        if (at->fd < 0 || wring_auth_has_heard(&at->auth))
            continue;
        n++;
        *from = at->from;
    }
    return n;
}

static struct wring_rendezvous_refusals *kind_of(struct wring_rendezvous_host *host,
                                                 const struct wring_rendezvous_pending *pending)
{
    switch (wring_auth_status(&pending->auth)) {
    case WRING_ERR_AUTH:
        return &host->wrong_key;
    case WRING_ERR_VERSION:
        return &host->other_version;
    case WRING_ERR_AGAIN:
        return wring_auth_has_heard(&pending->auth) ? &host->garbage : &host->silence;
    default:
        return &host->garbage;
    }
}

static void complain(struct wring_rendezvous_host *host,
                     const struct wring_rendezvous_pending *pending,
                     struct wring_rendezvous_refusals *kind)
{
    struct wring_rendezvous_names absent = {0};
    char text[WRING_RENDEZVOUS_TEXT], others[48] = "";
    uint64_t now = wring_now_ns();

    if (now < kind->silent_until_ns) {
        kind->unsaid++;
        return;
    }
    if (kind->unsaid > 0)
        snprintf(others, sizeof(others), " (and %u like this before)", kind->unsaid);
    if (kind == &host->silence)
        wring_warn(host->rendezvous->log,
                   "closed a connection from %s that said nothing%s; %s "
                   "yet to come",
                   pending->from, others, wring_rendezvous_missing(host, &absent));
    else {
        wring_auth_describe(&pending->auth, text, sizeof(text));
        wring_warn(host->rendezvous->log,
                   "refused someone from %s who wanted to join: %s%s; %s yet to come",
                   pending->from, text, others, wring_rendezvous_missing(host, &absent));
    }
    kind->unsaid = 0;
    kind->silent_until_ns = now + COMPLAINT_NS;
}

void wring_rendezvous_refuse(struct wring_rendezvous_host *host,
                             struct wring_rendezvous_pending *pending)
{
    struct wring_rendezvous_refusals *kind = kind_of(host, pending);
    kind->n++;
    memcpy(kind->from, pending->from, sizeof(kind->from));
    complain(host, pending, kind);
    wring_rendezvous_drop(pending);
}
