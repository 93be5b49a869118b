/* SPDX-License-Identifier: Apache-2.0 */
/**
 * When paths of a connection fail, both sides agree on where they stand and go on: over the paths
 * that are left; over new queue pairs where none is, or where a path may work again. One deadline
 * bounds all of it.
 *
 *     1  stop posting, and let what was posted on the paths that are left complete
 *     2  RESYNC: which paths are dead, which of them I could make anew, and how many receives of
 *        the peer my requests have used up on the others. Said again whenever one of these changes,
 *        or a new queue pair failed, with a new number, until both say that the same are dead and a
 *        path remains
 *     3  take completions until that many receives of mine were used up; give out what is whole,
 *        forget the rest: parts of messages, and messages after a gap
 *     4  RESUME: how many messages I have given out, and new queue pairs for what both can make
 *        anew. From here on I expect messages over the new set of paths
 *     5  the peer's RESUME: connect the new queue pairs, say GO. What the peer gave out is done;
 *        once its GO is there the rest is sent anew
 *
 * RESUME and GO name the numbers of the two RESYNC that they follow from: others are of a round
 * that was overtaken, and mean nothing.
 *
 * Writing a part of a message twice does no harm: the layer above there has not been told of it,
 * and here its source is not the caller's again before PUT_DONE. PUT_DONE is given in order, for
 * messages all of whose requests completed: so all of those were given out, or will be, in 3.
 *
 * verbs_resync.c has 1 and 2, verbs_resume.c the rest.
 */
#ifndef WRING_VERBS_RESYNC_H
#define WRING_VERBS_RESYNC_H

#include "transport/providers/verbs/verbs_card.h"

struct verbs_conn;
struct verbs_path;

/** How far two sides are with agreeing. */
struct verbs_resync {
    bool told, heard;       /* RESYNC, as things are now */
    bool resumed, answered; /* RESUME, ours and the peer's */
    bool connected, go;     /* GO, likewise */
    bool none_left;         /* at some time since messages moved */
    unsigned in_vain;       /* tries to have new queue pairs where none is left, since it stopped */
    uint64_t moved;         /* messages, both ways, when the deadline was set */
    struct verbs_resync_word mine, peer;
    uint64_t delivered; /* of our messages, by the peer */
    uint8_t cards[VERBS_PATHS_MAX * VERBS_CARD_BYTES];
};

/** A path has died or may be made anew: stop and begin to agree, or say again how things are. */
void wring_verbs_resync_begin(struct verbs_conn *conn);

/** Dead paths may work again, a bit each: their port is back, or a message came through. */
void wring_verbs_resync_revive(struct verbs_conn *conn, uint32_t paths);

/** @param nothing_whole  all messages of the peer that are whole were given out */
void wring_verbs_resync_step(struct verbs_conn *conn, bool nothing_whole);

/* The peer's words; data[bytes] is hostile. */
void wring_verbs_take_resync(struct verbs_conn *conn, const uint8_t *data, size_t bytes);
void wring_verbs_take_resume(struct verbs_conn *conn, const uint8_t *data, size_t bytes);
void wring_verbs_take_go(struct verbs_conn *conn, const uint8_t *data, size_t bytes);

/* between verbs_resync.c and verbs_resume.c */

/** Of the dead paths those that both said they could make anew. */
uint32_t wring_verbs_resync_renewed(const struct verbs_conn *conn);

/** Both say that the same paths are dead, and there are others or new ones. */
bool wring_verbs_resync_agreed(const struct verbs_conn *conn);

/** Going on came to nothing: what first failed, and why. */
void wring_verbs_resync_fail(struct verbs_conn *conn, const char *why);

/** Steps 3 to 5, as far as they can be done now. */
void wring_verbs_resume_step(struct verbs_conn *conn, bool nothing_whole);

#endif
