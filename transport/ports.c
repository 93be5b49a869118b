/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/list.h"
#include "base/log.h"
#include "base/refusal.h"
#include "transport/interface.h"

#define WRING_MODULE "ports"

static bool parse_port(const char *text, const char **end, uint16_t *out)
{
    char *after;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long port = strtoul(text, &after, 10);
    *end = after;
    *out = (uint16_t)port;
    return port >= 1 && port <= UINT16_MAX;
}

static bool parse(const char *text, struct wring_ports *out)
{
    *out = (struct wring_ports){0, 0};
    if (*text == '\0')
        return true;
    if (!parse_port(text, &text, &out->first))
        return false;
    out->last = out->first;
    if (*text == '-' && !parse_port(text + 1, &text, &out->last))
        return false;
    return *text == '\0' && out->first <= out->last;
}

enum wring_status wring_ports_read(const struct wring_log *log, const char *text,
                                   struct wring_ports *out)
{
    if (parse(text, out))
        return WRING_OK;
    wring_error(log, "WRING_PORTS=%s: needs first-last, ports from 1 to 65535, as 40000-40100",
                text);
    return WRING_ERR_INVALID;
}

static bool has_port(const char *place, size_t length)
{
    return length == 0 || (memchr(place, ':', length) != NULL && place[length - 1] != ']');
}

/** Take the spaces around the commas out. */
static void trim(char *root)
{
    const char *rest = root;
    struct wring_list_item item;
    size_t used = 0;
    while (wring_list_next(&rest, &item)) {
        memmove(root + used, item.text, item.length);
        used += item.length;
        if (rest != NULL)
            root[used++] = ','; /* where it was, or before */
    }
    root[used] = '\0';
}

void wring_ports_complete(const struct wring_ports *ports, char *root, size_t bytes)
{
    char port[8];
    trim(root);
    snprintf(port, sizeof(port), ":%u", ports->first);
    for (char *at = root; ports->first != 0 && *at != '\0';) {
        size_t length = strcspn(at, ","), n = strlen(port);
        size_t rest = strlen(at + length) + 1;
        if (!has_port(at, length) && (size_t)(at - root) + length + n + rest <= bytes) {
            memmove(at + length + n, at + length, rest);
            memcpy(at + length, port, n);
            length += n;
        }
        at += length + (at[length] == ',');
    }
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
}

/** @param call  out: the one that failed. @return the socket, or -1 and errno */
static int listen_at(const struct sockaddr_storage *address, socklen_t bytes, int backlog,
                     bool chosen, const char **call)
{
    int on = 1, off = 0;
    int fd =
        WRING_DESCRIPTOR(socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    *call = "socket";
    if (fd < 0)
        return -1;
    /* a chosen port serves again while connections of an earlier job linger */
    if (chosen)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->ss_family == AF_INET6) /* all addresses are both families', whatever the default */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    *call = "bind";
    if (bind(fd, (const struct sockaddr *)address, bytes) == 0) {
        *call = "listen";
        if (listen(fd, backlog) == 0)
            return fd;
    }
    wring_descriptor_close(fd);
    return -1;
}

int wring_ports_listen(const struct wring_ports *ports, struct sockaddr_storage *address,
                       socklen_t address_bytes, int backlog, char *why, size_t bytes)
{
    const char *call = "bind";
    int fd = -1;
    errno = EADDRINUSE;
    for (uint32_t port = ports->first; fd < 0 && errno == EADDRINUSE && port <= ports->last;
         port++) {
        set_port(address, (uint16_t)port);
        fd = listen_at(address, address_bytes, backlog, port != 0, &call);
    }
    if (fd < 0 && errno == EADDRINUSE && ports->first != 0)
        snprintf(why, bytes,
                 "all ports from %u to %u are in use: widen WRING_PORTS, every rank of a host "
                 "takes two or more",
                 ports->first, ports->last);
    else if (fd < 0 && errno == EADDRNOTAVAIL) {
        char have[160];
        wring_interface_list(have, sizeof(have));
        snprintf(why, bytes, "no interface of this host has that address; there are %s", have);
    } else if (fd < 0)
        wring_refusal(why, bytes, call, errno);
    return fd;
}
