/* SPDX-License-Identifier: Apache-2.0 */
/** Between the command line of `wring bench sendrecv` and the measurement in each of its two ranks.
 */
#ifndef WRING_TOOLS_BENCH_SENDRECV_H
#define WRING_TOOLS_BENCH_SENDRECV_H

#include "tools/bench/bench.h"

struct wring_sendrecv_params {
    const char *name;     /* of the command, before messages */
    const char *provider; /* NULL: as configured */
    uint64_t bytes[WRING_BENCH_LIST_MAX];
    size_t n_bytes;
    double seconds; /* per size */
    bool foreign;   /* malloc'ed memory, which is not registered */
    bool json;
};

#define WRING_SENDRECV_TURNS_MAX 9 /* of the bandwidth */

struct wring_sendrecv_result {
    uint64_t bytes;
    struct wring_spread latency_us;    /* half a round trip of one message each way */
    double message_us;                 /* of each message of a stream, median of turns */
    uint64_t round_trips, in_a_stream; /* timed: of the latency, and messages in each turn */
    uint32_t window;                   /* messages under way */
};

/** Called in rank 0 for each size. */
typedef void (*wring_sendrecv_report_fn)(void *arg, const struct wring_sendrecv_result *result);

#endif
