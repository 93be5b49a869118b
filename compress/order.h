/* SPDX-License-Identifier: Apache-2.0 */
/**
 * In which order contributions become one: FORMAT.md, "Reductions". Private to compress/.
 *
 *     n <= 8    ((s0 op s1) op s2) op …
 *     n > 8     a binary tree over the index, p the largest power of two that is not more than n:
 *               leaf i is s[i], or s[i] op s[p + i] where there is that source, for i < p;
 *               then, for l = 0, 1, …, the block of leaves with bit l clear op the one with it set
 *
 * A walk gives the n - 1 steps of that. What is not done yet lies in slots, as many as the tree is
 * high: whoever works block by block needs no other memory.
 */
#ifndef WRING_COMPRESS_ORDER_H
#define WRING_COMPRESS_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#define WRING_ORDER_FOLDED 8        /* so many are folded from the left; more by the tree */
#define WRING_ORDER_SLOT UINT32_MAX /* for a source: what lies in a slot */

/** slot[step.slot] = first op second: sources, or WRING_ORDER_SLOT. Of `second` that is the next
 *  slot, of `first` this one. */
struct wring_order_step {
    uint32_t slot, first, second;
};

struct wring_order {
    uint32_t n, p;         /* sources; leaves */
    uint32_t leaf;         /* the next one */
    uint32_t slots, joins; /* in use; to be joined before that leaf */
};

/** @param n  sources, 1 or more */
struct wring_order wring_order_begin(uint32_t n);

/** @return false: there is no further step. A single source has none */
bool wring_order_next(struct wring_order *order, struct wring_order_step *step);

/** Slots that a walk over n sources needs. */
uint32_t wring_order_slots(uint32_t n);

#endif
