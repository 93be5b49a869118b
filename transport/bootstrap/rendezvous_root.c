/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/rendezvous_root.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/bootstrap/rendezvous_private.h"
#include "transport/interface.h"

#define WRING_MODULE "rendezvous"

/** An IPv4 peer of a socket for both families looks like ::ffff:10.0.0.1: make it plain. */
static void make_plain_address(struct sockaddr_storage *address, socklen_t *bytes)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6->sin6_port};
    memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
    memcpy(address, &v4, sizeof(v4));
    *bytes = sizeof(v4);
}

bool wring_rendezvous_local(int fd, char *text)
{
    struct sockaddr_storage address, peer;
    socklen_t bytes = sizeof(address), peer_bytes = sizeof(peer);
    char theirs[WRING_RENDEZVOUS_ADDRESS] = "";
    text[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) != 0)
        return false;
    make_plain_address(&address, &bytes);
    make_plain_address(&peer, &peer_bytes);
    if (getnameinfo((struct sockaddr *)&address, bytes, text, WRING_RENDEZVOUS_ADDRESS, NULL, 0,
                    NI_NUMERICHOST) != 0)
        text[0] = '\0';
    if (getnameinfo((struct sockaddr *)&peer, peer_bytes, theirs, sizeof(theirs), NULL, 0,
                    NI_NUMERICHOST) != 0)
        return false;
    return text[0] != '\0' && !wring_interface_has(theirs);
}

/** The address of the other end, for a message. @param text out, [WRING_RENDEZVOUS_ADDRESS] */
static void write_peer_address(int fd, char *text)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    snprintf(text, WRING_RENDEZVOUS_ADDRESS, "an unknown address");
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0)
        return;
    make_plain_address(&address, &bytes);
    getnameinfo((struct sockaddr *)&address, bytes, text, WRING_RENDEZVOUS_ADDRESS, NULL, 0,
                NI_NUMERICHOST);
}

/* ---- pending ---- */

/* Connections to the root that have not proven anything yet. */

#define CROWDED_NS (500 * WRING_NS_PER_MS) /* what each may count on where places are short */
#define COMPLAINT_NS (10 * WRING_NS_PER_S) /* between two log lines of one kind */

/* Close a connection. Its pending input is read first, as an unread byte would make the system
 * reset the connection and could take our last word with it. */
static void close_pending(struct wring_rendezvous_pending *pending)
{
    char rest[512];
    shutdown(pending->fd, SHUT_WR);
    for (int i = 0; i < 8 && recv(pending->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
        ;
    wring_descriptor_close(pending->fd);
    pending->fd = -1;
}

static void refuse_pending(struct wring_rendezvous_host *host,
                           struct wring_rendezvous_pending *pending);

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
        refuse_pending(host, who[chosen]);
        return who[chosen];
    }
}

static struct wring_rendezvous_pending *take_free_place(struct wring_rendezvous_host *host)
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

/** The shortage that keeps ranks from joining, if one is known: "" or a text. @param text out */
static void rendezvous_name_shortage(const struct wring_rendezvous_host *host, char *text,
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
    write_peer_address(pending->fd, pending->from);
    wring_auth_init(&pending->auth, false, WRING_AUTH_RENDEZVOUS, host->secret, NULL, 0);
    return true;
}

/** Take all who wait, as far as there are places; those that say nothing make room for others. */
static void accept_all_waiting(struct wring_rendezvous_host *host)
{
    struct wring_rendezvous_pending *pending;
    if (!wring_door_is_open(&host->door, wring_now_ns()))
        return;
    while ((pending = take_free_place(host)) != NULL)
        if (!accept_one(host, pending))
            return;
}

/** How many have not said anything, those who are here and those who were turned away.
 *  @param from out, the address of one; "" where there is none; borrowed */
static unsigned rendezvous_count_silent(const struct wring_rendezvous_host *host, const char **from)
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

static struct wring_rendezvous_refusals *refusal_kind(
    struct wring_rendezvous_host *host, const struct wring_rendezvous_pending *pending)
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

static const char *name_missing_ranks(const struct wring_rendezvous_host *host,
                                      struct wring_rendezvous_names *out);

static void warn_of_refusal(struct wring_rendezvous_host *host,
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
                   pending->from, others, name_missing_ranks(host, &absent));
    else {
        wring_auth_describe(&pending->auth, text, sizeof(text));
        wring_warn(host->rendezvous->log,
                   "refused someone from %s who wanted to join: %s%s; %s yet to come",
                   pending->from, text, others, name_missing_ranks(host, &absent));
    }
    kind->unsaid = 0;
    kind->silent_until_ns = now + COMPLAINT_NS;
}

