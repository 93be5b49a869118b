/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks meet: what WRING_ROOT stands for, and the root's socket there. */
#include "transport/bootstrap/rendezvous_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/refusal.h"

#define WRING_MODULE "rendezvous"

bool wring_rendezvous_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

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
static bool split(const char *root, char *host, size_t host_bytes, const char **port)
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

enum wring_status wring_rendezvous_refuse_zone(const struct wring_log *log, const char *root)
{
    wring_error(log, "WRING_ROOT=%s: needs a zone of this host, as in [fe80::1%%eth0]:5555", root);
    return WRING_ERR_ADDRESS;
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

    if (!split(root, host, sizeof(host), &port)) {
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

static in_port_t port_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                         : ((const struct sockaddr_in6 *)address)->sin6_port;
}

/** A host given by name may resolve to anything here: listen on all addresses of both families,
 *  or of IPv4 where this host has no IPv6. */
static int listen_everywhere(const struct sockaddr *like)
{
    in_port_t port = port_of((const struct sockaddr_storage *)like);
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

static enum wring_status take_given(const struct wring_rendezvous_params *params, int *out)
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
    /* whoever made it may have left it blocking, and accept must not */
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
static enum wring_status hand_out(const struct wring_rendezvous_params *params, int fd, int *out)
{
    if (fd < 0) {
        wring_error(params->log, "cannot listen on %s: %s", params->root,
                    WRING_REFUSED("socket, bind or listen"));
        return WRING_ERR_ADDRESS;
    }
    *out = fd;
    return WRING_OK;
}

/** Several places are all of this host's, with one port: listen on all addresses. */
static enum wring_status listen_for_several(const struct wring_rendezvous_params *params, int *out)
{
    struct wring_rendezvous_places places;
    enum wring_status status = wring_rendezvous_find_places(params, &places);
    if (status != WRING_OK)
        return status;
    const struct wring_rendezvous_place *first = &places.at[0];
    for (unsigned i = 1; i < places.n; i++)
        if (port_of(&places.at[i].address) != port_of(&first->address)) {
            wring_error(params->log,
                        "WRING_ROOT=%s: rank 0 listens on one port: give all of these the same",
                        params->root);
            return WRING_ERR_INVALID;
        }
    const struct sockaddr *address = (const struct sockaddr *)&first->address;
    return hand_out(params,
                    has_key(params) ? listen_everywhere(address) : listen_on(address, first->bytes),
                    out);
}

enum wring_status wring_rendezvous_listen(const struct wring_rendezvous_params *params, int *out)
{
    struct addrinfo *found;
    bool is_name;

    if (params->root_fd >= 0)
        return take_given(params, out);
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
        status = hand_out(params, listen_at(params, found, is_name), out);
    freeaddrinfo(found);
    return status;
}
