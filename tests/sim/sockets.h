/* SPDX-License-Identifier: Apache-2.0 */
/**
 * TCP sockets of simulated ranks, in the place of the system's: what is linked with sockets.c, and
 * --wrap for each function that it has, runs over a simulation where a rank calls it. Nobody else's
 * sockets change. As much as wring's rendezvous needs: streams, no options, one address for all.
 */
#ifndef WRING_TESTS_SIM_SOCKETS_H
#define WRING_TESTS_SIM_SOCKETS_H

#include <stdint.h>

/** Sockets are open; the most that a rank had at a time. */
struct sim_sockets_counts {
    uint32_t open, most_of_rank_0, most_of_another;
    uint32_t dials; /* connections that were asked for, of all ranks */
};

struct sim_sockets_counts sim_sockets_counts(void);

/** Forget all, before another simulation. */
void sim_sockets_forget(uint32_t ranks);

#endif
