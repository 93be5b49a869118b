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
 */
#include "transport/providers/tcp/tcp.h"

#include <linux/tcp.h>
#include <string.h>

#define NEAR_US 1000
#define NAME_BYTES 16 /* the longest that Linux knows, and its end */

bool wring_tcp_prefers_reno(const char *system, bool same_host, uint32_t rtt_us)
{
    bool paced = strncmp(system, "bbr", strlen("bbr")) == 0;
    return same_host || (paced && rtt_us <= NEAR_US);
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

void wring_tcp_choose_congestion(int fd)
{
    static const char reno[] = "reno";
    char system[NAME_BYTES] = "";
    socklen_t bytes = sizeof(system) - 1;

    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, system, &bytes) != 0)
        return;
    if (wring_tcp_prefers_reno(system, wring_tcp_stays_on_host(fd), shortest_rtt_us(fd)))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1); /* else as it is */
}
