/* SPDX-License-Identifier: Apache-2.0 */
/** What a socket leads over, and what it gets for that: congestion control and buffers. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/interface.h"
#include "transport/providers/tcp/tcp.h"

/** Have both ends of a connection one address? */
static bool stays_on_host(int fd)
{
    struct sockaddr_storage ends[2];
    socklen_t bytes[2] = {sizeof(ends[0]), sizeof(ends[1])};
    uint8_t blobs[2][WRING_ADDRESS_MAX];

    if (getsockname(fd, (struct sockaddr *)&ends[0], &bytes[0]) != 0 ||
        getpeername(fd, (struct sockaddr *)&ends[1], &bytes[1]) != 0)
        return false;
    size_t n = wring_tcp_address_pack(&ends[0], blobs[0]);
    return wring_tcp_address_pack(&ends[1], blobs[1]) == n &&
           memcmp(blobs[0] + TCP_ADDRESS_AT, blobs[1] + TCP_ADDRESS_AT, n - TCP_ADDRESS_AT) == 0;
}

/* ---- control of congestion ---- */

/*
 * Which congestion control a connection gets.
 *
 * BBR finds out a path's rate and sends by timers. A step of a collective is over before it has:
 * its bytes come in bursts, of which each peer gets a share that changes all the time, so the rates
 * that it finds are anything from a tenth of the link's to a hundred times it, and a low one holds
 * bytes back for tens of milliseconds while the link is idle. And every 10 s it sends next to
 * nothing for 200 ms, to see how short the path can be. Measured over links of 1 Gbit/s that costs
 * 4 % of most steps and a quarter to a half of single ones, over 10 Gbit/s a third of all.
 *
 * Reno, which every kernel has, sends what acknowledgements make room for. Its weakness, that it
 * takes long to fill a long path again after a loss, is none where there and back takes less than
 * a millisecond. So it replaces BBR there; all else, and what is further away, stays as the system
 * has it, and all of it does with WRING_TCP_CONGESTION=system. On one host there is no link to
 * learn of, and Reno is taken whatever the system has.
 *
 * A socket that once had BBR is paced for good, whatever it has later: Linux has no way back from
 * sk_pacing_status SK_PACING_NEEDED (net/ipv4/tcp_bbr.c). Then Reno too sends by timers, and the
 * more often the smaller its window is, which a connection's past decides: one that had carried
 * much cost 4 to 8 % more of the kernel's time at 10 Gbit/s than a new one beside it. How far a
 * peer is shows only once it is connected; so sockets begin with Reno, and get BBR back where it is
 * due.
 */

#define FAR_UNSENT_BYTES (2 << 20)

static const char reno[] = "reno";

static bool is_paced(const char *control)
{
    return strncmp(control, "bbr", strlen("bbr")) == 0;
}

bool wring_tcp_prefers_reno(const char *system, bool same_host, uint32_t rtt_us)
{
    return same_host || (is_paced(system) && rtt_us <= TCP_NEAR_US);
}

/** @return false where the kernel does not say */
static bool get_congestion(int fd, char control[TCP_CONTROL_NAME_BYTES])
{
    socklen_t bytes = TCP_CONTROL_NAME_BYTES - 1;
    memset(control, 0, TCP_CONTROL_NAME_BYTES);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &bytes) == 0;
}

static bool set_congestion(int fd, const char *control)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) == 0;
}

void wring_tcp_begin_congestion(int fd, char system[TCP_CONTROL_NAME_BYTES])
{
    if (get_congestion(fd, system) && is_paced(system))
        set_congestion(fd, reno);
}

/** The shortest way there and back so far; UINT32_MAX where the kernel does not say. */
static uint32_t shortest_rtt_us(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof(info.tcpi_min_rtt))
        return UINT32_MAX;
    return info.tcpi_min_rtt;
}

