/* SPDX-License-Identifier: Apache-2.0 */
/** The second half of a commit, once all ranks mean the same buckets. */
#ifndef WRING_RUNTIME_COMMIT_H
#define WRING_RUNTIME_COMMIT_H

#include "runtime/session.h"

/**
 * Decide each bucket's scheme, pieces and windows, and make its channels and slots, which nobody
 * puts into yet. The engine is locked and idle.
 * Errors: WRING_ERR_NO_MEMORY; wring_commit_undo() takes back what was made.
 */
enum wring_status wring_commit_make(struct wring_session *session);

/** Our channels' names and places, for those who will put into them; transport/WIRE.md, "Joining".
 */
void wring_commit_write_places(struct wring_session *session, struct wring_writer *out);

/**
 * Take over what a peer wrote with wring_commit_write_places(): hostile until checked.
 * @param in  its whole blob
 * Errors: WRING_ERR_FRAME (malformed), WRING_ERR_NO_MEMORY, those of the provider's import.
 */
enum wring_status wring_commit_read_places(struct wring_session *session, struct wring_peer *peer,
                                           struct wring_reader in);

#endif
