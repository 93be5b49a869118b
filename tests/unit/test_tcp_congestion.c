/* SPDX-License-Identifier: Apache-2.0 */
/* Congestion control: when Reno takes another's place, and that a socket really gets it. */
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/tcp_socket.h"
#include "transport/providers/tcp/tcp.h"

#define TRIES 20

static void bbr_goes_where_peers_are_near(void)
{
    CHECK(wring_tcp_prefers_reno("bbr", false, 50), "50 us");
    CHECK(wring_tcp_prefers_reno("bbr2", false, 1000), "its next version, 1 ms");
    CHECK(!wring_tcp_prefers_reno("bbr", false, 1001), "beyond 1 ms");
    CHECK(!wring_tcp_prefers_reno("bbr", false, UINT32_MAX), "nobody knows how far");
}

static void others_stay(void)
{
    CHECK(!wring_tcp_prefers_reno("cubic", false, 50), "cubic");
    CHECK(!wring_tcp_prefers_reno("dctcp", false, 50), "dctcp");
    CHECK(!wring_tcp_prefers_reno("", false, 50), "unknown");
}

static void nothing_else_is_needed_on_one_host(void)
{
    CHECK(wring_tcp_prefers_reno("cubic", true, 50), "cubic");
    CHECK(wring_tcp_prefers_reno("bbr", true, UINT32_MAX), "bbr");
}

/** Both ends of a connection, the first one's congestion control being `control`. */
struct pair {
    int listener, ends[2];
};

static bool connect_between(struct pair *pair, const char *from, const char *to,
                            const char *control)
{
    struct sockaddr_in near = tcp_socket_address(from), far = tcp_socket_address(to);
    socklen_t bytes = sizeof(far);

    pair->listener = socket(AF_INET, SOCK_STREAM, 0);
    pair->ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    pair->ends[1] = -1;
    if (!tcp_socket_set_control(pair->ends[0], control))
        return false;
    if (bind(pair->listener, (struct sockaddr *)&far, sizeof(far)) != 0 ||
        listen(pair->listener, 1) != 0 ||
        getsockname(pair->listener, (struct sockaddr *)&far, &bytes) != 0 ||
        bind(pair->ends[0], (struct sockaddr *)&near, sizeof(near)) != 0 ||
        connect(pair->ends[0], (struct sockaddr *)&far, sizeof(far)) != 0)
        return false;
    pair->ends[1] = accept(pair->listener, NULL, NULL);
    return pair->ends[1] >= 0;
}

static void close_pair(struct pair *pair)
{
    close(pair->listener);
    close(pair->ends[0]);
    if (pair->ends[1] >= 0)
        close(pair->ends[1]);
}

/** How far apart the ends are a busy machine may judge wrongly: a connection that it holds up is
 * made again. */
static void check_becomes(const char *from, const char *to, const char *control, const char *want)
{
    char who[64];
    struct pair pair;

    for (int tries = 1;; tries++) {
        if (!connect_between(&pair, from, to, control)) {
            CHECK(strcmp(control, "reno") != 0, "no connection from %s to %s", from, to);
            printf("no %s here\n", control); /* a module that is not loaded, or not for everybody */
            break;
        }
        CHECK(wring_tcp_choose_congestion(pair.ends[0], control), "%s", control);
        if (tries < TRIES && !tcp_socket_has_control(pair.ends[0], want)) {
            close_pair(&pair);
            continue;
        }
        snprintf(who, sizeof(who), "%s from %s to %s", control, from, to);
        tcp_socket_check_control(pair.ends[0], want, who);
        break;
    }
    close_pair(&pair);
}

/** Two addresses of loopback are near, and by no means one. */
static void sockets_get_it(void)
{
    check_becomes("127.0.0.1", "127.0.0.1", "cubic", "reno");
    check_becomes("127.0.0.1", "127.0.0.1", "reno", "reno");
    check_becomes("127.0.0.1", "127.0.0.2", "bbr", "reno");
    check_becomes("127.0.0.1", "127.0.0.2", "cubic", "cubic");
    check_becomes("127.0.0.1", "127.0.0.2", "reno", "reno");
}

