/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Congestion control of connections whose two ends are more than a millisecond apart.
 *
 * The way is a tun device in a network namespace of our own. What is sent to FAR comes out of it,
 * and goes in again some time later with its two addresses exchanged, which leaves the checksums
 * right: who connects to FAR reaches a listener here, and each takes the other for somebody far
 * away.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/tcp_socket.h"
#include "transport/providers/tcp/tcp.h"

#define HERE "10.88.0.1"
#define FAR "10.88.0.2"
#define DELAY_NS (2 * WRING_NS_PER_MS)

/** One packet after the other: those of a handshake, which hardly ever meet. */
static void *carry(void *arg)
{
    int tun = *(const int *)arg;
    _Alignas(struct iphdr) char packet[2048];
    struct iphdr *ip = (struct iphdr *)packet;
    ssize_t n;

    while ((n = read(tun, packet, sizeof(packet))) > 0) {
        if (n < (ssize_t)sizeof(*ip) || ip->version != 4)
            continue; /* the kernel's own words in IPv6 */
        wring_sleep_until(wring_now_ns() + DELAY_NS);
        uint32_t from = ip->saddr;
        ip->saddr = ip->daddr;
        ip->daddr = from;
        if (write(tun, packet, (size_t)n) != n)
            break;
    }
    return NULL;
}

static bool set_interface(int fd, struct ifreq *interface)
{
    struct sockaddr_in here = tcp_socket_address(HERE), mask = tcp_socket_address("255.255.255.0");

    memcpy(&interface->ifr_addr, &here, sizeof(here));
    if (ioctl(fd, SIOCSIFADDR, interface) != 0)
        return false;
    memcpy(&interface->ifr_netmask, &mask, sizeof(mask));
    if (ioctl(fd, SIOCSIFNETMASK, interface) != 0)
        return false;
    interface->ifr_flags = IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, interface) == 0;
}

/** The device, up, with HERE as its address. @return -1 with errno */
static int make_path(void)
{
    struct ifreq interface = {.ifr_name = "far", .ifr_flags = IFF_TUN | IFF_NO_PI};
    int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool made = tun >= 0 && ioctl(tun, TUNSETIFF, &interface) == 0 && set_interface(fd, &interface);
    int error = errno;

    close(fd);
    if (!made && tun >= 0)
        close(tun);
    errno = error;
    return made ? tun : -1;
}

/** Listener and both ends of a connection over the way. */
struct far_pair {
    int listener, connected, accepted;
    char before[TCP_CONTROL_NAME_BYTES]; /* what both had before wring saw them */
};

static void close_pair(const struct far_pair *pair)
{
    close(pair->listener);
    close(pair->connected);
    if (pair->accepted >= 0)
        close(pair->accepted);
}

/** Connect as the provider does, with sockets that have `control`. @return false: it is not known
 * here */
static bool connect_far(struct far_pair *pair, const char *control)
{
    struct sockaddr_in here = tcp_socket_address(HERE), far = tcp_socket_address(FAR);
    socklen_t bytes = sizeof(here);

    pair->listener = socket(AF_INET, SOCK_STREAM, 0);
    pair->connected = socket(AF_INET, SOCK_STREAM, 0);
    pair->accepted = -1;
    if (!tcp_socket_set_control(pair->listener, control) ||
        !tcp_socket_set_control(pair->connected, control)) {
        printf("no %s here\n", control); /* a module that is not loaded, or not for everybody */
        close_pair(pair);
        return false;
    }
    wring_tcp_begin_congestion(pair->listener, pair->before);
    wring_tcp_begin_congestion(pair->connected, pair->before);
    if (bind(pair->listener, (struct sockaddr *)&here, bytes) == 0 &&
        listen(pair->listener, 1) == 0 &&
        getsockname(pair->listener, (struct sockaddr *)&here, &bytes) == 0) {
        far.sin_port = here.sin_port;
        if (connect(pair->connected, (struct sockaddr *)&far, sizeof(far)) == 0)
            pair->accepted = accept(pair->listener, NULL, NULL);
    }
    CHECK(pair->accepted >= 0, "no connection: %s", strerror(errno));
    return true;
}

static void check_both(const struct far_pair *pair, const char *want)
{
    CHECK(wring_tcp_choose_congestion(pair->connected, pair->before), "connected");
    CHECK(wring_tcp_choose_congestion(pair->accepted, pair->before), "accepted");
    tcp_socket_check_control(pair->connected, want, "who connected");
    tcp_socket_check_control(pair->accepted, want, "who was accepted");
}

static void bbr_comes_back(void)
{
    struct far_pair pair;
    if (!connect_far(&pair, "bbr"))
        return;
    tcp_socket_check_control(pair.connected, "reno", "who connected, at first,");
    tcp_socket_check_control(pair.accepted, "reno", "who was accepted, at first,");
    check_both(&pair, "bbr");
    close_pair(&pair);
}

static void others_stay(void)
{
    static const char *const controls[] = {"reno", "cubic"};
    for (size_t i = 0; i < 2; i++) {
        struct far_pair pair;
        if (!connect_far(&pair, controls[i]))
            continue;
        check_both(&pair, controls[i]);
        close_pair(&pair);
    }
}

/** As a route may give it: another one than sockets have before they connect. */
static void what_came_with_the_connection_stays(void)
{
    struct far_pair pair;
    if (!connect_far(&pair, "cubic"))
        return;
    CHECK(tcp_socket_set_control(pair.connected, "reno") &&
              tcp_socket_set_control(pair.accepted, "reno"),
          "no reno");
    check_both(&pair, "reno");
    close_pair(&pair);
}

static void what_cannot_be_had_is_said(void)
{
    struct far_pair pair;
    if (!connect_far(&pair, "reno"))
        return;
    CHECK(!wring_tcp_choose_congestion(pair.connected, "bbr of old"), "taken as it is");
    tcp_socket_check_control(pair.connected, "reno", "it");
    close_pair(&pair);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"bbr comes back", bbr_comes_back},
        {"others stay", others_stay},
        {"what came with the connection stays", what_came_with_the_connection_stays},
        {"what cannot be had is said", what_cannot_be_had_is_said},
        {0},
    };
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        wring_test_skip("no network namespace here: %s", strerror(errno));
    static int tun;
    tun = make_path();
    if (tun < 0)
        wring_test_skip("no tun device here: %s", strerror(errno));
    pthread_t carrier;
    if (pthread_create(&carrier, NULL, carry, &tun) != 0)
        wring_test_skip("no thread");
    pthread_detach(carrier);
    return wring_test_main(argc, argv, cases);
}
