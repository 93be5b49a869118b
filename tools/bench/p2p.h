/* SPDX-License-Identifier: Apache-2.0 */
/** Between the command line of `wring bench p2p` and the measurement in each of its two ranks. */
#ifndef WRING_TOOLS_BENCH_P2P_H
#define WRING_TOOLS_BENCH_P2P_H

#include "tools/bench/bench.h"
#include "tools/bench/pair.h"
#include "transport/providers/verbs/devices.h"
#include <wring/provider.h>

struct wring_p2p_params {
    const char *name; /* of the command, before messages */
    const struct wring_config *config;
    const struct wring_provider_ops *provider;
    uint64_t bytes[WRING_BENCH_LIST_MAX];
    size_t n_bytes;
    double seconds;                /* per size */
    struct wring_session *session; /* of a job whose ranks all call, of which these two do it.
                                      NULL: they have one of their own */
    uint32_t ranks[2];
};

#define WRING_P2P_TURNS_MAX 9 /* of the bandwidth */

struct wring_p2p_result {
    uint64_t bytes;
    struct wring_spread latency_us; /* half a round trip of one put each way */
    double bandwidth_gb_per_s;      /* one way, median of turns */
    uint64_t round_trips, puts;     /* timed: of the latency, and in each turn of the bandwidth */
    uint32_t window;                /* puts under way */
    double *trips_us; /* [round_trips] all of the latency, sorted; borrowed for the call */
    unsigned turns;
    double put_us[WRING_P2P_TURNS_MAX]; /* [turns] what each put of a turn took */
    bool has_work;                      /* where the provider is verbs: */
    struct wring_verbs_counters work;   /* what rank 0 did in all turns of the bandwidth */
};

/** Called in rank 0 for each size. */
typedef void (*wring_p2p_report_fn)(void *arg, const struct wring_p2p_result *result);

/** Be one of the two ranks, or one that looks on. @return an exit status; failures are said */
int wring_p2p_rank(const struct wring_p2p_params *params, wring_p2p_report_fn report, void *arg);

/*
 * What two ranks of `wring bench p2p` do together: slots of payload that are put, taken and looked
 * at, in round trips and in streams. All of it is called by both ranks alike.
 *
 * Memory, of both: a number to agree on, ours and the other's, a line each; a slot for each put of
 * a window to send from; as many to receive into.
 */

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

#endif
