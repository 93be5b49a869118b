/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A path may fail without a word from its port: what is sent vanishes for a while. Where other
 * paths go on it is tried again after WRING_VERBS_REVIVE, without a stop of what travels on those:
 *
 *   - the side that dialed makes a new queue pair in the place of the dead one and says TRY, with
 *     its card;
 *   - the other one makes a new queue pair too, connects it, and answers TRY with its card;
 *   - the first connects its own and sends a message over it, which nobody takes;
 *   - once that is complete packets pass both ways: both agree to take all paths of that pair of
 *     rails back (verbs_resync.h), with queue pairs that are new once more.
 *
 * No answer in time, or a message that does not come through, doubles the time to the next try; so
 * does a path that was taken back and fails soon. Ports that are down are not tried: they tell when
 * they are back.
 */
#ifndef WRING_VERBS_REVIVE_H
#define WRING_VERBS_REVIVE_H

#include <stddef.h>
#include <stdint.h>

struct verbs_completion;
struct verbs_conn;
struct verbs_path;

/** A try that is under way. */
struct verbs_trial {
    struct verbs_path *path; /* NULL: none is */
    uint32_t number;         /* of the last one */
    uint64_t deadline_ns;
};

/** When to try a path. */
struct verbs_again {
    uint64_t made_ns;  /* when its queue pair was */
    uint64_t pause_ns; /* from a failure to the next try; 0: it never failed */
    uint64_t at_ns;
};

/** A path has failed: set the time to try it again. */
void wring_verbs_revive_plan(struct verbs_path *path);

/** Begin a try that is due, end one that takes too long. */
void wring_verbs_revive_step(struct verbs_conn *conn);

/** When there is something to do next; WRING_NEVER where there is not. */
uint64_t wring_verbs_revive_deadline(const struct verbs_conn *conn);

/** What became of a request on a dead path: of the message sent to try it, perhaps. */
void wring_verbs_revive_complete(struct verbs_path *path,
                                 const struct verbs_completion *completion);

/** Something else comes in between. */
void wring_verbs_revive_drop(struct verbs_conn *conn);

/** The peer's TRY; data[bytes] is hostile. */
void wring_verbs_take_try(struct verbs_conn *conn, const uint8_t *data, size_t bytes);

#endif
