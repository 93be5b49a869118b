/* SPDX-License-Identifier: Apache-2.0 */
/** Names of what verbs_port.h speaks of, for people. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "transport/providers/verbs/verbs_port.h"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* before an IPv4 address */

const char *wring_verbs_link_text(enum verbs_link link)
{
    switch (link) {
    case VERBS_LINK_OTHER:
        return "other";
    case VERBS_LINK_INFINIBAND:
        return "InfiniBand";
    case VERBS_LINK_ROCE:
        return "RoCE";
    }
    return "unknown";
}

const char *wring_verbs_gid_type_text(enum verbs_gid_type type)
{
    switch (type) {
    case VERBS_GID_INFINIBAND:
        return "InfiniBand";
    case VERBS_GID_ROCE_V1:
        return "RoCE v1";
    case VERBS_GID_ROCE_V2:
        return "RoCE v2";
    }
    return "unknown";
}

const char *wring_verbs_state_text(unsigned state)
{
    static const char *const names[] = {"in an unknown state",   "down",   "initialising",
                                        "armed, not yet active", "active", "active, but deferred"};
    return state < sizeof(names) / sizeof(names[0]) ? names[state] : names[0];
}

const char *wring_verbs_gid_text(const uint8_t *gid, char *text)
{
    bool v4 = memcmp(gid, mapped, sizeof(mapped)) == 0;
    const void *bytes = v4 ? gid + sizeof(mapped) : gid;
    if (inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text, VERBS_GID_TEXT) == NULL)
        snprintf(text, VERBS_GID_TEXT, "?");
    return text;
}

bool wring_verbs_gid_of(const struct sockaddr *address, uint8_t *gid)
{
    if (address->sa_family == AF_INET6) {
        memcpy(gid, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
        return true;
    }
    if (address->sa_family != AF_INET)
        return false;
    memcpy(gid, mapped, sizeof(mapped));
    memcpy(gid + sizeof(mapped), &((const struct sockaddr_in *)address)->sin_addr, 4);
    return true;
}