/** Someone who proves nothing, or has had its time to, goes; that never ends the job. The log has
 *  the first at once, then a few. */
static void refuse_pending(struct wring_rendezvous_host *host,
                           struct wring_rendezvous_pending *pending)
{
    struct wring_rendezvous_refusals *kind = refusal_kind(host, pending);
    kind->n++;
    memcpy(kind->from, pending->from, sizeof(kind->from));
    warn_of_refusal(host, pending, kind);
    close_pending(pending);
}

/* ---- verdict ---- */

/* Why a job cannot begin, and in which words; no sockets here. */

#define HINT_BYTES (WRING_RENDEZVOUS_ADDRESS + 64)

/** The job ends so. */
static void end_joining(struct wring_rendezvous_verdict *verdict, enum wring_status status,
                        uint32_t rank, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    verdict->status = status;
    verdict->rank = rank;
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
}

void wring_rendezvous_read_claim(const uint8_t *hello, size_t bytes,
                                 struct wring_rendezvous_claim *out)
{
    bool whole = bytes == WRING_RENDEZVOUS_HELLO_BYTES;
    out->rank = whole ? wring_get_u32(hello) : UINT32_MAX;
    out->size = whole ? wring_get_u32(hello + 4) : 0;
}

void wring_rendezvous_judge(const struct wring_rendezvous_claim *claim, uint32_t size,
                            struct wring_rendezvous_verdict *out)
{
    if (claim->size != size)
        end_joining(out, WRING_ERR_MISMATCH, claim->rank,
                    "rank %" PRIu32 " (%s) says that the job has %" PRIu32
                    " ranks, rank 0 says %" PRIu32 ": set WRING_SIZE alike on all ranks",
                    claim->rank, claim->from, claim->size, size);
    else if (claim->rank == 0)
        end_joining(out, WRING_ERR_MISMATCH, 0,
                    "two processes joined as rank 0, here and from %s: give each its own "
                    "WRING_RANK",
                    claim->from);
    else if (claim->rank >= size)
        end_joining(out, WRING_ERR_MISMATCH, claim->rank,
                    "a process joined as rank %" PRIu32 " of %" PRIu32 ", from %s (WRING_RANK)",
                    claim->rank, size, claim->from);
    else if (claim->holder[0] != '\0')
        end_joining(out, WRING_ERR_MISMATCH, claim->rank,
                    "two processes joined as rank %" PRIu32
                    ", from %s and from %s: give each its own WRING_RANK",
                    claim->rank, claim->holder, claim->from);
}

/** The ranks that have not joined. @param out out, {0} before @return borrowed from out */
static const char *name_missing_ranks(const struct wring_rendezvous_host *host,
                                      struct wring_rendezvous_names *out)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] < 0)
            wring_rendezvous_name(out, i);
    return wring_rendezvous_named(out);
}

/** The time is over: end the job, and say which ranks are missing and which connections came to
 *  nothing. */
static void end_joining_late(struct wring_rendezvous_host *host)
{
    struct wring_rendezvous_names absent = {0};
    const char *names = name_missing_ranks(host, &absent);
    char wrong_key[HINT_BYTES] = "", version[HINT_BYTES] = "", silence[HINT_BYTES] = "";
    char shortage[160], lacks[HINT_BYTES + 64] = "";
    const char *from;
    unsigned silent = rendezvous_count_silent(host, &from);

    rendezvous_name_shortage(host, shortage, sizeof(shortage));
    if (shortage[0] != '\0')
        snprintf(lacks, sizeof(lacks), "; rank 0 cannot take more: %s", shortage);
    if (host->wrong_key.n > 0)
        snprintf(wrong_key, sizeof(wrong_key),
                 "; someone from %s was refused for a wrong WRING_KEY", host->wrong_key.from);
    if (host->other_version.n > 0)
        snprintf(version, sizeof(version), "; someone from %s for another version of wring",
                 host->other_version.from);
    if (silent > 0)
        snprintf(silence, sizeof(silence), "; %u connections said nothing, the last from %s",
                 silent, from);
    end_joining(
        &host->verdict, WRING_ERR_PEER, absent.first,
        "%s did not join in time (WRING_JOIN_TIMEOUT): %" PRIu32 " of %" PRIu32 " are here%s%s%s%s",
        names, host->joined + 1, host->rendezvous->base.size, lacks, wrong_key, version, silence);
}

/* ---- listen ---- */

/* Where ranks meet: what WRING_ROOT stands for, and the root's socket there. */

