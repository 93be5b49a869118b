/* SPDX-License-Identifier: Apache-2.0 */
/* How messages of the rendezvous name ranks and addresses. */
#include "transport/bootstrap/rendezvous_private.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "transport/interface.h"

#define NAMED_MAX 8

void wring_rendezvous_name(struct wring_rendezvous_names *names, uint32_t rank)
{
    if (names->n++ == 0)
        names->first = rank;
    if (names->n <= NAMED_MAX)
        names->at += (size_t)snprintf(names->list + names->at, sizeof(names->list) - names->at,
                                      "%s%" PRIu32, names->n > 1 ? ", " : "", rank);
}

const char *wring_rendezvous_named(struct wring_rendezvous_names *names)
{
    size_t bytes = sizeof(names->text);
    if (names->n > NAMED_MAX)
        snprintf(names->text, bytes, "ranks %s and %" PRIu32 " more", names->list,
                 names->n - NAMED_MAX);
    else
        snprintf(names->text, bytes, "rank%s %s", names->n > 1 ? "s" : "", names->list);
    return names->text;
}

/** An IPv4 peer of a socket for both families looks like ::ffff:10.0.0.1: make it plain. */
static void unmap(struct sockaddr_storage *address, socklen_t *bytes)
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
    unmap(&address, &bytes);
    unmap(&peer, &peer_bytes);
    if (getnameinfo((struct sockaddr *)&address, bytes, text, WRING_RENDEZVOUS_ADDRESS, NULL, 0,
                    NI_NUMERICHOST) != 0)
        text[0] = '\0';
    if (getnameinfo((struct sockaddr *)&peer, peer_bytes, theirs, sizeof(theirs), NULL, 0,
                    NI_NUMERICHOST) != 0)
        return false;
    return text[0] != '\0' && !wring_interface_has(theirs);
}

void wring_rendezvous_peer(int fd, char *text)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    snprintf(text, WRING_RENDEZVOUS_ADDRESS, "an unknown address");
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0)
        return;
    unmap(&address, &bytes);
    getnameinfo((struct sockaddr *)&address, bytes, text, WRING_RENDEZVOUS_ADDRESS, NULL, 0,
                NI_NUMERICHOST);
}
