/* SPDX-License-Identifier: Apache-2.0 */
/** A group of ranks, and what its immediate calls run on. */
#ifndef WRING_RUNTIME_GROUP_GROUP_H
#define WRING_RUNTIME_GROUP_GROUP_H

#include <pthread.h>

#include "runtime/session/session.h"
#include "transport/collective/collective.h"
#include "transport/pairs.h"
#include <wring/wring.h>

#define WRING_GROUP_KEPT 32
#define WRING_GROUP_TASKS 20 /* of the collective that its calls share */

/** Which of a group's members share a node: hosts as they were told apart when the session opened.
 */
struct wring_group_nodes {
    uint32_t n;
    uint32_t least, most;           /* members in one of them */
    uint32_t least_rank, most_rank; /* the first rank there */
};

/** A group's members and what its immediate calls run on. */
struct wring_group {
    struct wring_session *session;
    struct wring_group *next;
    uint32_t *ranks;
    uint32_t *index; /* of members; NULL where none is needed */
    struct wring_members members;
    struct wring_group_nodes nodes;
    struct wring_group *node, *across; /* its ranks on our node, and those at our position on each
                                          node; NULL: nobody has asked */
    struct wring_group *ring;          /* all of them in their order around a ring; likewise */
    bool told_flat;                    /* that its nodes are not equal was logged */
    bool told_votes;                   /* that votes go flat was logged */
    bool flat_untold; /* WRING_SCHEME is hierarchical, and its immediate calls are not: we are to
                         say so with the first that would gain */
    struct wring_pairs pairs;   /* of us and each other member */
    struct wring_block sources; /* send slots, which no peer can write into; with the first use */
    atomic_bool has_sources;
    bool paired; /* a call that sends a piece to all was queued: later ones use boards; under mutex
                  */
    struct wring_channel scatter, gather;
    struct wring_collective collective;
    struct wring_message_context *messages; /* borrowed of the messenger; NULL: not made */
    struct wring_op_history calls;
    struct wring_cease cease;   /* of all its collectives, its buckets' among them */
    atomic_uint aborted_by;     /* + 1: the rank that aborted it; 0: none did */
    atomic_uint n_buckets;      /* of it, registered or what a commit made of those */
    char unfit[WRING_TEXT_MAX]; /* why no call can be made in this group; "" if one can */
    struct wring_request *running, *waiting; /* under mutex */
    struct wring_request *held;              /* not waited for; newest first; under mutex */
    bool unwanted;                           /* goes as soon as nobody uses it any more */
    struct wring_codec *codecs[8];           /* of earlier calls, by spec; under mutex */
    _Atomic(struct wring_work *)
        kept[WRING_GROUP_KEPT]; /* of earlier calls: group/immediate_select.h */
    pthread_mutex_t mutex;
};

/** The providers that reach a group's members: "shm", or "shm,tcp" where they differ.
 *  @param text out, [bytes] */
void wring_group_name_providers(const struct wring_group *group, char *text, size_t bytes);

/** That of all ranks, as the session opens and nobody drives its engine: settings that differ leave
 *  a group in which no call can be made. Errors: those of wring_session_exchange() and _reach(). */
enum wring_status wring_group_make_world(struct wring_session *session, struct wring_group **out);

/** The engine is locked. */
void wring_group_free(struct wring_group *group);

/** Two or more, of equally many members, two or more: what hierarchical schemes are for. */
static inline bool wring_group_nodes_fit(const struct wring_group_nodes *nodes)
{
    return nodes->n > 1 && nodes->least > 1 && nodes->least == nodes->most;
}

/**
 * Fill in group->node, the members of our node, and group->across, those that stand in the same
 * place as we on every node; nodes have equally many. They have ranks, and nothing to make calls
 * with. Once is enough. Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_group_split(struct wring_group *group);

/**
 * Fill in group->ring: the members by sites, there by hosts, there as the group has them. Sites
 * follow one another as was measured (transport/sites.h), or like hosts by their first member. It
 * has ranks, and nothing to make calls with. Once is enough. Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_group_make_ring(struct wring_group *group);

#endif
