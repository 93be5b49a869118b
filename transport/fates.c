/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/fates.h"

#include <stdlib.h>

enum wring_status wring_fates_init(struct wring_fates *fates, uint32_t rank, uint32_t size)
{
    *fates = (struct wring_fates){
        .rank = rank, .size = size, .alive = size - 1, .of = calloc(size, sizeof(*fates->of))};
    return fates->of != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

void wring_fates_finish(struct wring_fates *fates)
{
    free(fates->of);
    *fates = (struct wring_fates){0};
}

void wring_fates_set(struct wring_fates *fates, uint32_t rank, enum wring_fate fate)
{
    fates->alive -= rank != fates->rank && fates->of[rank] == WRING_FATE_ALIVE;
    fates->of[rank] = (uint8_t)fate;
}

/** The nearest ancestor that is left, or our own rank. */
static uint32_t choose_ancestor(const struct wring_fates *fates)
{
    uint32_t rank = fates->rank;
    while (rank != 0) {
        rank = wring_fates_first_parent(rank);
        if (fates->of[rank] == WRING_FATE_ALIVE)
            return rank;
    }
    return fates->rank;
}

/** The first rank of [first, end) that is left, or `end`. */
static uint32_t first_alive(const struct wring_fates *fates, uint32_t first, uint32_t end)
{
    while (first < end && fates->of[first] != WRING_FATE_ALIVE)
        first++;
    return first;
}

uint32_t wring_fates_choose_parent(const struct wring_fates *fates)
{
    uint32_t ancestor = choose_ancestor(fates);
    return ancestor != fates->rank ? ancestor : first_alive(fates, 0, fates->rank);
}

uint32_t wring_fates_choose_heir(struct wring_fates *fates)
{
    uint32_t ancestor = choose_ancestor(fates);
    if (ancestor != fates->rank)
        return ancestor;
    fates->heirs = (fates->heirs + fates->rank + 1) * 2654435761u; /* another way for each rank */
    uint32_t from = (uint32_t)((uint64_t)fates->heirs * fates->size >> 32);
    uint32_t heir = first_alive(fates, from, fates->size);
    if (heir == fates->size)
        heir = first_alive(fates, 0, from);
    return heir != from || fates->of[heir] == WRING_FATE_ALIVE ? heir : fates->rank;
}

bool wring_fates_have_all_below_left(const struct wring_fates *fates)
{
    uint64_t first = fates->rank, end = first + 1;

    while ((first = first * WRING_CONTROL_TREE_FAN + 1) < fates->size) {
        end = end * WRING_CONTROL_TREE_FAN + 1;
        uint32_t stop = end < fates->size ? (uint32_t)end : fates->size;
        if (first_alive(fates, (uint32_t)first, stop) < stop)
            return false;
    }
    return true;
}
