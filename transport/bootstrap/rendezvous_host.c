/* SPDX-License-Identifier: Apache-2.0 */
/* The side of rank 0: let the others in. */
#include "transport/bootstrap/rendezvous_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

#define WRING_MODULE "rendezvous"
#define PENDING_MAX 64
#define HANDSHAKE_NS (5 * WRING_NS_PER_S)

/** A connection that has not proven anything yet. */
struct pending {
    int fd; /* -1: free */
    uint64_t deadline_ns;
    struct wring_auth auth;
};

struct host {
    struct wring_rendezvous *rendezvous;
    const uint8_t *secret;
    int listen_fd;
    uint32_t joined;
    unsigned refused; /* with a wrong key */
    struct pending pending[PENDING_MAX];
};

static void drop(struct pending *pending)
{
    close(pending->fd);
    pending->fd = -1;
}

static void accept_all(struct host *host)
{
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        struct pending *pending = &host->pending[i];
        if (pending->fd >= 0)
            continue;
        pending->fd = accept4(host->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (pending->fd < 0)
            return;
        int one = 1;
        setsockopt(pending->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        pending->deadline_ns = wring_now_ns() + HANDSHAKE_NS;
        wring_auth_init(&pending->auth, false, WRING_AUTH_RENDEZVOUS, host->secret, NULL, 0);
    }
}

/** It knows the key: is it a rank that we miss? @param wrong out, the reason why the job cannot go
 * on */
static void admit(struct host *host, struct pending *pending, char *wrong, size_t wrong_bytes)
{
    size_t bytes;
    const uint8_t *hello = wring_auth_hello(&pending->auth, &bytes);
    struct wring_rendezvous *rendezvous = host->rendezvous;
    uint32_t rank = bytes == WRING_RENDEZVOUS_HELLO_BYTES ? wring_get_u32(hello) : UINT32_MAX;
    uint32_t size = bytes == WRING_RENDEZVOUS_HELLO_BYTES ? wring_get_u32(hello + 4) : 0;

    if (size != rendezvous->base.size)
        snprintf(wrong, wrong_bytes,
                 "rank %" PRIu32 " says that the job has %" PRIu32 " ranks, rank 0 says %" PRIu32
                 " (WRING_SIZE)",
                 rank, size, rendezvous->base.size);
    else if (rank == 0 || rank >= size)
        snprintf(wrong, wrong_bytes, "a process joined as rank %" PRIu32 " of %" PRIu32, rank,
                 size);
    else if (rendezvous->fds[rank] >= 0)
        snprintf(wrong, wrong_bytes, "two processes joined as rank %" PRIu32 " (WRING_RANK)", rank);
    if (wrong[0] != '\0') {
        drop(pending);
        return;
    }
    rendezvous->fds[rank] = pending->fd;
    pending->fd = -1;
    host->joined++;
    wring_debug(rendezvous->log, "rank %" PRIu32 " joined, %" PRIu32 " of %" PRIu32, rank,
                host->joined, size);
}

static void advance(struct host *host, struct pending *pending, char *wrong, size_t wrong_bytes)
{
    char text[WRING_RENDEZVOUS_TEXT];
    bool alive = wring_stream_auth(pending->fd, &pending->auth);
    enum wring_status status = wring_auth_status(&pending->auth);

    if (status == WRING_OK) {
        admit(host, pending, wrong, wrong_bytes);
    } else if (status != WRING_ERR_AGAIN) {
        wring_auth_describe(&pending->auth, text, sizeof(text));
        wring_warn(host->rendezvous->log, "refused someone who wanted to join: %s", text);
        host->refused += status == WRING_ERR_AUTH;
        drop(pending);
    } else if (!alive || wring_now_ns() > pending->deadline_ns) {
        drop(pending);
    }
}

static uint32_t first_missing(const struct wring_rendezvous *rendezvous)
{
    uint32_t rank = 1;
    while (rank < rendezvous->base.size && rendezvous->fds[rank] >= 0)
        rank++;
    return rank;
}

/** A rank that has joined and closes again will not come back. */
static uint32_t find_departed(const struct wring_rendezvous *rendezvous)
{
    for (uint32_t i = 1; i < rendezvous->base.size; i++) {
        char byte;
        if (rendezvous->fds[i] >= 0 &&
            recv(rendezvous->fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            return i;
    }
    return 0;
}

static enum wring_status fail(struct wring_rendezvous *rendezvous, enum wring_status status,
                              uint32_t rank, const char *text)
{
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, status, rank, text);
    return status;
}

/** Wait a little for anything to happen on any socket. */
static enum wring_status wait_for_something(struct host *host,
                                            const struct wring_patience *patience)
{
    struct pollfd fds[PENDING_MAX + 1] = {{host->listen_fd, POLLIN, 0}};
    unsigned n = 1;
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (host->pending[i].fd >= 0) {
            const void *data;
            bool out = wring_auth_output(&host->pending[i].auth, &data) > 0;
            fds[n++] = (struct pollfd){host->pending[i].fd, out ? POLLOUT : POLLIN, 0};
        }
    if (n == PENDING_MAX + 1)
        fds[0].fd = -1; /* full: let the queue of the system hold them */
    uint64_t slice = wring_now_ns() + 100 * WRING_NS_PER_MS;
    struct wring_patience short_patience = {
        slice < patience->deadline_ns ? slice : patience->deadline_ns, patience->cancel};
    enum wring_status status = wring_stream_poll(fds, n, &short_patience);
    return status == WRING_ERR_CLOSED ? status : WRING_OK;
}

static enum wring_status admit_all(struct host *host, const struct wring_rendezvous_params *params)
{
    struct wring_rendezvous *rendezvous = host->rendezvous;
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    char text[WRING_RENDEZVOUS_TEXT] = "";

    while (host->joined + 1 < rendezvous->base.size) {
        uint32_t departed = find_departed(rendezvous);
        if (departed != 0) {
            snprintf(text, sizeof(text), "rank %" PRIu32 " ended while the others were joining",
                     departed);
            return fail(rendezvous, WRING_ERR_PEER, departed, text);
        }
        if (wring_now_ns() >= params->deadline_ns) {
            uint32_t rank = first_missing(rendezvous);
            snprintf(text, sizeof(text),
                     "rank %" PRIu32 " did not join in time: %" PRIu32 " of %" PRIu32
                     " are here%s (WRING_JOIN_TIMEOUT)",
                     rank, host->joined + 1, rendezvous->base.size,
                     host->refused > 0 ? ", and someone was refused for a wrong WRING_KEY" : "");
            return fail(rendezvous, WRING_ERR_PEER, rank, text);
        }
        enum wring_status status = wait_for_something(host, &patience);
        if (status != WRING_OK)
            return status;
        accept_all(host);
        for (unsigned i = 0; i < PENDING_MAX; i++)
            if (host->pending[i].fd >= 0)
                advance(host, &host->pending[i], text, sizeof(text));
        if (text[0] != '\0')
            return fail(rendezvous, WRING_ERR_MISMATCH, 0, text);
    }
    return WRING_OK;
}

static int listen_on(const struct sockaddr_storage *address, socklen_t bytes)
{
    int one = 1;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)address, bytes) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/** A host given by name may resolve to anything here: listen on all addresses then. */
static void to_wildcard(struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_ANY);
    else
        ((struct sockaddr_in6 *)address)->sin6_addr = in6addr_any;
}