/** 1..65535 in digits; getaddrinfo() would take 65537 for 1. */
static bool is_port(const char *text)
{
    unsigned long port = 0;
    size_t n = strspn(text, "0123456789");
    for (size_t i = 0; i < n && port <= UINT16_MAX; i++)
        port = port * 10 + (unsigned long)(text[i] - '0');
    return text[n] == '\0' && port >= 1 && port <= UINT16_MAX;
}

/** Cut "host:port" or "[v6]:port" in two. */
static bool split_root(const char *root, char *host, size_t host_bytes, const char **port)
{
    const char *colon = strrchr(root, ':');
    if (colon == NULL || colon == root || !is_port(colon + 1))
        return false;
    const char *begin = root, *end = colon;
    if (*begin == '[' && end[-1] == ']')
        begin++, end--;
    if (end <= begin || (size_t)(end - begin) >= host_bytes)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = colon + 1;
    return true;
}

static bool lacks_zone(const struct sockaddr *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    return v6->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) &&
           v6->sin6_scope_id == 0;
}

enum wring_status wring_rendezvous_resolve(const struct wring_log *log, const char *root,
                                           struct addrinfo **found, bool *is_name)
{
    char host[256];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};

    if (!split_root(root, host, sizeof(host), &port)) {
        wring_error(log, "WRING_ROOT=%s: needs host:port, for example 10.0.0.1:5555 or [::1]:5555",
                    root);
        return WRING_ERR_INVALID;
    }
    int failed = getaddrinfo(host, port, &hints, found);
    *is_name = failed == EAI_NONAME;
    if (*is_name) {
        hints.ai_flags = AI_NUMERICSERV;
        failed = getaddrinfo(host, port, &hints, found);
    }
    if (failed != 0) {
        if (strchr(host, '%') != NULL)
            return wring_rendezvous_refuse_zone(log, root);
        wring_error(log, "WRING_ROOT=%s: %s", root, gai_strerror(failed));
        return WRING_ERR_ADDRESS;
    }
    return WRING_OK;
}

static int listen_on(const struct sockaddr *address, socklen_t bytes)
{
    int one = 1, zero = 0;
    int fd =
        WRING_DESCRIPTOR(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->sa_family == AF_INET6) /* all addresses means both families */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind(fd, address, bytes) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    wring_descriptor_close(fd);
    return -1;
}

static in_port_t address_port(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                         : ((const struct sockaddr_in6 *)address)->sin6_port;
}

/** A host given by name may resolve to anything here: listen on all addresses of both families,
 *  or of IPv4 where this host has no IPv6. */
static int listen_everywhere(const struct sockaddr *like)
{
    in_port_t port = address_port((const struct sockaddr_storage *)like);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = in6addr_any};
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = listen_on((const struct sockaddr *)&v6, sizeof(v6));
    return fd >= 0 || errno == EADDRINUSE ? fd
                                          : listen_on((const struct sockaddr *)&v4, sizeof(v4));
}

static bool has_key(const struct wring_rendezvous_params *params)
{
    return params->key != NULL && *params->key != '\0';
}

bool wring_rendezvous_needs_key(const struct wring_rendezvous_params *params,
                                const struct sockaddr *address)
{
    return !has_key(params) && !wring_rendezvous_is_loopback(address);
}

static enum wring_status check_key(const struct wring_rendezvous_params *params,
                                   const struct sockaddr *address)
{
    if (!wring_rendezvous_needs_key(params, address))
        return WRING_OK;
    wring_error(params->log, "without a key the rendezvous listens on loopback only: set the "
                             "same WRING_KEY or WRING_KEY_FILE on all ranks");
    return WRING_ERR_AUTH;
}

static enum wring_status take_given_socket(const struct wring_rendezvous_params *params, int *out)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    int fd = params->root_fd, listens = 0;
    socklen_t size = sizeof(listens);

    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        wring_error(params->log, "WRING_ROOT_FD=%d: %s: needs a listening TCP socket", fd,
                    strerrordesc_np(errno));
        return WRING_ERR_ADDRESS;
    }
    if ((address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
        wring_error(params->log,
                    "WRING_ROOT_FD=%d: not a TCP socket that listens: needs one on which listen() "
                    "was called",
                    fd);
        return WRING_ERR_ADDRESS;
    }
    enum wring_status status = check_key(params, (const struct sockaddr *)&address);
    if (status != WRING_OK)
        return status;
    /* its maker may have left it blocking, and accept must not block */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    *out = fd;
    return WRING_OK;
}

/** A name other than localhost may stand for another address of this host, or for none, as seen
 *  from elsewhere; many systems map their own name to a loopback address. */
