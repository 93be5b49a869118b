/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What two ranks of `wring bench p2p` do together: slots of payload that are put, taken and looked
 * at, in round trips and in streams. All of it is called by both ranks alike.
 *
 * Memory, of both: a number to agree on, ours and the other's, a line each; a slot for each put of
 * a window to send from; as many to receive into.
 */
#ifndef WRING_TOOLS_BENCH_P2P_MOVES_H
#define WRING_TOOLS_BENCH_P2P_MOVES_H

#include "tools/bench/bench_p2p.h"
#include "tools/bench/bench_pair.h"

#define WRING_P2P_LINE 64u
#define WRING_P2P_SLOTS_AT (2 * WRING_P2P_LINE)

struct wring_p2p {
    const struct wring_p2p_params *params;
    struct wring_bench_pair pair;
    double *times; /* in us; room for all that is timed of a size */

    /* of the size at hand */
    size_t bytes, stride;
    uint32_t window;
};

/** Half of the slots: enough for the window of each size, whatever the provider's depth. */
size_t wring_p2p_half_bytes(const struct wring_p2p_params *params);

/** Write what this rank will send, and spoil what it will receive. */
void wring_p2p_prepare(struct wring_p2p *p2p, size_t bytes);

/** Rank 0's number for both, sent with its complement; both are here when this returns. */
enum wring_status wring_p2p_agree(struct wring_p2p *p2p, uint64_t *number);

/** Round trips, one after the other. @param times out, [n], half of each in us; of rank 0 */
enum wring_status wring_p2p_time_trips(struct wring_p2p *p2p, uint64_t n, double *times);

/** n puts of rank 0's, a window of them under way. @param ns out, of rank 0, until the last was
 * seen */
enum wring_status wring_p2p_time_stream(struct wring_p2p *p2p, uint64_t n, double *ns);

/** Look at all that the first n slots have received, but for the stamps. */
enum wring_status wring_p2p_check(struct wring_p2p *p2p, uint64_t n);

/** Say what is wrong with a put. @return WRING_ERR_FRAME, also from now on */
enum wring_status wring_p2p_complain(struct wring_p2p *p2p, const char *what);

#endif
