/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory for the boards of groups (collective/shm_flags.h): each block of it holds those of several
 * groups, so that a group takes neither a descriptor nor a mapping of its own.
 *
 * A lease is never used again: a member may look at a board after its owner has destroyed the
 * group, as that was shown all the owner waited for before others have looked. So leases are given
 * out one behind the other, and a block goes once its last group has.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_BOARDS_H
#define WRING_TRANSPORT_BOARDS_H

#include "transport/fabric.h"

/** Several boards. */
struct wring_board_block {
    struct wring_block block;
    size_t bytes; /* of one board */
    uint32_t room, used, live;
    struct wring_board_block *next;
};

/** Zeroed at first. */
struct wring_boards {
    struct wring_board_block *newest;
    uint32_t grown; /* blocks so far */
};

struct wring_board_lease {
    struct wring_board_block *home; /* NULL: there is none */
    size_t offset;                  /* in its block */
};

/** All groups are gone. */
void wring_boards_finish(struct wring_boards *boards);

#endif
