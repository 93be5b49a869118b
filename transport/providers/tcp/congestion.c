/* SPDX-License-Identifier: Apache-2.0 */
/**
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
#include <linux/tcp.h>
#include <string.h>

#include "transport/providers/tcp/tcp.h"

#define NEAR_US 1000

static const char reno[] = "reno";

static bool is_paced(const char *control)
{
    return strncmp(control, "bbr", strlen("bbr")) == 0;
}

bool wring_tcp_prefers_reno(const char *system, bool same_host, uint32_t rtt_us)
{
    return same_host || (is_paced(system) && rtt_us <= NEAR_US);
}

/** @return false where the kernel does not say */
static bool get_control(int fd, char control[TCP_CONTROL_NAME_BYTES])
{
    socklen_t bytes = TCP_CONTROL_NAME_BYTES - 1;
    memset(control, 0, TCP_CONTROL_NAME_BYTES);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &bytes) == 0;
}

static bool set_control(int fd, const char *control)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) == 0;
}

void wring_tcp_begin_congestion(int fd, char system[TCP_CONTROL_NAME_BYTES])
{
    if (get_control(fd, system) && is_paced(system))
        set_control(fd, reno);
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

bool wring_tcp_choose_congestion(int fd, const char *system)
{
    char has[TCP_CONTROL_NAME_BYTES];
    if (!get_control(fd, has))
        return true;
    /* left to begin by itself, it may have what its route gives, and not what others have */
    const char *due = is_paced(system) ? system : has;
    bool near = wring_tcp_prefers_reno(due, wring_tcp_stays_on_host(fd), shortest_rtt_us(fd));
    const char *wanted = near ? reno : due;

    return strcmp(has, wanted) == 0 || set_control(fd, wanted);
}
