/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 of a launched job listens for both families where the system's default is IPv6 alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/made_exchange.h"

static uint16_t port_of(int fd)
{
    struct sockaddr_in6 own = {0}; /* the port is where v4 has it */
    socklen_t bytes = sizeof(own);
    return getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 ? ntohs(own.sin6_port) : 0;
}

/** @return 0, or the errno that dialling gave */
static int dial(int family, uint16_t port)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = family == AF_INET ? connect(fd, (struct sockaddr *)&v4, sizeof(v4))
                                   : connect(fd, (struct sockaddr *)&v6, sizeof(v6));
    int error = failed != 0 ? errno : 0;
    close(fd);
    return error;
}

static void check_both_families(const char *const *settings)
{
    static struct made_exchange made;
    struct wring_launcher_meeting meeting;
    made_exchange_init(&made, settings);
    enum wring_status status = made_exchange_meet(&made, 0, &meeting);
    REQUIRE(status == WRING_OK, "%s: %s", wring_status_text(status), made.lines.text);
    uint16_t port = port_of(meeting.root_fd);
    CHECK(dial(AF_INET, port) == 0, "at %s IPv4: %s", meeting.root, strerror(dial(AF_INET, port)));
    CHECK(dial(AF_INET6, port) == 0, "at %s IPv6: %s", meeting.root,
          strerror(dial(AF_INET6, port)));
    close(meeting.root_fd);
}

static void everywhere_is_both_families(void)
{
    check_both_families((const char *const[]){NULL});
    check_both_families((const char *const[]){"WRING_PORTS=23000-23010", NULL});
}

/** IPv6 sockets of this network namespace are for IPv6 alone, unless they say otherwise. */
static const char *set_up(void)
{
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return "no network namespace here";
    int setting = open("/proc/sys/net/ipv6/bindv6only", O_WRONLY | O_CLOEXEC);
    if (setting < 0 || write(setting, "1", 1) != 1)
        return "bindv6only cannot be set here";
    close(setting);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) != 0)
        return "the loopback device cannot be set up here";
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"everywhere is both families", everywhere_is_both_families},
        {0},
    };
    const char *why = set_up();
    if (why != NULL)
        wring_test_skip("%s: %s", why, strerror(errno));
    return wring_test_main(argc, argv, cases);
}
