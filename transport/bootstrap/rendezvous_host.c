/* SPDX-License-Identifier: Apache-2.0 */
/* The side of rank 0: let the others in, or say why not. */
#include "transport/bootstrap/rendezvous_private.h"

#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

#define WRING_MODULE "rendezvous"
#define PENDING_MAX 64
#define HANDSHAKE_NS (5 * WRING_NS_PER_S)
#define CROWDED_NS (500 * WRING_NS_PER_MS) /* what each may count on where places are short */
#define FAREWELL_NS WRING_NS_PER_S         /* for late ranks to hear why the job has ended */
#define COMPLAINT_NS (10 * WRING_NS_PER_S) /* between two log lines of one kind */

/** A connection that has not proven anything yet. */
struct pending {
    int fd; /* -1: free */
    uint64_t since_ns;
    char from[WRING_RENDEZVOUS_ADDRESS];
    struct wring_auth auth;
};

/** Refusals of one kind, by strangers or by ranks that were started wrongly: who can tell? */
struct refusals {
    unsigned n, unsaid;
    uint64_t silent_until_ns;
    char from[WRING_RENDEZVOUS_ADDRESS]; /* the last of them */
};

/** Why the job cannot begin. */
struct verdict {
    enum wring_status status; /* WRING_OK: it still can */
    uint32_t rank;            /* at fault */
    char text[WRING_RENDEZVOUS_TEXT];
};

struct host {
    struct wring_rendezvous *rendezvous;
    const uint8_t *secret;
    int listen_fd;
    uint32_t joined, told; /* told: of the verdict, without having joined */
    struct refusals wrong_key, other_version, garbage;
    struct verdict verdict;
    struct pollfd *fds; /* [1 + PENDING_MAX + size] */
    struct pending pending[PENDING_MAX];
};

/** Close; what it still sends is read first, as an unread byte would make the system reset the
 *  connection and could take our last word with it. */
