/* SPDX-License-Identifier: Apache-2.0 */
/**
 * fault: a provider around another one that makes its network worse, by schedule.
 *
 *     rate=1gbit           each way, shared by all connections of this provider: a slow link
 *     delay=2ms            what arrives is seen that much later
 *     jitter=1ms           and by chance up to so much more; a connection's order stays
 *     corrupt=1e-4         chance that a put or a message has one byte changed
 *     disconnect=1e-5      chance that a put cuts its connection instead of leaving
 *     disconnect=after:N   cut instead of put number N + 1; after:64mb counts bytes
 *     seed=7               which puts are hit, 0 if not given
 *     rank=2               all this on that rank only
 *
 * Rates are bit, kbit, mbit or gbit per second, sizes b, kb, mb or gb, in powers of 1000 as
 * networks count; times are us, ms or s. The link is full duplex. A put leaves when its last byte
 * would have left; it arrives when the receiver's link has had time for it, cut through: an idle
 * link adds nothing of its own. Headers and control messages are free of the rate, not of the
 * delay. A put whose connection takes no more waits beside the link and holds up no other
 * connection's.
 *
 * Each provider of a rank numbers the puts and messages that it lets go. Which are hit, and by how
 * much the arrivals are late, follows from seed, rank and number alone.
 *
 * A byte is changed below what protects the wire where the provider can do that (tcp), else in a
 * copy of the payload before the provider gets it (shm).
 */
#ifndef WRING_FAULT_H
#define WRING_FAULT_H

#include <wring/provider.h>

struct wring_fault_schedule {
    double ns_per_byte; /* 0: as fast as the inner provider */
    uint64_t delay_ns, jitter_ns;
    double corrupt, disconnect;       /* chances */
    uint64_t after_puts, after_bytes; /* 0: no */
    uint64_t seed;
    int64_t rank; /* -1: all */
};

/** Kinds of draws. */
enum wring_fault_draw {
    WRING_FAULT_JITTER,
    WRING_FAULT_SPOIL_PUT,
    WRING_FAULT_SPOIL_MESSAGE,
    WRING_FAULT_POSITION, /* which byte, and what becomes of it */
    WRING_FAULT_CUT,
};

/** Parse a schedule. @param why out, [bytes], what is wrong, when it returns false */
bool wring_fault_parse(const char *text, struct wring_fault_schedule *out, char *why, size_t bytes);

/** What becomes of a way by a schedule that both its ends have. */
struct wring_path wring_fault_path(const struct wring_fault_schedule *schedule,
                                   struct wring_path path);

/** The 64 random bits of draw number n of a kind. */
uint64_t wring_fault_random(const struct wring_fault_schedule *schedule, uint32_t rank,
                            enum wring_fault_draw kind, uint64_t n);

/** Does draw number n hit, at this chance? */
bool wring_fault_hits(const struct wring_fault_schedule *schedule, double chance, uint32_t rank,
                      enum wring_fault_draw kind, uint64_t n);

/**
 * Wrap a provider, which is owned by the wrapper from then on.
 * Errors: WRING_ERR_INVALID (the schedule), WRING_ERR_UNSUPPORTED (corrupt= over a provider that
 * can do neither of the above), WRING_ERR_SYSTEM, all logged; WRING_ERR_NO_MEMORY. Inner is
 * untouched then.
 */
enum wring_status wring_fault_wrap(const char *schedule, const struct wring_provider_params *params,
                                   struct wring_provider *inner, struct wring_provider **out);

#endif
