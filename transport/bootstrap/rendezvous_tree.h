/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tree of a large rendezvous. All ranks of a job join at rank 0; with more than
 * WRING_RENDEZVOUS_DIRECT of them each one then has a stream to its parent, rank (r - 1) / 4, and
 * to at most four children, and closes the one to rank 0. An exchange goes up the tree piece by
 * piece and down whole: rank 0 sends a result four times, however many ranks there are. WIRE.md
 * "Rendezvous" has the bytes.
 *
 * Rank 0 alone decides that a job has failed. Others tell it of a child that has gone, and hear the
 * verdict from above, so that all ranks name the same cause.
 */
#ifndef WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_TREE_H
#define WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_TREE_H

#include "transport/bootstrap/rendezvous_private.h"

#define WRING_RENDEZVOUS_DIRECT 16 /* ranks of a job that needs no tree */
#define WRING_RENDEZVOUS_FAN 4

/** What went over this rank's streams since it joined. */
struct wring_rendezvous_traffic {
    uint64_t frames_sent, frames_received, bytes_sent, bytes_received;
};

/** The ranks below one: [first, first + n). */
struct wring_rendezvous_children {
    uint32_t first, n;
};

struct wring_rendezvous_children wring_rendezvous_children(uint32_t rank, uint32_t size);

/** The most streams that a rank of such a job has once all have joined. */
uint32_t wring_rendezvous_streams(uint32_t size);

/**
 * All have joined: replace the streams to rank 0 by those of the tree. Every rank calls it.
 * Errors, logged: WRING_ERR_PEER (names the rank), WRING_ERR_ADDRESS, WRING_ERR_AUTH,
 * WRING_ERR_FRAME, WRING_ERR_NO_MEMORY, WRING_ERR_CLOSED (called off; not logged).
 */
enum wring_status wring_rendezvous_plant(struct wring_rendezvous *rendezvous,
                                         const struct wring_rendezvous_params *params,
                                         const uint8_t *secret);

/** As wring_bootstrap_ops.exchange and check, of a rendezvous that has a tree. */
enum wring_status wring_rendezvous_tree_exchange(struct wring_rendezvous *rendezvous,
                                                 const void *blob, size_t bytes,
                                                 const struct wring_patience *patience,
                                                 struct wring_blobs *out);
enum wring_status wring_rendezvous_tree_check(struct wring_rendezvous *rendezvous);

/** Closes the streams. NULL is fine. */
void wring_rendezvous_tree_destroy(struct wring_rendezvous_tree *tree);

/** What this rank has sent and received so far. */
struct wring_rendezvous_traffic wring_rendezvous_tree_traffic(
    const struct wring_rendezvous_tree *tree);

#endif
