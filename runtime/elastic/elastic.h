/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A session that takes the place of another one: with fewer ranks after a failure (shrink.c), or
 * with more (grow.c). The new session is opened beside the old one, so that the old one can try
 * again where that fails (reform.c). Then buckets and buffers, which the application has pointers
 * to, move over. Newcomers knock at a door (door.c).
 *
 * Setup calls, like those of the session.
 */
#ifndef WRING_RUNTIME_ELASTIC_ELASTIC_H
#define WRING_RUNTIME_ELASTIC_ELASTIC_H

#include "runtime/session/session.h"
#include "transport/membership.h"

/** Newcomers that have proven the key at this rank's door, and wait there. */
struct wring_guests {
    uint32_t n;
    int fds[WRING_MEMBERSHIP_GUESTS];
};

/**
 * Agree with the others which ranks go on, and take part in their new session. The old one is
 * closed on success.
 * @param late_ns  until when living ranks that have not come are waited for
 * @param guests   who come in if no rank is lost; their connections are closed once they were told
 * Errors: those of wring_session_shrink().
 */
enum wring_status wring_elastic_reform(struct wring_session *session, uint64_t late_ns,
                                       uint64_t deadline_ns, struct wring_guests *guests,
                                       struct wring_session **out);

/** Let in those who knock now. Never waits for long. */
void wring_guests_admit(const struct wring_session *session, struct wring_guests *guests);

/** Tell them which ranks they are and where all meet. */
void wring_guests_tell(const struct wring_session *session, struct wring_guests *guests,
                       const struct wring_membership_plan *plan);

/** Nobody tells them anything. */
void wring_guests_turn_away(struct wring_guests *guests);

/** Can the buckets move? Not those of a group, which ends with its session. Errors, logged:
 *  WRING_ERR_UNSUPPORTED. */
enum wring_status wring_elastic_check(const struct wring_session *session);

#endif
