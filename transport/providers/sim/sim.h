/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A simulation: a job of up to tens of thousands of ranks in one thread, over a network that is not
 * there. Each rank runs the program's own code on a stack of its own, and the library as it is:
 * sessions, control tree, algorithms, credits. Whenever a rank would sleep, the next one runs; once
 * all sleep, the clock goes on to the next event. So its times are those of the network alone:
 * computing takes none.
 *
 * It lives among the providers, and not in tests/, because it answers users' questions: how long
 * would a sum take on 4,096 nodes of such a network, and how many messages is that? That is `wring
 * bench scale`. The provider "sim" works within a simulation only.
 *
 * The network is flat. Each rank has one port, which takes `message_ns` and its bytes at `rate` for
 * each message, in each direction, one after the other; a message reaches the receiver's port
 * `latency_ns` later. It is cut through: a message alone takes
 *
 *     message_ns + latency_ns + bytes / rate
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_TRANSPORT_PROVIDERS_SIM_SIM_H
#define WRING_TRANSPORT_PROVIDERS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/bootstrap.h>
#include <wring/provider.h>

struct wring_sim;

struct wring_sim_params {
    uint32_t ranks;
    uint64_t latency_ns, message_ns;
    double bytes_per_ns; /* the rate */
    bool empty;          /* puts carry no bytes: times and counts are right, sums are not, and
                            ranks may share their memory */
    size_t stack_bytes;  /* of each rank; 0: 256 KiB */
};

/** What a rank has sent, or has been sent. */
struct wring_sim_counts {
    uint64_t puts, put_bytes, messages, message_bytes, connections;
};

/** Errors: WRING_ERR_NO_MEMORY, WRING_ERR_INVALID. */
enum wring_status wring_sim_create(const struct wring_sim_params *params, struct wring_sim **out);

/** NULL is fine. Providers are closed, ranks have ended. */
void wring_sim_destroy(struct wring_sim *sim);

/**
 * Run main() for each rank, until all have returned.
 * Errors: WRING_ERR_NO_MEMORY; WRING_ERR_TIMEOUT: ranks sleep that nothing can wake, *stuck is the
 * first of these. What they hold is lost.
 */
enum wring_status wring_sim_run(struct wring_sim *sim, void (*main)(void *arg, uint32_t rank),
                                void *arg, uint32_t *stuck);

/** Without ranks that run: this thread's time is the simulation's, until wring_sim_leave(), and
 * goes on with each poll of a provider that brings nothing. */
void wring_sim_enter(struct wring_sim *sim);
void wring_sim_leave(struct wring_sim *sim);

/** The one that this thread is in; NULL: none. */
struct wring_sim *wring_sim_here(void);

/** The rank that runs now. */
uint32_t wring_sim_rank(const struct wring_sim *sim);

uint64_t wring_sim_now_ns(const struct wring_sim *sim);

/** A rank ends without a word, as a process does that is killed: it does not run any more, and its
 *  connections end. Once all others have returned, it goes on, without a network, and returns. */
void wring_sim_kill(struct wring_sim *sim, uint32_t rank);

/** The running rank ends the simulation: wring_sim_run() returns WRING_OK, and what ranks hold is
 *  lost. */
void wring_sim_stop(struct wring_sim *sim);

/** The running rank sleeps until that time. */
void wring_sim_sleep_until(struct wring_sim *sim, uint64_t at_ns);

/** Rank `from` sends something past all providers, such as bytes of a socket of the program's own:
 *  arrived() is called when it is there, by no rank. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_sim_carry(struct wring_sim *sim, uint32_t from, uint32_t to, size_t bytes,
                                  void (*arrived)(void *arg), void *arg);

/** The running rank sleeps until then, or until it is roused or something came for it. */
void wring_sim_doze(struct wring_sim *sim, uint64_t until_ns);

/** A rank that sleeps looks again what has changed. */
void wring_sim_rouse(struct wring_sim *sim, uint32_t rank);

struct wring_sim_counts wring_sim_sent(const struct wring_sim *sim, uint32_t rank);
struct wring_sim_counts wring_sim_received(const struct wring_sim *sim, uint32_t rank);

/** Where a rank meets the others; the simulation's. What ranks tell each other there takes no time,
 *  and all of them share what is told. */
struct wring_bootstrap *wring_sim_bootstrap(struct wring_sim *sim, uint32_t rank);

#endif
