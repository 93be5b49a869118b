/* SPDX-License-Identifier: Apache-2.0 */
/* Where the root may be: its addresses as a rank that joins understands them. */
#include "transport/bootstrap/rendezvous_private.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"

#define WRING_MODULE "rendezvous"
#define ENTRY_BYTES 320

static const struct sockaddr_in6 *as_v6(const struct sockaddr *address)
{
    return (const struct sockaddr_in6 *)address;
}

static const uint8_t *bytes_of(const struct sockaddr *address, size_t *n)
{
    if (address->sa_family == AF_INET) {
        *n = sizeof(struct in_addr);
        return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
    }
    *n = sizeof(struct in6_addr);
    return as_v6(address)->sin6_addr.s6_addr;
}

/** Is an address on the network of one of this host's interfaces? */
static bool is_on(const struct sockaddr *address, const struct ifaddrs *at)
{
    if (at->ifa_addr == NULL || at->ifa_netmask == NULL || (at->ifa_flags & IFF_UP) == 0 ||
        at->ifa_addr->sa_family != address->sa_family)
        return false;
    if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_v6(address)->sin6_addr) &&
        as_v6(address)->sin6_scope_id != if_nametoindex(at->ifa_name))
        return false;
    size_t n;
    const uint8_t *theirs = bytes_of(address, &n), *ours = bytes_of(at->ifa_addr, &n);
    const uint8_t *mask = bytes_of(at->ifa_netmask, &n);
    for (size_t i = 0; i < n; i++)
        if (((theirs[i] ^ ours[i]) & mask[i]) != 0)
            return false;
    return true;
}

static void add(struct wring_rendezvous_places *places, const struct ifaddrs *all,
                const struct sockaddr *address, socklen_t bytes)
{
    if (places->n == WRING_RENDEZVOUS_PLACES)
        return;
    struct wring_rendezvous_place *place = &places->at[places->n++];
    *place = (struct wring_rendezvous_place){.bytes = bytes};
    memcpy(&place->address, address, bytes);
    for (; all != NULL && !place->near; all = all->ifa_next)
        place->near = is_on(address, all);
}

/** A zone names an interface of the host that wrote it: here the link may be any of ours. */
static void add_links(struct wring_rendezvous_places *places, const struct ifaddrs *all,
                      const struct sockaddr_in6 *address)
{
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        struct sockaddr_in6 link = *address;
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET6 ||
            (at->ifa_flags & IFF_UP) == 0 ||
            !IN6_IS_ADDR_LINKLOCAL(&as_v6(at->ifa_addr)->sin6_addr))
            continue;
        link.sin6_scope_id = if_nametoindex(at->ifa_name);
        if (link.sin6_scope_id != 0 && link.sin6_scope_id != address->sin6_scope_id)
            add(places, all, (const struct sockaddr *)&link, sizeof(link));
    }
}

/** Take the zone out of "[fe80::1%zone]:port". @param zone out, [IF_NAMESIZE], "" without one */
static void cut_zone(char *entry, char *zone)
{
    char *percent = strchr(entry, '%');
    char *end = percent != NULL ? strpbrk(percent, "]:") : NULL;
    zone[0] = '\0';
    if (end == NULL)
        return;
    snprintf(zone, IF_NAMESIZE, "%.*s", (int)(end - percent) - 1, percent + 1);
    memmove(percent, end, strlen(end) + 1);
}

