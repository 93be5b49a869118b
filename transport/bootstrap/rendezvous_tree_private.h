/* SPDX-License-Identifier: Apache-2.0 */
/** What the tree is made of, for rendezvous_plant.c, which makes it, and rendezvous_tree.c. */
#ifndef WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_TREE_PRIVATE_H
#define WRING_TRANSPORT_BOOTSTRAP_RENDEZVOUS_TREE_PRIVATE_H

#include <stdlib.h>

#include "transport/bootstrap/rendezvous_tree.h"

/** A stream to a neighbour, and the frame that comes in on it. */
struct wring_rendezvous_stream {
    int fd; /* -1: none, or lost */
    uint32_t rank;
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;
    uint8_t *body;
    uint64_t got; /* bytes, head included */
};

struct wring_rendezvous_tree {
    struct wring_rendezvous_traffic traffic;
    struct wring_rendezvous_stream up; /* rank 0: none */
    uint32_t n;
    struct wring_rendezvous_stream down[WRING_RENDEZVOUS_FAN];
};

/** Of a rank other than 0. */
static inline uint32_t wring_rendezvous_parent(uint32_t rank)
{
    return (rank - 1) / WRING_RENDEZVOUS_FAN;
}

static inline bool wring_rendezvous_stream_has_head(const struct wring_rendezvous_stream *stream)
{
    return stream->got >= WRING_RENDEZVOUS_FRAME_BYTES;
}

/** Is a frame here whole? It stays until it is dropped. */
static inline bool wring_rendezvous_stream_has_frame(const struct wring_rendezvous_stream *stream)
{
    return wring_rendezvous_stream_has_head(stream) && stream->body != NULL &&
           stream->got == WRING_RENDEZVOUS_FRAME_BYTES + stream->frame.bytes;
}

/** The frame has been dealt with: the next one may come. */
static inline void wring_rendezvous_stream_drop(struct wring_rendezvous_stream *stream)
{
    free(stream->body);
    stream->body = NULL;
    stream->got = 0;
}

/**
 * Read what there is, up to the end of a frame.
 *
 * @param most  bytes of a body
 * Errors: WRING_ERR_AGAIN, there is more to come; WRING_ERR_PEER, it has closed; WRING_ERR_FRAME,
 * WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_rendezvous_tree_read(struct wring_rendezvous_tree *tree,
                                             struct wring_rendezvous_stream *stream, uint64_t most);

/** @param body  in, [frame->bytes]. Errors: those of wring_stream_write(). */
enum wring_status wring_rendezvous_tree_write(struct wring_rendezvous_tree *tree, int fd,
                                              const struct wring_rendezvous_frame *frame,
                                              const void *body,
                                              const struct wring_patience *patience);

/** The verdict: rank 0's own, or heard from above. Told below, and logged.
 *  @param text  in, [frame->bytes] and a NUL; made printable  @return its status */
enum wring_status wring_rendezvous_tree_fail(struct wring_rendezvous *rendezvous,
                                             const struct wring_rendezvous_frame *frame,
                                             char *text);

/** Nothing comes from above any more: for those below that is their loss, too.
 *  @param status  why  @return the job's */
enum wring_status wring_rendezvous_tree_lose_parent(struct wring_rendezvous *rendezvous,
                                                    enum wring_status status,
                                                    const struct wring_patience *patience);

#endif
