/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The control tree: from the time that a session opens to the end of its life every rank has a tcp
 * connection to its parent, rank (r - 1) / 8, and to at most eight children; all others it knows by
 * address. What all are to hear, deaths and failures, goes from neighbour to neighbour; what is for
 * one rank goes along the tree, and what is for the root upwards. A failure ends calls, not the
 * tree. A good-bye goes to neighbours alone, which tell theirs now and then of all that have left:
 * if ranks leave together, each sends a few messages, however many they are. A rank that leaves
 * stays until one that stays, or its parent, has heard all that it knows; it dials one for that, if
 * all neighbours leave at the same moment.
 *
 * Whoever loses its parent goes to the nearest ancestor that is left, or, where none is, to the
 * lowest rank that is; that one is the root then. The two tell each other what has happened, so
 * that nothing is missed meanwhile. A parent's rank is always lower than its child's: no circles.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_CONTROL_TREE_H
#define WRING_TRANSPORT_CONTROL_TREE_H

#include "base/clock.h"
#include "transport/control.h"

#define WRING_CONTROL_TREE_FAN 8
#define WRING_CONTROL_TREE_ALL UINT32_MAX
#define WRING_CONTROL_TREE_ROOT (UINT32_MAX - 1)
#define WRING_CONTROL_TREE_LOOK_NS \
    (1 * WRING_NS_PER_MS) /* between looks of a rank that does not sleep */

struct wring_control_tree;

/** Where a rank's control connections are accepted. */
struct wring_control_tree_endpoint {
    const void *address;
    size_t bytes;
};

/** Events for the fabric. */
struct wring_control_tree_handler {
    void *arg;
    /** A rank speaks to us, or to all; or it has left: BYE, whoever has told us. */
    void (*heard)(void *arg, uint32_t from, const struct wring_control *control);
    /** A neighbour's connection has ended without a good-bye, or it is silent for too long. */
    void (*lost)(void *arg, uint32_t rank, enum wring_status status, const char *text);
};

struct wring_control_tree_params {
    const struct wring_config *config; /* borrowed */
    const struct wring_log *log;       /* borrowed */
    uint32_t rank, size;
    const char *bind; /* NULL: loopback */
    uint8_t secret[WRING_SECRET_BYTES];
    uint8_t job[16];
    struct wring_control_tree_handler handler;
    /** Where another rank's are accepted, once we have joined; with the handler's arg.
     *  @return false: no memory for it now */
    bool (*find)(const void *arg, uint32_t rank, struct wring_control_tree_endpoint *out);
};

/** Listen. Errors: those of the tcp provider. */
enum wring_status wring_control_tree_create(const struct wring_control_tree_params *params,
                                            struct wring_control_tree **out);

/** Where we do. */
struct wring_control_tree_endpoint wring_control_tree_endpoint(
    const struct wring_control_tree *tree);

/** Bytes that the connection to a neighbour takes. */
size_t wring_control_tree_link_bytes(const struct wring_control_tree *tree);

/** Bytes that are kept for so many ranks: of most of them only what has happened is touched. */
size_t wring_control_tree_state_bytes(uint32_t ranks);

/** Begin to connect. */
void wring_control_tree_join(struct wring_control_tree *tree);

/** The first neighbour whose connection does not stand yet, or `size`. */
uint32_t wring_control_tree_missing(const struct wring_control_tree *tree);

/** Is there a connection between that rank and us? */
bool wring_control_tree_is_neighbour(const struct wring_control_tree *tree, uint32_t rank);

/** @return whether anything came */
bool wring_control_tree_poll(struct wring_control_tree *tree, uint64_t now_ns);

void wring_control_tree_arm(struct wring_control_tree *tree, struct wring_wait_set *set);

/** Tell all ranks of a failure. Of a rank's failures the first one is told. */
void wring_control_tree_tell(struct wring_control_tree *tree, const struct wring_control *control);

/** Tell one. Errors: WRING_ERR_NO_MEMORY; WRING_ERR_CLOSED: there is no way to it, or it has left;
 *  WRING_ERR_INVALID: too long a text. */
enum wring_status wring_control_tree_send(struct wring_control_tree *tree, uint32_t to,
                                          const struct wring_control *control);

/** Are we the rank that no other one is above? */
bool wring_control_tree_is_root(const struct wring_control_tree *tree);

/** Tell all ranks something that is no fate, which none repeats to those who come later. */
void wring_control_tree_spread(struct wring_control_tree *tree,
                               const struct wring_control *control);

/** Tell the root, and all ranks on the way there, what rank `from` says; nobody, where there is no
 *  way up now. The root itself hears nothing. */
void wring_control_tree_raise(struct wring_control_tree *tree, uint32_t from,
                              const struct wring_control *control);

/** Has it left, or been lost, as far as this rank knows? */
bool wring_control_tree_is_lost(const struct wring_control_tree *tree, uint32_t rank);

/** Find out whether anybody is at the address of a rank that is no neighbour, without waiting. May
 *  be repeated. */
void wring_control_tree_seek(struct wring_control_tree *tree, uint32_t rank);

/**
 * A descriptor that keeps the port open at which this rank accepts its neighbours, also once the
 * tree is gone: nobody who dials it is refused, or served. A rank that others have left behind so
 * sees that they live. @return -1: there is none
 */
int wring_control_tree_hold_port(const struct wring_control_tree *tree);

/** Was its address found to refuse callers? Then it takes part in nothing more, and no session that
 *  came after this one has it. */
bool wring_control_tree_is_gone(const struct wring_control_tree *tree, uint32_t rank);

/** By which rank the way up leads now; our own rank: there is none. */
uint32_t wring_control_tree_parent(const struct wring_control_tree *tree);

/** What the connection to the parent leads over; all 0: there is none, or it stays on this host. */
struct wring_path wring_control_tree_way_up(const struct wring_control_tree *tree);

/** Say good-bye, once. Nothing that ends from now on is a loss. */
void wring_control_tree_leave(struct wring_control_tree *tree);

/** Have all neighbours heard it, and one that others hear of it from all that we know? */
bool wring_control_tree_has_left(const struct wring_control_tree *tree);

/** Drops all connections at once. NULL is fine. */
void wring_control_tree_destroy(struct wring_control_tree *tree);

#endif