/** Bytes per second that the interface of a socket can send; 0: nobody knows. */
static uint64_t interface_speed(int fd)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof(own);
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (char *)&command};
    char address[64];

    if (getsockname(fd, (struct sockaddr *)&own, &bytes) != 0)
        return 0;
    wring_tcp_address_host(&own, address, sizeof(address));
    wring_interface_name(address, request.ifr_name, sizeof(request.ifr_name));
    if (request.ifr_name[0] == '\0' || ioctl(fd, SIOCETHTOOL, &request) != 0)
        return 0;
    uint32_t mbit = ethtool_cmd_speed(&command);
    return mbit == (uint32_t)SPEED_UNKNOWN ? 0 : (uint64_t)mbit * 125000;
}

struct wring_path wring_tcp_path(int fd)
{
    struct wring_path path = {0};
    uint32_t us = shortest_rtt_us(fd);

    if (stays_on_host(fd) || us == UINT32_MAX)
        return path;
    path.round_trip_ns = us * (uint64_t)WRING_NS_PER_US;
    if (us > TCP_NEAR_US) /* nobody asks how fast what is near can be */
        path.bytes_per_s = interface_speed(fd);
    return path;
}

bool wring_tcp_choose_congestion(int fd, const char *system)
{
    char has[TCP_CONTROL_NAME_BYTES];
    if (!get_congestion(fd, has))
        return true;
    /* left to begin by itself, it may have what its route gives, and not what others have */
    const char *due = is_paced(system) ? system : has;
    bool near = wring_tcp_prefers_reno(due, stays_on_host(fd), shortest_rtt_us(fd));
    const char *wanted = near ? reno : due;

    return strcmp(has, wanted) == 0 || set_congestion(fd, wanted);
}

#define WMEM_MAX "/proc/sys/net/core/wmem_max"
#define TCP_WMEM "/proc/sys/net/ipv4/tcp_wmem"
#define TCP_RMEM "/proc/sys/net/ipv4/tcp_rmem"

/** The last number in a file of the system's; 0: it has none. */
static long read_last_number(const char *path)
{
    FILE *file = fopen(path, "re");
    long number, last = 0;

    while (file != NULL && fscanf(file, "%ld", &number) == 1)
        last = number;
    if (file != NULL)
        fclose(file);
    return last;
}

long wring_tcp_choose_buffer(long wmem_max, long tcp_wmem_max)
{
    return 2 * wmem_max > tcp_wmem_max ? wmem_max : 0;
}

long wring_tcp_socket_bytes(void)
{
    long sent = read_last_number(TCP_WMEM), chosen, received = read_last_number(TCP_RMEM);

    chosen = 2 * wring_tcp_choose_buffer(read_last_number(WMEM_MAX), sent);
    if (chosen > sent)
        sent = chosen;
    return received < sent ? received : sent;
}

/** A long way holds more than a near peer's buffers. Bytes that the way does not take yet stay out
 *  of them, where more urgent ones can pass. */
static void widen_buffer(struct tcp_conn *conn)
{
    int bytes =
        (int)wring_tcp_choose_buffer(read_last_number(WMEM_MAX), read_last_number(TCP_WMEM));
    int unsent = FAR_UNSENT_BYTES;

    if (conn->base.path.round_trip_ns <= TCP_NEAR_US * WRING_NS_PER_US || bytes == 0)
        return;
    if (setsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) != 0 ||
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent)) != 0)
        wring_warn(tcp_of(conn)->log, "peer %s: cannot widen the buffer: %s", conn->peer,
                   strerrordesc_np(errno));
}

static void choose_congestion(struct tcp_conn *conn)
{
    const struct tcp_provider *provider = tcp_of(conn);
    if (!provider->keeps_congestion &&
        !wring_tcp_choose_congestion(conn->fd, provider->system_congestion))
        wring_warn(provider->log, "peer %s: cannot have congestion control %s: %s", conn->peer,
                   provider->system_congestion, strerrordesc_np(errno));
}