static enum wring_status open_listener(const struct wring_rendezvous_params *params, int *out)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof(address);
    bool is_name = false;
    bool given = params->root_fd >= 0;

    if (given && getsockname(params->root_fd, (struct sockaddr *)&address, &bytes) != 0) {
        wring_error(params->log, "WRING_ROOT_FD=%d: %s", params->root_fd, strerror(errno));
        return WRING_ERR_ADDRESS;
    }
    enum wring_status status =
        given ? WRING_OK
              : wring_rendezvous_resolve(params->log, params->root, &address, &bytes, &is_name);
    if (status != WRING_OK)
        return status;
    if (!wring_rendezvous_is_loopback(&address) && (params->key == NULL || *params->key == '\0')) {
        wring_error(params->log, "without a key the rendezvous listens on loopback only: set the "
                                 "same WRING_KEY or WRING_KEY_FILE on all ranks");
        return WRING_ERR_AUTH;
    }
    if (is_name && !wring_rendezvous_is_loopback(&address))
        to_wildcard(&address);
    *out = given ? params->root_fd : listen_on(&address, bytes);
    if (given) /* whoever made it may have left it blocking, and accept must not */
        fcntl(*out, F_SETFL, fcntl(*out, F_GETFL) | O_NONBLOCK);
    if (*out < 0) {
        wring_error(params->log, "cannot listen on %s: %s", params->root, strerror(errno));
        return WRING_ERR_ADDRESS;
    }
    return WRING_OK;
}

enum wring_status wring_rendezvous_host(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret)
{
    struct host *host = calloc(1, sizeof(*host));
    if (host == NULL)
        return WRING_ERR_NO_MEMORY;
    host->rendezvous = rendezvous;
    host->secret = secret;
    for (unsigned i = 0; i < PENDING_MAX; i++)
        host->pending[i].fd = -1;

    enum wring_status status = open_listener(params, &host->listen_fd);
    if (status == WRING_OK) {
        status = admit_all(host, params);
        close(host->listen_fd); /* nobody else may join */
    }
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (host->pending[i].fd >= 0)
            drop(&host->pending[i]);
    free(host);
    return status;
}
