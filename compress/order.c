/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/order.h"

/** The largest power of two that is not more than n. */
static uint32_t leaves_of(uint32_t n)
{
    uint32_t p = 1;
    while (p <= n / 2)
        p *= 2;
    return p;
}

static uint32_t trailing_ones(uint32_t i)
{
    uint32_t ones = 0;
    for (; i & 1; i >>= 1)
        ones++;
    return ones;
}

struct wring_order wring_order_begin(uint32_t n)
{
    bool folded = n <= WRING_ORDER_FOLDED;
    return (struct wring_order){.n = n, .p = folded ? n : leaves_of(n)};
}

static bool next_folded(struct wring_order *order, struct wring_order_step *step)
{
    if (order->leaf + 1 >= order->n)
        return false;
    *step = (struct wring_order_step){0, order->leaf == 0 ? 0 : WRING_ORDER_SLOT, order->leaf + 1};
    order->leaf++;
    return true;
}

/** Leaves 0 to `leaf` - 1 have been begun: those blocks that are complete now are to be joined.
 *  @param joined  of level 0, in the step itself */
static void note_leaf(struct wring_order *order, uint32_t leaf, bool joined)
{
    order->joins = trailing_ones(leaf) - joined;
    order->leaf = leaf + 1;
}

static void next_leaf(struct wring_order *order, struct wring_order_step *step)
{
    uint32_t i = order->leaf;

    if (i < order->n - order->p) { /* it has a second source */
        *step = (struct wring_order_step){order->slots++, i, order->p + i};
        note_leaf(order, i, false);
    } else if (i % 2 == 0) { /* neither has it, nor the next one */
        *step = (struct wring_order_step){order->slots++, i, i + 1};
        note_leaf(order, i + 1, true);
    } else {
        *step = (struct wring_order_step){order->slots - 1, WRING_ORDER_SLOT, i};
        note_leaf(order, i, true);
    }
}

bool wring_order_next(struct wring_order *order, struct wring_order_step *step)
{
    if (order->n <= WRING_ORDER_FOLDED)
        return next_folded(order, step);
    if (order->joins > 0) {
        order->joins--;
        order->slots--;
        *step = (struct wring_order_step){order->slots - 1, WRING_ORDER_SLOT, WRING_ORDER_SLOT};
        return true;
    }
    if (order->leaf == order->p)
        return false;
    next_leaf(order, step);
    return true;
}

uint32_t wring_order_slots(uint32_t n)
{
    return n <= WRING_ORDER_FOLDED ? 1 : trailing_ones(leaves_of(n) - 1) + 1;
}
