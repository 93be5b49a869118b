/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"

#define PAUSE_NS (100 * WRING_NS_PER_MS)
#define COMPLAINT_NS (10 * WRING_NS_PER_S) /* between two log lines */
#define SILENT_NS (20 * WRING_NS_PER_MS)   /* what a rank's first word may be behind its SYN */
#define ORIGINS 512

/** Errors of one connection, which ended before it was accepted: the next may be well. */
static bool was_gone(int error)
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

static void complain(struct wring_door *door, const struct wring_log *log, int error,
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
        if (!was_gone(errno)) {
            door->error = errno;
            complain(door, log, errno, needed);
            wring_door_pause(door);
            return WRING_DOOR_SHORT;
        }
    }
}

uint32_t wring_door_origin(const struct sockaddr_storage *from)
{
    const uint8_t *at = (const uint8_t *)&((const struct sockaddr_in6 *)from)->sin6_addr;
    size_t n = sizeof(struct in6_addr);
    uint32_t hash = 2166136261u;
    if (from->ss_family == AF_INET) {
        at = (const uint8_t *)&((const struct sockaddr_in *)from)->sin_addr;
        n = sizeof(struct in_addr);
    } else if (from->ss_family != AF_INET6) {
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 16777619u;
    return hash;
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