static int listen_at(const struct wring_rendezvous_params *params, const struct addrinfo *found,
                     bool is_name)
{
    int fd = -1;
    if (is_name && has_key(params) && strncmp(params->root, "localhost:", 10) != 0)
        return listen_everywhere(found->ai_addr);
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        if (has_key(params) || wring_rendezvous_is_loopback(at->ai_addr))
            fd = listen_on(at->ai_addr, at->ai_addrlen);
    return fd;
}

/** @param fd of which a negative one, with errno, is an error that is logged */
static enum wring_status hand_out_socket(const struct wring_rendezvous_params *params, int fd,
                                         int *out)
{
    if (fd < 0) {
        wring_error(params->log, "cannot listen on %s: %s", params->root,
                    WRING_REFUSED("socket, bind or listen"));
        return WRING_ERR_ADDRESS;
    }
    *out = fd;
    return WRING_OK;
}

/** Several endpoints are all of this host's, with one port: listen on all addresses. */
static enum wring_status listen_for_several(const struct wring_rendezvous_params *params, int *out)
{
    struct wring_rendezvous_endpoints endpoints;
    enum wring_status status = wring_rendezvous_find_endpoints(params, &endpoints);
    if (status != WRING_OK)
        return status;
    const struct wring_rendezvous_endpoint *first = &endpoints.at[0];
    for (unsigned i = 1; i < endpoints.n; i++)
        if (address_port(&endpoints.at[i].address) != address_port(&first->address)) {
            wring_error(params->log,
                        "WRING_ROOT=%s: rank 0 listens on one port: give all of these the same",
                        params->root);
            return WRING_ERR_INVALID;
        }
    const struct sockaddr *address = (const struct sockaddr *)&first->address;
    return hand_out_socket(
        params, has_key(params) ? listen_everywhere(address) : listen_on(address, first->bytes),
        out);
}

enum wring_status wring_rendezvous_listen(const struct wring_rendezvous_params *params, int *out)
{
    struct addrinfo *found;
    bool is_name;

    if (params->root_fd >= 0)
        return take_given_socket(params, out);
    if (strchr(params->root, ',') != NULL)
        return listen_for_several(params, out);
    enum wring_status status =
        wring_rendezvous_resolve(params->log, params->root, &found, &is_name);
    if (status != WRING_OK)
        return status;
    status = check_key(params, found->ai_addr);
    if (status == WRING_OK && lacks_zone(found->ai_addr))
        status = wring_rendezvous_refuse_zone(params->log, params->root);
    if (status == WRING_OK)
        status = hand_out_socket(params, listen_at(params, found, is_name), out);
    freeaddrinfo(found);
    return status;
}

/* ---- host ---- */

/* The side of rank 0: let the others in, or say why not. */

#define HANDSHAKE_NS (5 * WRING_NS_PER_S)
#define SLICE_NS (100 * WRING_NS_PER_MS)
#define CROWDED_SLICE_NS (10 * WRING_NS_PER_MS) /* where somebody has to wait for a place */
#define FAREWELL_NS (3 * WRING_NS_PER_S)        /* for late ranks to hear why the job has ended */

/** It knows the key: is it a rank that we miss? Two that cannot both be right end the job. */
static void judge_claim(struct wring_rendezvous_host *host,
                        const struct wring_rendezvous_pending *pending,
                        struct wring_rendezvous_claim *out)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    size_t bytes;
    const uint8_t *hello = wring_auth_hello(&pending->auth, &bytes);

    out->from = pending->from;
    wring_rendezvous_read_claim(hello, bytes, out);
    if (out->rank < rendezvous->base.size && rendezvous->fds[out->rank] >= 0)
        write_peer_address(rendezvous->fds[out->rank], out->holder);
    if (host->verdict.status == WRING_OK)
        wring_rendezvous_judge(out, rendezvous->base.size, &host->verdict);
}