static void drop(struct pending *pending)
{
    char rest[512];
    shutdown(pending->fd, SHUT_WR);
    for (int i = 0; i < 8 && recv(pending->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
        ;
    close(pending->fd);
    pending->fd = -1;
}

/** A place for one more; where strangers hold all of them, the one held longest. */
static struct pending *make_room(struct host *host)
{
    struct pending *oldest = &host->pending[0];
    struct pollfd waiting = {host->listen_fd, POLLIN, 0};

    for (unsigned i = 0; i < PENDING_MAX; i++) {
        if (host->pending[i].fd < 0)
            return &host->pending[i];
        if (host->pending[i].since_ns < oldest->since_ns)
            oldest = &host->pending[i];
    }
    if (wring_now_ns() - oldest->since_ns < CROWDED_NS || poll(&waiting, 1, 0) <= 0)
        return NULL;
    drop(oldest);
    return oldest;
}

static void accept_all(struct host *host)
{
    struct pending *pending;
    while ((pending = make_room(host)) != NULL) {
        pending->fd = accept4(host->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (pending->fd < 0)
            return;
        int one = 1;
        setsockopt(pending->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        pending->since_ns = wring_now_ns();
        wring_rendezvous_peer(pending->fd, pending->from);
        wring_auth_init(&pending->auth, false, WRING_AUTH_RENDEZVOUS, host->secret, NULL, 0);
    }
}

__attribute__((format(printf, 4, 5))) static void end_job(struct host *host,
                                                          enum wring_status status, uint32_t rank,
                                                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    host->verdict.status = status;
    host->verdict.rank = rank;
    vsnprintf(host->verdict.text, sizeof(host->verdict.text), format, args);
    va_end(args);
}

/** It knows the key: is it a rank that we miss? Two that cannot both be right end the job. */
static void judge(struct host *host, const struct pending *pending, uint32_t rank, uint32_t size)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    char other[WRING_RENDEZVOUS_ADDRESS];

    if (size != rendezvous->base.size) {
        end_job(host, WRING_ERR_MISMATCH, rank,
                "rank %" PRIu32 " (%s) says that the job has %" PRIu32
                " ranks, rank 0 says %" PRIu32 ": set WRING_SIZE alike on all ranks",
                rank, pending->from, size, rendezvous->base.size);
    } else if (rank == 0) {
        end_job(host, WRING_ERR_MISMATCH, 0,
                "two processes joined as rank 0, here and from %s: give each its own WRING_RANK",
                pending->from);
    } else if (rank >= size) {
        end_job(host, WRING_ERR_MISMATCH, rank,
                "a process joined as rank %" PRIu32 " of %" PRIu32 ", from %s (WRING_RANK)", rank,
                size, pending->from);
    } else if (rendezvous->fds[rank] >= 0) {
        wring_rendezvous_peer(rendezvous->fds[rank], other);
        end_job(host, WRING_ERR_MISMATCH, rank,
                "two processes joined as rank %" PRIu32
                ", from %s and from %s: give each its own WRING_RANK",
                rank, other, pending->from);
    }
}

static void admit(struct host *host, struct pending *pending)
{
    size_t bytes;
    const uint8_t *hello = wring_auth_hello(&pending->auth, &bytes);
    struct wring_rendezvous *rendezvous = host->rendezvous;
    uint32_t rank = bytes == WRING_RENDEZVOUS_HELLO_BYTES ? wring_get_u32(hello) : UINT32_MAX;
    uint32_t size = bytes == WRING_RENDEZVOUS_HELLO_BYTES ? wring_get_u32(hello + 4) : 0;
    const struct verdict *verdict = &host->verdict;

    if (verdict->status == WRING_OK)
        judge(host, pending, rank, size);
    if (verdict->status != WRING_OK) {
        wring_rendezvous_send_failure(pending->fd, verdict->status, verdict->rank, verdict->text);
        drop(pending);
        host->told++;
        return;
    }
    wring_rendezvous_send_admitted(pending->fd);
    rendezvous->fds[rank] = pending->fd;
    pending->fd = -1;
    host->joined++;
    wring_debug(rendezvous->log, "rank %" PRIu32 " joined from %s, %" PRIu32 " of %" PRIu32, rank,
                pending->from, host->joined + 1, size);
}

/** Who has not joined. @param out out, {0} before @return borrowed from out */
static const char *missing(const struct host *host, struct wring_rendezvous_names *out)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] < 0)
            wring_rendezvous_name(out, i);
    return wring_rendezvous_named(out);
}

/** Someone who proves nothing never ends the job; the log has the first at once, then a few. */
static void refuse(struct host *host, const struct pending *pending)
{
    enum wring_status status = wring_auth_status(&pending->auth);
    struct refusals *kind = status == WRING_ERR_AUTH      ? &host->wrong_key
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
               text, others, missing(host, &absent));
    kind->unsaid = 0;
    kind->silent_until_ns = now + COMPLAINT_NS;
}

static void advance(struct host *host, struct pending *pending)
{
    bool alive = wring_stream_auth(pending->fd, &pending->auth);
    enum wring_status status = wring_auth_status(&pending->auth);

    if (status == WRING_OK) {
        admit(host, pending);
    } else if (status != WRING_ERR_AGAIN) {
        refuse(host, pending);
        drop(pending);
    } else if (!alive || wring_now_ns() > pending->since_ns + HANDSHAKE_NS) {
        drop(pending);
    }
}

/** Everybody who is in, so that one who leaves is seen at once. @return how many descriptors */
static unsigned watch(struct host *host)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    unsigned n = 1;

    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (host->pending[i].fd >= 0) {
            const void *data;
            bool out = wring_auth_output(&host->pending[i].auth, &data) > 0;
            host->fds[n++] = (struct pollfd){host->pending[i].fd, out ? POLLOUT : POLLIN, 0};
        }
    /* all places taken: let the queue of the system hold them */
    host->fds[0] = (struct pollfd){n == PENDING_MAX + 1 ? -1 : host->listen_fd, POLLIN, 0};
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] >= 0 && host->verdict.status == WRING_OK)
            host->fds[n++] = (struct pollfd){rendezvous->fds[i], POLLRDHUP, 0};
    return n;
}

