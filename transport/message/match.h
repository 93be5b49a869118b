/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matching: which receive of a group takes which message.
 *
 * A receive names a source and a tag, or any of either. Of the receives that fit a message the one
 * that was posted first takes it; of the messages of one source that fit a receive, the one that
 * was sent first. Where a receive takes any source, it takes the source that a receive of any
 * source was given least recently: with n sources, one whose message fits is served after at most
 * n - 1 others.
 *
 * Nothing is allocated: receives and arrivals are the caller's, in the lists of this object until
 * a call gives them back. Objects are used by one thread at a time.
 */
#ifndef WRING_TRANSPORT_MATCH_H
#define WRING_TRANSPORT_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/status.h>

#define WRING_MATCH_ANY_SOURCE UINT32_MAX
#define WRING_MATCH_ANY_TAG UINT64_MAX

struct wring_match_link {
    struct wring_match_link *next, *previous;
};

/** A posted receive. */
struct wring_match_receive {
    struct wring_match_link link; /* first */
    uint32_t source;              /* or WRING_MATCH_ANY_SOURCE */
    uint64_t tag;                 /* or WRING_MATCH_ANY_TAG */
    uint64_t order;               /* of posting */
};

/** A message that has come before its receive. */
struct wring_match_arrival {
    struct wring_match_link link; /* first */
    uint32_t source;
    uint64_t tag;
};

/** All zero until something is listed. */
struct wring_match_source {
    struct wring_match_link posted;  /* receives from it alone */
    struct wring_match_link arrived; /* its messages, as they were sent */
    uint64_t served;                 /* when a receive of any source was given it; 0: never */
};

struct wring_match {
    uint32_t sources;
    struct wring_match_source *source; /* [sources] */
    struct wring_match_link any;       /* receives from any source */
    uint64_t orders, services;
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_match_init(struct wring_match *match, uint32_t sources);

/** Nothing is in its lists any more, or what is does not matter. Zeroed memory is fine. */
void wring_match_finish(struct wring_match *match);

/**
 * Post a receive: its source and tag are set.
 * @return the message that it takes, which leaves the list; NULL: the receive is listed
 */
struct wring_match_arrival *wring_match_post(struct wring_match *match,
                                             struct wring_match_receive *receive);

/**
 * The receive that takes a message which is just coming, and leaves the list; or NULL. Messages of
 * a source come in the order in which they were sent.
 */
struct wring_match_receive *wring_match_find(struct wring_match *match, uint32_t source,
                                             uint64_t tag);

/** No receive takes it: list it. */
void wring_match_keep(struct wring_match *match, struct wring_match_arrival *arrival);

/** A listed receive, or a listed message, is to be listed no longer. */
void wring_match_remove(struct wring_match_link *link);

/** The receive is listed again, where it was: its message was taken back. */
struct wring_match_arrival *wring_match_post_again(struct wring_match *match,
                                                   struct wring_match_receive *receive);

/** Has a source sent anything that is listed? */
static inline bool wring_match_has_arrivals(const struct wring_match *match, uint32_t source)
{
    const struct wring_match_link *list = &match->source[source].arrived;
    return list->next != NULL && list->next != list;
}

#endif