/** One who is in is looked at when it has left: among a thousand nobody else costs anything. */
static bool watch_rank(struct wring_rendezvous_host *host, int fd, uint32_t rank)
{
    struct epoll_event event = {.events = EPOLLRDHUP, .data.u32 = rank};
    if (epoll_ctl(host->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return true;
    wring_warn(host->rendezvous->log,
               "rank %" PRIu32 " cannot be watched, and has to come again: %s", rank,
               WRING_REFUSED("epoll_ctl"));
    return false;
}

static void admit_or_refuse(struct wring_rendezvous_host *host,
                            struct wring_rendezvous_pending *pending)
{
    struct wring_rendezvous *rendezvous = host->rendezvous;
    const struct wring_rendezvous_verdict *verdict = &host->verdict;
    struct wring_rendezvous_claim claim = {0};

    judge_claim(host, pending, &claim);
    if (verdict->status != WRING_OK) {
        wring_rendezvous_send_failure(pending->fd, verdict->status, verdict->rank, verdict->text);
        close_pending(pending);
        host->told++;
        return;
    }
    if (!watch_rank(host, pending->fd, claim.rank)) {
        close_pending(pending); /* it comes again */
        return;
    }
    wring_rendezvous_send_admitted(pending->fd);
    rendezvous->fds[claim.rank] = pending->fd;
    pending->fd = -1;
    host->joined++;
    wring_debug(rendezvous->log, "rank %" PRIu32 " joined from %s, %" PRIu32 " of %" PRIu32,
                claim.rank, pending->from, host->joined + 1, claim.size);
}

static void advance_pending(struct wring_rendezvous_host *host,
                            struct wring_rendezvous_pending *pending)
{
    bool alive = wring_stream_auth(pending->fd, &pending->auth);
    enum wring_status status = wring_auth_status(&pending->auth);

    if (status == WRING_OK) {
        admit_or_refuse(host, pending);
    } else if (status != WRING_ERR_AGAIN ||
               (alive && wring_now_ns() > pending->since_ns + HANDSHAKE_NS)) {
        refuse_pending(host, pending);
    } else if (!alive) {
        close_pending(pending);
    }
}

/** Behind the epoll set is everybody who is in, so that one who leaves is seen at once.
 *  @return how many descriptors */
static unsigned list_watched(struct wring_rendezvous_host *host)
{
    unsigned n = 2;

    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd >= 0) {
            const void *data;
            bool out = wring_auth_output(&host->pending[i].auth, &data) > 0;
            host->fds[n++] = (struct pollfd){host->pending[i].fd, out ? POLLOUT : POLLIN, 0};
        }
    /* all places taken, or no descriptor left: let the queue of the system hold them */
    bool is_closed =
        n == WRING_RENDEZVOUS_PENDING + 2 || !wring_door_is_open(&host->door, wring_now_ns());
    host->fds[0] = (struct pollfd){is_closed ? -1 : host->listen_fd, POLLIN, 0};
    host->fds[1] = (struct pollfd){host->verdict.status == WRING_OK ? host->epoll : -1, POLLIN, 0};
    return n;
}

/** A rank that has joined and closes again will not come back. */
static void end_if_departed(struct wring_rendezvous_host *host)
{
    struct epoll_event event;
    if (host->fds[1].revents == 0 || epoll_wait(host->epoll, &event, 1, 0) <= 0)
        return;
    end_joining(&host->verdict, WRING_ERR_PEER, event.data.u32,
                "rank %" PRIu32 " ended while the others were joining", event.data.u32);
}

/** Wait a little for anything to happen on any socket, and deal with it. Errors: CLOSED. */
static enum wring_status serve_once(struct wring_rendezvous_host *host,
                                    const struct wring_patience *patience)
{
    unsigned watched = list_watched(host);
    bool crowded = host->fds[0].fd < 0;
    uint64_t slice = wring_now_ns() + (crowded ? CROWDED_SLICE_NS : SLICE_NS);
    struct wring_patience brief = {slice < patience->deadline_ns ? slice : patience->deadline_ns,
                                   patience->cancel};

    enum wring_status status = wring_stream_poll(host->fds, watched, &brief);
    if (status == WRING_ERR_CLOSED)
        return status;
    if (status == WRING_OK && host->verdict.status == WRING_OK)
        end_if_departed(host);
    accept_all_waiting(host);
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd >= 0)
            advance_pending(host, &host->pending[i]);
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
        if (serve_once(host, &farewell) != WRING_OK)
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
            end_joining_late(host);
            break;
        }
        enum wring_status status = serve_once(host, &patience);
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
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (host == NULL)
        return status;
    host->rendezvous = rendezvous;
    host->door.module = WRING_MODULE;
    host->secret = secret;
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        host->pending[i].fd = -1;

    host->epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (host->epoll < 0) {
        wring_error(params->log, "ranks cannot be waited for: %s", WRING_REFUSED("epoll_create1"));
        status = WRING_ERR_SYSTEM;
    } else {
        status = wring_rendezvous_listen(params, &host->listen_fd);
    }
    if (status == WRING_OK) {
        status = admit_all(host, params);
        if (host->listen_fd != params->root_fd)
            wring_descriptor_close(host->listen_fd); /* nobody else may join */
    }
    for (unsigned i = 0; i < WRING_RENDEZVOUS_PENDING; i++)
        if (host->pending[i].fd >= 0)
            close_pending(&host->pending[i]);
    wring_descriptor_close(host->epoll);
    free(host);
    return status;
}
