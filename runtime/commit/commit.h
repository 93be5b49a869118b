/* SPDX-License-Identifier: Apache-2.0 */
/** The steps of a commit. */
#ifndef WRING_RUNTIME_COMMIT_COMMIT_H
#define WRING_RUNTIME_COMMIT_COMMIT_H

#include "runtime/bucket.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

/* A bucket's properties that must be alike on all ranks, as a text that ranks compare. */

#define WRING_SIGNATURE_MAX 768

/** One side of a comparison: a signature and whose it is. */
struct wring_signed_by {
    const char *signature;
    uint32_t rank;
};

/**
 * Say in one line which field differs, its values on both ranks, and what to do about it.
 *
 * @param text  out, [bytes]; written only where the signatures differ
 * @return true where they are the same
 */
bool wring_signature_compare(const char *bucket, struct wring_signed_by ours,
                             struct wring_signed_by theirs, char *text, size_t bytes);

/**
 * First half of a commit: everyone's list of buckets is compared, and what depends on all members
 * (whether sums can be placed) is settled. Errors: WRING_ERR_MISMATCH and others, on every rank.
 */
enum wring_status wring_commit_compare(struct wring_session *session);

/** Undo the last commit: channels, slots, imported memory. The engine is locked and idle. */
void wring_commit_undo(struct wring_session *session);

/** Is every bucket of a group that works? Local. Errors: WRING_ERR_CANCELLED (a group was aborted),
 *  logged. */
enum wring_status wring_commit_check_groups(const struct wring_session *session);

/** The last commit is taken back: no bucket has channels until the next one. Those that travel as
 * one still do. Local; of a group that was aborted it waits for the other members' last pieces.
 * Errors: WRING_ERR_BUSY (something is under way). */
enum wring_status wring_commit_take_back(struct wring_session *session);

/** Buckets that were dropped are gone. The commit is taken back, and none travels with others. */
void wring_commit_free_dropped(struct wring_session *session);

/** Where each bucket's data is registered; foreign memory is, where all devices take it. */
enum wring_status wring_commit_find_data(struct wring_session *session);

/**
 * Once all ranks mean the same buckets: decide which of their codecs run, the same on all members,
 * by trials where this session has not measured yet. Collective, and bounded in time as a few steps
 * of the largest bucket are. Says what it decided, at level info.
 * Errors: those of the trials.
 */
enum wring_status wring_codec_bypass_choose(struct wring_session *session);

/**
 * Give each bucket its channels. Collective. Errors: those of a commit; wring_commit_undo() takes
 * back what was made.
 */
enum wring_status wring_commit_connect(struct wring_session *session);

/**
 * Buckets that exist only to be measured, while the session's own are put aside: once each rank has
 * registered its own, or could not, find their data, compare and connect them. Collective.
 * @param registered  how that went on this rank
 * Errors: that of any rank; those of a commit.
 */
enum wring_status wring_commit_passing(struct wring_session *session, enum wring_status registered);

/** Such buckets are gone, and the session has its own again: as it was before. */
void wring_commit_forget_passing(struct wring_session *session, struct wring_bucket *own);

/**
 * Decide each bucket's scheme, pieces and windows, and make its channels and slots, which nobody
 * puts into yet. The engine is locked and idle.
 * Errors: WRING_ERR_NO_MEMORY; wring_commit_undo() takes back what was made.
 */
enum wring_status wring_commit_make(struct wring_session *session);

/** Write the names and places of our channels, for the peers that put into them; transport/WIRE.md,
 *  "Joining". */
void wring_commit_write_endpoints(struct wring_session *session, struct wring_writer *out);

/**
 * Read the names and places that a peer wrote with wring_commit_write_endpoints(): hostile until
 * checked.
 * @param in  its whole blob
 * Errors: WRING_ERR_FRAME (malformed), WRING_ERR_NO_MEMORY, those of the provider's import.
 */
enum wring_status wring_commit_read_endpoints(struct wring_session *session,
                                              struct wring_peer *peer, struct wring_reader in);

#endif
