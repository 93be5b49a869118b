/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is to be sent: a message becomes a request on each path that it takes. Requests gather in
 * their path's ring and are posted together.
 */
#ifndef WRING_VERBS_POST_H
#define WRING_VERBS_POST_H

#include <wring/provider.h>

struct verbs_conn;
struct verbs_path;

/** After a path was lost: messages that the peer has not given out, as far as there are credits. */
void wring_verbs_spread_again(struct verbs_conn *conn);

/** Post what is pending on all paths. */
void wring_verbs_conn_post(struct verbs_conn *conn);

/** Tell the peer how many receives there are anew, when enough of them are. */
void wring_verbs_give_credits(struct verbs_conn *conn);

/** What the peer was told of them may be lost with a path: it is told anew. */
void wring_verbs_forget_credits(struct verbs_conn *conn);

enum wring_status wring_verbs_put(struct wring_conn *base, struct wring_region *region,
                                  const void *local, struct wring_remote *remote,
                                  uint64_t remote_offset, size_t bytes, uint32_t imm,
                                  uint64_t cookie);
enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes);

/** A message over a dead path, which the peer takes for nothing: does it come through? @return
 * errno */
int wring_verbs_send_nothing(struct verbs_path *path);

/** Have all that was posted on a path complete with a notice. */
void wring_verbs_ask_completion(struct verbs_path *path);

/** Are there credits that were not there when `starved` was set? */
bool wring_verbs_has_credits(struct verbs_conn *conn);

#endif
