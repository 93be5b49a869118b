/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The fates of all ranks, as far as this one knows them; and which ranks are its neighbours in the
 * control tree, now that some have left.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_FATES_H
#define WRING_TRANSPORT_FATES_H

#include "transport/control_tree.h"

enum wring_fate {
    WRING_FATE_ALIVE = 0,
    WRING_FATE_LEFT,
    WRING_FATE_LOST, /* or it has left, and we have not heard of it */
    WRING_FATE_GONE  /* lost, and nobody is at its address any more */
};

struct wring_fates {
    uint32_t rank, size;
    uint8_t *of;    /* [size], enum wring_fate */
    uint32_t alive; /* others that are */
    uint32_t heirs; /* of those that were chosen: a number like random */
};

/** All are alive. @param rank  our own, of `size`. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_fates_init(struct wring_fates *fates, uint32_t rank, uint32_t size);
void wring_fates_finish(struct wring_fates *fates);

void wring_fates_set(struct wring_fates *fates, uint32_t rank, enum wring_fate fate);

/** The rank below which a rank begins that is not 0. */
static inline uint32_t wring_fates_first_parent(uint32_t rank)
{
    return (rank - 1) / WRING_CONTROL_TREE_FAN;
}

/** The rank to connect to now; our own rank: none, we are the root. */
uint32_t wring_fates_choose_parent(const struct wring_fates *fates);

/** Whom a rank that leaves tells what it knows, where no neighbour has taken it: an ancestor, or
 *  anybody. Many may have left of which it does not know, and in any order: it tries here and
 *  there. @return our own rank: there is none */
uint32_t wring_fates_choose_heir(struct wring_fates *fates);

/** Have all left, or been lost, that began below us? */
bool wring_fates_have_all_below_left(const struct wring_fates *fates);

#endif