/** A rank that has joined and closes again will not come back. */
static void find_departed(struct host *host, unsigned watched)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    const struct pollfd *at = host->fds + watched - host->joined; /* in order of rank */
    for (uint32_t i = 1; i < rendezvous->base.size; i++) {
        if (rendezvous->fds[i] < 0 || ((at++)->revents & WRING_RENDEZVOUS_GONE) == 0)
            continue;
        end_job(host, WRING_ERR_PEER, i, "rank %" PRIu32 " ended while the others were joining", i);
        return;
    }
}

/** Wait a little for anything to happen on any socket, and deal with it. Errors: CLOSED. */
static enum wring_status serve(struct host *host, const struct wring_patience *patience)
{
    uint64_t slice = wring_now_ns() + 100 * WRING_NS_PER_MS;
    struct wring_patience brief = {slice < patience->deadline_ns ? slice : patience->deadline_ns,
                                   patience->cancel};
    unsigned watched = watch(host);

    enum wring_status status = wring_stream_poll(host->fds, watched, &brief);
    if (status == WRING_ERR_CLOSED)
        return status;
    if (status == WRING_OK && host->verdict.status == WRING_OK)
        find_departed(host, watched);
    accept_all(host);
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (host->pending[i].fd >= 0)
            advance(host, &host->pending[i]);
    return WRING_OK;
}

static void give_up_on_missing(struct host *host)
{
    struct wring_rendezvous_names absent = {0};
    const char *names = missing(host, &absent);
    char hints[2 * WRING_RENDEZVOUS_ADDRESS + 64] = "";
    size_t at = 0;

    if (host->wrong_key.n > 0)
        at = (size_t)snprintf(hints, sizeof(hints),
                              "; someone from %s was refused for a wrong WRING_KEY",
                              host->wrong_key.from);
    if (host->other_version.n > 0)
        snprintf(hints + at, sizeof(hints) - at, "; someone from %s for another version of wring",
                 host->other_version.from);
    end_job(host, WRING_ERR_PEER, absent.first,
            "%s did not join in time (WRING_JOIN_TIMEOUT): %" PRIu32 " of %" PRIu32 " are here%s",
            names, host->joined + 1, host->rendezvous->base.size, hints);
}

/** Tell everyone who is here, and for a moment those who still come. */
static void spread_verdict(struct host *host, const struct wring_patience *patience, bool linger)
{
    struct wring_rendezvous *rendezvous = host->rendezvous;
    const struct verdict *verdict = &host->verdict;
    struct wring_patience farewell = {wring_now_ns() + FAREWELL_NS, patience->cancel};

    wring_error(rendezvous->log, "%s", verdict->text);
    wring_rendezvous_tell_failure(rendezvous, verdict->status, verdict->rank, verdict->text);
    while (linger && host->joined + host->told + 1 < rendezvous->base.size &&
           wring_now_ns() < farewell.deadline_ns)
        if (serve(host, &farewell) != WRING_OK)
            return;
}

static enum wring_status admit_all(struct host *host, const struct wring_rendezvous_params *params)
{
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    bool late = false;

    while (host->verdict.status == WRING_OK && host->joined + 1 < host->rendezvous->base.size) {
        late = wring_now_ns() >= params->deadline_ns;
        if (late) {
            give_up_on_missing(host);
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
    struct host *host = calloc(1, sizeof(*host));
    struct pollfd *fds = calloc(1 + PENDING_MAX + params->size, sizeof(*fds));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (host == NULL || fds == NULL)
        goto free_host;
    host->rendezvous = rendezvous;
    host->secret = secret;
    host->fds = fds;
    for (unsigned i = 0; i < PENDING_MAX; i++)
        host->pending[i].fd = -1;

    status = wring_rendezvous_listen(params, &host->listen_fd);
    if (status == WRING_OK) {
        status = admit_all(host, params);
        close(host->listen_fd); /* nobody else may join */
    }
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (host->pending[i].fd >= 0)
            drop(&host->pending[i]);
free_host:
    free(fds);
    free(host);
    return status;
}
