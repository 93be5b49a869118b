/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"

#define WRING_MODULE "interface"
#define SEEN_TEXT 256

/** Read the signs before the names: ^ for all but these, = for exact names. */
static const char *read_signs(const char *list, bool *without, bool *exact)
{
    *without = *list == '^';
    list += *without;
    *exact = *list == '=';
    return list + *exact;
}

const char *wring_interface_list_fault(const char *list)
{
    bool without, exact;
    struct wring_list_item item;
    list = read_signs(list, &without, &exact);
    while (wring_list_next(&list, &item)) {
        if (item.length == 0)
            return "a name is empty";
        if (item.text[0] == '^' || item.text[0] == '=')
            return "^ and = stand once, before all names";
        if (memchr(item.text, ' ', item.length) != NULL)
            return "names are separated by commas";
    }
    return NULL;
}

int wring_interface_match(const char *list, const char *name)
{
    bool without, exact;
    struct wring_list_item item;
    list = read_signs(list, &without, &exact);

    int found = -1;
    for (int i = 0; found < 0 && wring_list_next(&list, &item); i++) {
        bool equal =
            strncmp(item.text, name, item.length) == 0 && (!exact || name[item.length] == '\0');
        if (item.length > 0 && equal)
            found = i;
    }
    if (without)
        return found < 0 ? 0 : -1;
    return found;
}

/** May peers elsewhere use it as it stands? */
static bool is_address_usable(const struct sockaddr *address)
{
    if (address == NULL)
        return false;
    if (address->sa_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_addr.s_addr != htonl(INADDR_ANY);
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return !IN6_IS_ADDR_UNSPECIFIED(v6) && !IN6_IS_ADDR_LINKLOCAL(v6) && !IN6_IS_ADDR_MULTICAST(v6);
}

/** Lower is better; -1: not at all. */
static int rate_interface(const struct ifaddrs *at, const char *list, int family)
{
    int preference = wring_interface_match(list, at->ifa_name);
    if (preference < 0 || !is_address_usable(at->ifa_addr))
        return -1;
    if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_RUNNING) == 0)
        return -1;
    if ((at->ifa_flags & IFF_LOOPBACK) != 0 && *list == '^')
        return -1; /* it was not named, only not excluded */
    return 2 * preference + (at->ifa_addr->sa_family != family);
}

static void write_address(const struct sockaddr *address, char *text)
{
    const void *bytes = address->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    inet_ntop(address->sa_family, bytes, text, WRING_INTERFACE_ADDRESS);
}

const char *wring_interface_choose(const struct ifaddrs *all, const char *list, const char *like,
                                   char *text)
{
    int family = strchr(like, ':') != NULL ? AF_INET6 : AF_INET;
    const struct ifaddrs *best = NULL;
    int best_rating = 0;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        int rating = rate_interface(at, list, family);
        if (rating >= 0 && (best == NULL || rating < best_rating)) {
            best = at;
            best_rating = rating;
        }
    }
    if (best == NULL)
        return NULL;
    write_address(best->ifa_addr, text);
    return best->ifa_name;
}

/** List the interfaces to choose from, for the message. @param text out, [bytes] */
static void list_interfaces(const struct ifaddrs *all, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (; all != NULL && n < bytes; all = all->ifa_next) {
        char address[WRING_INTERFACE_ADDRESS];
        if (!is_address_usable(all->ifa_addr))
            continue;
        write_address(all->ifa_addr, address);
        n += (size_t)snprintf(text + n, bytes - n, "%s%s (%s%s)", n > 0 ? ", " : "", all->ifa_name,
                              address, (all->ifa_flags & IFF_RUNNING) != 0 ? "" : ", down");
    }
}

enum wring_status wring_interface_find_by(const struct wring_log *log, const char *variable,
                                          const char *list, const char *like, char *text)
{
    struct ifaddrs *all;
    char seen[SEEN_TEXT];
    const char *fault = wring_interface_list_fault(list);
    if (fault != NULL) {
        wring_error(log, "%s=%s: %s", variable, list, fault);
        return WRING_ERR_INVALID;
    }
    if (getifaddrs(&all) != 0) {
        wring_error(log, "cannot list the network interfaces: %s", WRING_REFUSED("getifaddrs"));
        return WRING_ERR_SYSTEM;
    }
    const char *name = wring_interface_choose(all, list, like, text);
    if (name != NULL) {
        wring_info(log, "%s=%s: %s, %s", variable, list, name, text);
    } else {
        list_interfaces(all, seen, sizeof(seen));
        wring_error(log,
                    "%s=%s: no such interface is up and has an address that others can "
                    "reach; there are %s",
                    variable, list, seen[0] != '\0' ? seen : "none");
    }
    freeifaddrs(all);
    return name != NULL ? WRING_OK : WRING_ERR_ADDRESS;
}

enum wring_status wring_interface_find(const struct wring_log *log, const char *list,
                                       const char *like, char *text)
{
    return wring_interface_find_by(log, "WRING_IFACE", list, like, text);
}

void wring_interface_name(const char *address, char *name, size_t bytes)
{
    struct in6_addr v6;
    char plain[WRING_INTERFACE_ADDRESS], own[WRING_INTERFACE_ADDRESS];
    struct ifaddrs *all;

    name[0] = '\0';
    snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(address, "%"), address);
    if (inet_pton(AF_INET6, plain, &v6) == 1) /* of the ways to write it, that of the list */
        inet_ntop(AF_INET6, &v6, plain, sizeof(plain));
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at != NULL && name[0] == '\0'; at = at->ifa_next) {
        if (at->ifa_addr == NULL ||
            (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
            continue;
        write_address(at->ifa_addr, own);
        if (strcmp(own, plain) == 0)
            snprintf(name, bytes, "%s", at->ifa_name);
    }
    freeifaddrs(all);
}

bool wring_interface_has(const char *address)
{
    char name[WRING_INTERFACE_ADDRESS];
    wring_interface_name(address, name, sizeof(name));
    return name[0] != '\0' || strncmp(address, "127.", 4) == 0;
}

void wring_interface_list(char *text, size_t bytes)
{
    struct ifaddrs *all;
    snprintf(text, bytes, "none");
    if (getifaddrs(&all) != 0)
        return;
    list_interfaces(all, text, bytes);
    freeifaddrs(all);
    if (text[0] == '\0')
        snprintf(text, bytes, "none");
}
