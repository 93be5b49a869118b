/* SPDX-License-Identifier: Apache-2.0 */
/** Addresses of sockets, as text and as the blobs that ranks tell each other. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/providers/tcp/tcp.h"

/* An address blob: family (4 or 6), 0, port little-endian, then the address in network order. */

/** Can a peer elsewhere use this address as it stands? */
static bool is_reachable(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        return v4->sin_addr.s_addr != htonl(INADDR_ANY) &&
               !IN_MULTICAST(ntohl(v4->sin_addr.s_addr));
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return !IN6_IS_ADDR_UNSPECIFIED(v6) && !IN6_IS_ADDR_MULTICAST(v6) && !IN6_IS_ADDR_LINKLOCAL(v6);
}

enum wring_status wring_tcp_address_parse(const struct wring_log *log, const char *text,
                                          struct sockaddr_storage *out, socklen_t *bytes)
{
    const struct addrinfo hints = {
        .ai_flags = AI_NUMERICHOST | AI_PASSIVE, /* never asks a name server, so never blocks */
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found;
    int code = getaddrinfo(text, NULL, &hints, &found);
    if (code != 0) {
        wring_error(log, "'%s' is not a numeric IPv4 or IPv6 address: %s", text,
                    gai_strerror(code));
        return WRING_ERR_ADDRESS;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);

    if (!is_reachable(out)) {
        wring_error(log,
                    "cannot listen on %s: peers need one address of this host that they can "
                    "reach (no wildcard, no link-local address)",
                    text);
        return WRING_ERR_ADDRESS;
    }
    return WRING_OK;
}

size_t wring_tcp_address_pack(const struct sockaddr_storage *address, void *blob)
{
    uint8_t *out = blob;
    uint16_t port;
    size_t bytes;
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        port = ntohs(v4->sin_port);
        bytes = sizeof(v4->sin_addr);
        memcpy(out + TCP_ADDRESS_AT, &v4->sin_addr, bytes);
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        port = ntohs(v6->sin6_port);
        bytes = sizeof(v6->sin6_addr);
        memcpy(out + TCP_ADDRESS_AT, &v6->sin6_addr, bytes);
    }
    out[0] = bytes == sizeof(struct in_addr) ? 4 : 6;
    out[1] = 0;
    out[2] = (uint8_t)port;
    out[3] = (uint8_t)(port >> 8);
    return TCP_ADDRESS_AT + bytes;
}

enum wring_status wring_tcp_address_unpack(const void *blob, size_t blob_bytes,
                                           struct sockaddr_storage *out, socklen_t *bytes)
{
    const uint8_t *in = blob;
    memset(out, 0, sizeof(*out));
    if (blob_bytes < TCP_ADDRESS_AT || in[1] != 0)
        return WRING_ERR_FRAME;

    uint16_t port = htons((uint16_t)(in[2] | in[3] << 8));
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    if (in[0] == 4 && blob_bytes == TCP_ADDRESS_AT + sizeof(v4->sin_addr)) {
        v4->sin_family = AF_INET;
        v4->sin_port = port;
        memcpy(&v4->sin_addr, in + TCP_ADDRESS_AT, sizeof(v4->sin_addr));
        *bytes = sizeof(*v4);
    } else if (in[0] == 6 && blob_bytes == TCP_ADDRESS_AT + sizeof(v6->sin6_addr)) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = port;
        memcpy(&v6->sin6_addr, in + TCP_ADDRESS_AT, sizeof(v6->sin6_addr));
        *bytes = sizeof(*v6);
    } else {
        return WRING_ERR_FRAME;
    }
    return port != 0 && is_reachable(out) ? WRING_OK : WRING_ERR_FRAME;
}

void wring_tcp_address_host(const struct sockaddr_storage *address, char *text, size_t bytes)
{
    const void *at = address->ss_family == AF_INET
                         ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                         : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;

    if (inet_ntop(address->ss_family, at, text, (socklen_t)bytes) == NULL)
        snprintf(text, bytes, "?");
}

void wring_tcp_address_text(const struct sockaddr_storage *address, char *text, size_t bytes)
{
    char host[INET6_ADDRSTRLEN];

    wring_tcp_address_host(address, host, sizeof(host));
    if (address->ss_family == AF_INET)
        snprintf(text, bytes, "%s:%u", host,
                 ntohs(((const struct sockaddr_in *)address)->sin_port));
    else
        snprintf(text, bytes, "[%s]:%u", host,
                 ntohs(((const struct sockaddr_in6 *)address)->sin6_port));
}
