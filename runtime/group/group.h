/* SPDX-License-Identifier: Apache-2.0 */
/** A group of ranks, and what its immediate calls run on. */
#ifndef WRING_RUNTIME_GROUP_H
#define WRING_RUNTIME_GROUP_H

#include <pthread.h>

#include "transport/collective/collective.h"
#include <wring/wring.h>

/** A group's members and what its immediate calls run on. */
struct wring_group {
    struct wring_session *session;
    struct wring_group *next;
    uint32_t *ranks;
    struct wring_members members;
    struct wring_group *node, *across; /* group_nodes.h; NULL: nobody has asked */
    bool told_flat;                    /* that its nodes are not equal was logged */
    bool flat_untold; /* WRING_SCHEME is hierarchical, and its immediate calls are not: we are to
                         say so with the first that would gain */
    struct wring_block slots;
    struct wring_block sources; /* send slots, which no peer can write into */
    struct wring_imports imports;
    struct wring_blobs told; /* what members said of themselves: channels have keys there */
    struct wring_channel scatter, gather;
    size_t channel_bytes; /* of the slots of one */
    struct wring_collective collective;
    struct wring_message_context *messages; /* borrowed of the messenger; NULL: not made */
    struct wring_calls calls;
    char unfit[WRING_TEXT_MAX]; /* why no call can be made in this group; "" if one can */
    struct wring_request *running, *waiting; /* under mutex */
    struct wring_request *held;              /* not waited for; newest first; under mutex */
    bool unwanted;                           /* goes as soon as nobody uses it any more */
    struct wring_codec *codecs[8];           /* of earlier calls, by spec; under mutex */
    pthread_mutex_t mutex;
};

/** The providers that reach a group's members: "shm", or "shm,tcp" where they differ.
 *  @param text out, [bytes] */
void wring_group_name_providers(const struct wring_group *group, char *text, size_t bytes);

/** One of those ranks, ours among them, which knows them and can do nothing. Errors: NO_MEMORY. */
enum wring_status wring_group_new(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                  struct wring_group **out);

/** Make a group without waiting for the engine: for session_open. */
enum wring_status wring_group_make(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                   struct wring_group **out);
void wring_group_free(struct wring_group *group);

#endif
