/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Two ranks and one connection between them over a provider as it is: no channel, no credits. They
 * meet through a session of their own over tcp, or through that of a larger job, of which the other
 * ranks look on; it also notices when one of them dies.
 *
 * Used by one thread. Functions that fail have said why.
 */
#ifndef WRING_TOOLS_BENCH_PAIR_H
#define WRING_TOOLS_BENCH_PAIR_H

#include "base/config.h"
#include <wring/provider.h>
#include <wring/wring.h>

#define WRING_PAIR_AHEAD 256 /* puts that may have arrived and not been taken */
#define WRING_PAIR_LOOKS_ON 2

struct wring_bench_pair {
    const char *name; /* of the command, before messages */
    const struct wring_config *config;
    struct wring_log log;
    struct wring_session *session; /* for meeting, and for signs of life */
    bool owns_session;
    uint32_t rank; /* of the two: 0 or 1; WRING_PAIR_LOOKS_ON is neither */
    uint32_t peer; /* the other one, by the session's ranks */
    struct wring_provider *provider;
    const char *provider_name; /* of the one inside, where fault wraps it */
    struct wring_provider_caps caps;
    struct wring_conn *conn;
    struct wring_memory memory; /* of both ranks the same size */
    struct wring_region *region;
    struct wring_remote *remote;
    uint64_t sent, done;                    /* puts of ours: begun, and their source free again */
    uint64_t arrived, taken;                /* the peer's */
    size_t arrived_bytes[WRING_PAIR_AHEAD]; /* of each that was not taken */
    bool connected;
    enum wring_status status; /* why nothing works any more */
    uint64_t deadline_ns;     /* for the next thing to come */
    uint64_t idle_since_ns;   /* 0: something came */
};

struct wring_bench_pair_params {
    const char *name;
    const struct wring_config *config; /* borrowed for the pair's life; its fault wraps */
    const struct wring_provider_ops *provider;
    size_t memory_bytes;
    struct wring_session
        *session;      /* borrowed; all its ranks call. NULL: one of two ranks is made */
    uint32_t ranks[2]; /* the two, by the session's ranks; of a session that is made 0
                          and 1 */
};

/** Meet, connect, register memory and exchange its keys. Finish it in either case. */
enum wring_status wring_bench_pair_open(struct wring_bench_pair *pair,
                                        const struct wring_bench_pair_params *params);
void wring_bench_pair_finish(struct wring_bench_pair *pair);

/**
 * Begin a put from our memory into the peer's at the same or another offset; polls while the
 * provider has no room.
 */
enum wring_status wring_bench_pair_put(struct wring_bench_pair *pair, size_t offset,
                                       size_t remote_offset, size_t bytes);

/** Wait for the peer's next put, which must have so many bytes. */
enum wring_status wring_bench_pair_take(struct wring_bench_pair *pair, size_t bytes);

/** Wait until no more than `left` of our puts are under way. */
enum wring_status wring_bench_pair_drain(struct wring_bench_pair *pair, uint64_t left);

#endif