/** One "host:port" of the root's. Errors are logged. */
static enum wring_status add_entry(struct wring_rendezvous_places *places,
                                   const struct wring_log *log, const struct ifaddrs *all,
                                   const char *text)
{
    char entry[ENTRY_BYTES], zone[IF_NAMESIZE];
    struct addrinfo *found;
    bool is_name;

    snprintf(entry, sizeof(entry), "%s", text);
    cut_zone(entry, zone);
    /* a scope that we have is an interface's name, or its number in digits */
    unsigned scope = if_nametoindex(zone);
    if (scope == 0 && strspn(zone, "0123456789") == strlen(zone))
        sscanf(zone, "%9u", &scope);
    enum wring_status status = wring_rendezvous_resolve(log, entry, &found, &is_name);
    if (status != WRING_OK)
        return status;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        struct sockaddr_in6 link;
        if (at->ai_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&as_v6(at->ai_addr)->sin6_addr)) {
            add(places, all, at->ai_addr, at->ai_addrlen);
            continue;
        }
        link = *as_v6(at->ai_addr);
        if (link.sin6_scope_id == 0)
            link.sin6_scope_id = scope;
        if (link.sin6_scope_id != 0)
            add(places, all, (const struct sockaddr *)&link, sizeof(link));
        if (link.sin6_scope_id == 0 || places->several)
            add_links(places, all, &link);
    }
    freeaddrinfo(found);
    return WRING_OK;
}

/** Each of several; where a name means nothing here, another may do. */
static enum wring_status add_entries(struct wring_rendezvous_places *places,
                                     const struct wring_rendezvous_params *params,
                                     const struct ifaddrs *all)
{
    if (!places->several)
        return add_entry(places, params->log, all, params->root);
    const char *rest = params->root;
    for (struct wring_list_item item; wring_list_next(&rest, &item);) {
        char entry[ENTRY_BYTES];
        snprintf(entry, sizeof(entry), "%.*s", (int)item.length, item.text);
        if (item.length >= sizeof(entry) || item.length == 0) {
            wring_error(params->log,
                        "WRING_ROOT=%s: needs host:port, or several with commas "
                        "between them",
                        params->root);
            return WRING_ERR_INVALID;
        }
        enum wring_status status = add_entry(places, params->log, all, entry);
        if (status == WRING_ERR_INVALID)
            return status;
    }
    if (places->n == 0)
        wring_error(params->log, "WRING_ROOT=%s: none of these means anything on this host",
                    params->root);
    return places->n > 0 ? WRING_OK : WRING_ERR_ADDRESS;
}

/** Near ones first; else in the root's order. */
static void put_near_first(struct wring_rendezvous_places *places)
{
    for (unsigned i = 1, near = 0; i <= places->n; i++) {
        struct wring_rendezvous_place place = places->at[i - 1];
        if (!place.near)
            continue;
        memmove(&places->at[near + 1], &places->at[near], (i - 1 - near) * sizeof(place));
        places->at[near++] = place;
    }
}

/** Without a key only this host is believed. */
static enum wring_status drop_distant(struct wring_rendezvous_places *places,
                                      const struct wring_rendezvous_params *params)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < places->n; i++)
        if (!wring_rendezvous_needs_key(params, (const struct sockaddr *)&places->at[i].address))
            places->at[kept++] = places->at[i];
    if (kept == places->n || (kept > 0 && places->several)) {
        places->n = kept;
        return WRING_OK;
    }
    wring_error(params->log,
                "WRING_ROOT=%s: joining over a network needs a key: set the same WRING_KEY or "
                "WRING_KEY_FILE on all ranks",
                params->root);
    return WRING_ERR_AUTH;
}

enum wring_status wring_rendezvous_find_places(const struct wring_rendezvous_params *params,
                                               struct wring_rendezvous_places *out)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        wring_debug(params->log, "cannot list the network interfaces: %s", strerrordesc_np(errno));
        all = NULL; /* nothing is near, then */
    }
    *out = (struct wring_rendezvous_places){.several = strchr(params->root, ',') != NULL};
    enum wring_status status = add_entries(out, params, all);
    if (all != NULL)
        freeifaddrs(all);
    if (status == WRING_OK && out->n == 0) /* link-local, and there is no link */
        status = wring_rendezvous_refuse_zone(params->log, params->root);
    if (status == WRING_OK)
        status = drop_distant(out, params);
    put_near_first(out);
    return status;
}

void wring_rendezvous_place_text(const struct wring_rendezvous_place *place, char *text)
{
    char host[WRING_RENDEZVOUS_ADDRESS] = "?", port[8] = "?";
    getnameinfo((const struct sockaddr *)&place->address, place->bytes, host, sizeof(host), port,
                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, WRING_RENDEZVOUS_PLACE_TEXT, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s",
             host, port);
}