/** Who connects or listens has no BBR yet, nor has who is accepted: nobody is ever rid of it. */
static void nobody_begins_with_bbr(void)
{
    struct sockaddr_in address = tcp_socket_address("127.0.0.1");
    socklen_t bytes = sizeof(address);
    char system[TCP_CONTROL_NAME_BYTES];
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
    int other = -1;

    if (!tcp_socket_set_control(listener, "bbr") || !tcp_socket_set_control(one, "bbr")) {
        printf("no bbr here\n");
        goto close_both;
    }
    wring_tcp_begin_congestion(listener, system);
    CHECK(strcmp(system, "bbr") == 0, "the listener had %s", system);
    wring_tcp_begin_congestion(one, system);
    CHECK(strcmp(system, "bbr") == 0, "who connects had %s", system);
    CHECK(bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&address, &bytes) == 0 &&
              connect(one, (struct sockaddr *)&address, bytes) == 0 &&
              (other = accept(listener, NULL, NULL)) >= 0,
          "no connection");
    tcp_socket_check_control(one, "reno", "who connected");
    tcp_socket_check_control(other, "reno", "who was accepted");
    close(other);
close_both:
    close(listener);
    close(one);
}

static void others_begin_as_they_are(void)
{
    char system[TCP_CONTROL_NAME_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (tcp_socket_set_control(fd, "cubic")) {
        wring_tcp_begin_congestion(fd, system);
        CHECK(strcmp(system, "cubic") == 0, "it had %s", system);
        tcp_socket_check_control(fd, "cubic", "it");
    } else {
        printf("no cubic here\n");
    }
    close(fd);
}

static void buffers_only_grow(void)
{
    CHECK(wring_tcp_choose_buffer(212992, 4194304) == 0, "what Linux comes with");
    CHECK(wring_tcp_choose_buffer(2097152, 4194304) == 0, "just as many");
    CHECK(wring_tcp_choose_buffer(4194304, 4194304) == 4194304, "twice as many");
    CHECK(wring_tcp_choose_buffer(0, 0) == 0, "a system that does not say");
}

static void sockets_hold_what_the_way_does(void)
{
    const long linux_default = 4194304;

    CHECK(wring_tcp_choose_sockets(1e6, linux_default) == 1, "one is enough");
    CHECK(wring_tcp_choose_sockets(2.5e6, linux_default) == 2, "500 Mbit/s and 40 ms");
    CHECK(wring_tcp_choose_sockets(2.5e6, 425984) == TCP_SOCKETS_AUTO, "no more than some");
    CHECK(wring_tcp_choose_sockets(1e12, linux_default) == TCP_SOCKETS_AUTO, "no more than some");
    CHECK(wring_tcp_choose_sockets(1e12, 0) == 1, "a system that does not say");
    CHECK(wring_tcp_choose_sockets(0, linux_default) == 1, "no way at all");
}

static void rates_settle_once_the_way_was_full(void)
{
    const uint64_t ms = 1000000, per_s = 62500000; /* 500 Mbit/s; 40 ms hold 2.5 MB */

    CHECK(!wring_tcp_rate_is_settled(per_s, 40 * ms, 5000000), "twice the way: it begins");
    CHECK(!wring_tcp_rate_is_settled(per_s, 40 * ms, 19999999), "not yet");
    CHECK(wring_tcp_rate_is_settled(per_s, 40 * ms, 20000000), "eight times");
    CHECK(wring_tcp_rate_is_settled(per_s, 4 * ms, 2000000), "a shorter way");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"bbr goes where peers are near", bbr_goes_where_peers_are_near},
        {"others stay", others_stay},
        {"buffers only grow", buffers_only_grow},
        {"rates settle once the way was full", rates_settle_once_the_way_was_full},
        {"sockets hold what the way does", sockets_hold_what_the_way_does},
        {"nothing else is needed on one host", nothing_else_is_needed_on_one_host},
        {"sockets get it", sockets_get_it},
        {"nobody begins with bbr", nobody_begins_with_bbr},
        {"others begin as they are", others_begin_as_they_are},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
