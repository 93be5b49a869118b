/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parse.h"
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

static bool parse_ports(const char *text, struct wring_ports *out)
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
    if (parse_ports(text, out))
        return WRING_OK;
    wring_error(log, "WRING_PORTS=%s: needs first-last, ports from 1 to 65535, as 40000-40100",
                text);
    return WRING_ERR_INVALID;
}

static bool has_port(const char *endpoint, size_t length)
{
    return length == 0 || (memchr(endpoint, ':', length) != NULL && endpoint[length - 1] != ']');
}

/** Take the spaces around the commas out. */
static void trim_list(char *root)
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
    trim_list(root);
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

/* ---- door ---- */

#define PAUSE_NS (100 * WRING_NS_PER_MS)
#define COMPLAINT_NS (10 * WRING_NS_PER_S) /* between two log lines */
#define SILENT_NS (20 * WRING_NS_PER_MS)   /* what a rank's first word may be behind its SYN */
#define ORIGINS 512

/** Errors of one connection, which ended before it was accepted: the next may be well. */
static bool is_connection_error(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM ||
           error == ENETDOWN || error == ENOPROTOOPT || error == EHOSTDOWN || error == ENONET ||
           error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT;
}

void wring_door_shortage(int error, unsigned needed, char *text, unsigned long bytes)
{
    struct rlimit limit = {0, 0};
    char more[64] = "";
    if (needed > 0)
        snprintf(more, sizeof(more), "; at least %u are needed", needed);
    if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        snprintf(text, bytes, "%s: all %llu that this process may have are in use (ulimit -n)%s",
                 strerrordesc_np(error), (unsigned long long)limit.rlim_cur, more);
    else if (error == ENFILE)
        snprintf(text, bytes, "%s: this host has none left (sysctl fs.file-max)",
                 strerrordesc_np(error));
    else
        snprintf(text, bytes, "%s", strerrordesc_np(error));
}

void wring_door_pause(struct wring_door *door)
{
    door->retry_ns = wring_deadline_in(PAUSE_NS);
}

void wring_door_wait(struct wring_door *door)
{
    door->retry_ns = wring_deadline_in(SILENT_NS);
}

bool wring_door_is_open(struct wring_door *door, uint64_t now)
{
    if (now < door->retry_ns)
        return false;
    door->retry_ns = 0;
    return true;
}

static void warn_of_shortage(struct wring_door *door, const struct wring_log *log, int error,
                             unsigned needed)
{
    char text[192];
    uint64_t now = wring_now_ns();
    if (now < door->quiet_until_ns)
        return;
    door->quiet_until_ns = now + COMPLAINT_NS;
    wring_door_shortage(error, needed, text, sizeof(text));
    wring_log_line(log, WRING_LOG_WARN, door->module, "cannot accept a connection now: %s", text);
}

enum wring_door_answer wring_door_accept(struct wring_door *door, const struct wring_log *log,
                                         int listener, unsigned needed, int *fd,
                                         struct sockaddr_storage *from)
{
    for (;;) {
        socklen_t bytes = sizeof(*from);
        int got =
            WRING_DESCRIPTOR(accept4(listener, (struct sockaddr *)from,
                                     from != NULL ? &bytes : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (got >= 0) {
            *fd = got;
            return WRING_DOOR_ACCEPTED;
        }
        if (errno == EAGAIN)
            return WRING_DOOR_NOBODY;
        if (!is_connection_error(errno)) {
            door->error = errno;
            warn_of_shortage(door, log, errno, needed);
            wring_door_pause(door);
            return WRING_DOOR_SHORT;
        }
    }
}

uint32_t wring_door_origin(const struct sockaddr_storage *from)
{
    const uint8_t *at = (const uint8_t *)&((const struct sockaddr_in6 *)from)->sin6_addr;
    size_t n = sizeof(struct in6_addr);
    uint32_t hash = WRING_FNV32;
    if (from->ss_family == AF_INET) {
        at = (const uint8_t *)&((const struct sockaddr_in *)from)->sin_addr;
        n = sizeof(struct in_addr);
    } else if (from->ss_family != AF_INET6) {
        return 0;
    }
    return wring_fnv32(hash, at, n);
}

int wring_door_choose(const struct wring_door_guest *guests, unsigned n, uint64_t now,
                      uint64_t slow_ns)
{
    uint16_t crowd[ORIGINS] = {0};
    int silent = -1, slow = -1;

    for (unsigned i = 0; i < n; i++)
        crowd[guests[i].from % ORIGINS]++;
    for (unsigned i = 0; i < n; i++) {
        const struct wring_door_guest *guest = &guests[i];
        uint64_t age = now > guest->since_ns ? now - guest->since_ns : 0;
        if (guest->silent && age >= SILENT_NS) {
            unsigned many = crowd[guest->from % ORIGINS];
            unsigned most = silent >= 0 ? crowd[guests[silent].from % ORIGINS] : 0;
            if (many > most || (many == most && guest->since_ns < guests[silent].since_ns))
                silent = (int)i;
        }
        if (age >= slow_ns && (slow < 0 || guest->since_ns < guests[slow].since_ns))
            slow = (int)i;
    }
    return silent >= 0 ? silent : slow;
}