void wring_tcp_fit_to_path(struct tcp_conn *conn)
{
    choose_congestion(conn);
    conn->base.path = wring_tcp_path(conn->fd);
    widen_buffer(conn);
}

/* ---- how long the way is ---- */

#define MEASURES 3 /* the first packet may have to wait for a neighbour's address */

/** Has it connected by then? */
static bool await_connected(int fd, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    struct pollfd pollfd = {fd, POLLOUT, 0};
    int n;

    do {
        uint64_t now_ns = wring_now_ns();
        uint64_t left_ns = now_ns < deadline_ns ? deadline_ns - now_ns : 0;
        n = poll(&pollfd, 1, (int)(left_ns / WRING_NS_PER_MS));
    } while (n < 0 && errno == EINTR);
    return n == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
}

/** @return as wring_tcp_measure_way() */
static uint64_t measure_once(const struct sockaddr_storage *to, socklen_t bytes,
                             uint64_t deadline_ns)
{
    uint64_t round_trip_ns = UINT64_MAX;
    int fd = WRING_DESCRIPTOR(socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

    if (fd < 0)
        return round_trip_ns;
    if ((connect(fd, (const struct sockaddr *)to, bytes) == 0 || errno == EINPROGRESS) &&
        await_connected(fd, deadline_ns)) {
        uint32_t us = shortest_rtt_us(fd);
        if (stays_on_host(fd))
            round_trip_ns = 0;
        else if (us != UINT32_MAX)
            round_trip_ns = us * (uint64_t)WRING_NS_PER_US;
    }
    wring_descriptor_close(fd);
    return round_trip_ns;
}

uint64_t wring_tcp_measure_way(const void *address, size_t bytes, uint64_t deadline_ns)
{
    struct sockaddr_storage to;
    socklen_t to_bytes;
    uint64_t least = UINT64_MAX;

    if (wring_tcp_address_unpack(address, bytes, &to, &to_bytes) != WRING_OK)
        return least;
    for (int i = 0; i < MEASURES; i++) {
        uint64_t one = measure_once(&to, to_bytes, deadline_ns);
        least = one < least ? one : least;
    }
    return least;
}

/* ---- what the way takes ---- */

bool wring_tcp_rate_is_settled(uint64_t bytes_per_s, uint64_t round_trip_ns, uint64_t sent_bytes)
{
    double way = (double)bytes_per_s * (double)round_trip_ns / WRING_NS_PER_S;
    return (double)sent_bytes >= 8 * way;
}

/** The kernel's measure, where the socket always had more to send; else 0. */
static uint64_t delivery_rate(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof(info.tcpi_delivery_rate))
        return 0;
    return info.tcpi_delivery_rate_app_limited ? 0 : info.tcpi_delivery_rate;
}

/** What all sockets of a connection take together; 0: one of them is not measured yet. */
static uint64_t rate_of_all(const struct tcp_conn *front)
{
    uint64_t rate = front->taken_per_s;

    for (unsigned i = 1; front->bundle != NULL && i < front->bundle->n; i++) {
        uint64_t one = front->bundle->sockets[i]->taken_per_s;
        rate = rate > 0 && one > 0 ? rate + one : 0;
    }
    return rate;
}

void wring_tcp_note_sent(struct tcp_conn *conn, size_t n)
{
    struct tcp_conn *front = tcp_front(conn);

    conn->sent_bytes += n;
    if (conn->sent_bytes - conn->measured_at < TCP_MEASURE_BYTES)
        return;
    conn->measured_at = conn->sent_bytes;
    uint64_t rate = delivery_rate(conn->fd);
    if (rate <= conn->taken_per_s ||
        !wring_tcp_rate_is_settled(rate, conn->base.path.round_trip_ns, conn->sent_bytes))
        return;
    conn->taken_per_s = rate;
    __atomic_store_n(&front->base.taken_per_s, rate_of_all(front), __ATOMIC_RELAXED);
}
