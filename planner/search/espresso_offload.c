/* SPDX-License-Identifier: Apache-2.0 */
/* Espresso's Algorithm 2: of tensors of equal size and option the first few go to the CPU. */
#include <stdlib.h>

#include "planner/search/espresso.h"

enum {
    PREFIXES_MAX = 4096 /* of Algorithm 2 that are all tried; of more, group by group */
};

/** Equal sizes and options side by side, the earliest ready first. */
static int by_family(const void *a, const void *b)
{
    const struct wring_espresso_candidate *x = a, *y = b;

    if (x->elems != y->elems)
        return x->elems < y->elems ? 1 : -1;
    if (x->option != y->option)
        return x->option < y->option ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void find_families(struct wring_espresso *espresso)
{
    const struct wring_rates *rates = espresso->seek->rates;
    const uint32_t *offload = espresso->seek->params->offload;
    const uint64_t *elems = rates->problem->elems;
    struct wring_espresso_candidate *candidates = espresso->candidates;
    uint32_t n = 0;

    for (uint32_t i = 0; i < espresso->n; i++) {
        uint32_t option = espresso->option[i];
        if (offload[option] < rates->n_options && option != espresso->seek->params->uncompressed &&
            wring_rates_allow(rates, i, i + 1, offload[option]))
            candidates[n++] = (struct wring_espresso_candidate){elems[i + 1] - elems[i], i, option};
    }
    qsort(candidates, n, sizeof(*candidates), by_family);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || candidates[i].elems != candidates[i - 1].elems ||
            candidates[i].option != candidates[i - 1].option)
            espresso->families[espresso->n_families++] = (struct wring_espresso_family){.first = i};
        espresso->families[espresso->n_families - 1].n++;
    }
}

static void move(struct wring_espresso *espresso, struct wring_espresso_family *family,
                 uint32_t moved)
{
    const uint32_t *offload = espresso->seek->params->offload;

    for (uint32_t i = 0; i < family->n; i++) {
        const struct wring_espresso_candidate *candidate = &espresso->candidates[family->first + i];
        espresso->option[candidate->tensor] =
            i < moved ? offload[candidate->option] : candidate->option;
    }
    family->moved = moved;
}

/** Forwards only: whoever asks has changed many tensors. */
static double time_all(struct wring_espresso *espresso)
{
    double heads[WRING_PLAN_LANES_MAX] = {0};
    struct wring_task task;

    for (uint32_t i = 0; i < espresso->n; i++) {
        wring_espresso_task(espresso, i, espresso->option[i], &task);
        wring_task_advance(espresso->seek->rates->n_lanes, &task, heads, heads);
    }
    espresso->seek->evaluations++;
    return heads[espresso->seek->rates->n_lanes - 1];
}

/** The next of all combinations of prefixes of the first few families. @return false: no more */
static bool next_combination(struct wring_espresso *espresso, uint32_t few)
{
    for (uint32_t i = 0; i < few; i++) {
        struct wring_espresso_family *family = &espresso->families[i];
        if (family->moved < family->n) {
            move(espresso, family, family->moved + 1);
            return true;
        }
        move(espresso, family, 0);
    }
    return false;
}

/** All combinations of as many families as the cap allows. @param best  scratch, [n_families] */
static void try_combinations(struct wring_espresso *espresso, uint32_t *best)
{
    uint32_t few = 0;

    for (uint64_t product = 1; few < espresso->n_families; few++) {
        product *= espresso->families[few].n + 1;
        if (product > PREFIXES_MAX)
            break;
        best[few] = 0;
    }
    while (next_combination(espresso, few) && !wring_seek_late(espresso->seek)) {
        double time = time_all(espresso);
        if (time >= espresso->time_us * (1 - WRING_ESPRESSO_GAIN))
            continue;
        espresso->time_us = time;
        for (uint32_t i = 0; i < few; i++)
            best[i] = espresso->families[i].moved;
    }
    for (uint32_t i = 0; i < few; i++)
        move(espresso, &espresso->families[i], best[i]);
}

/** The best prefix of one family, the others as they are. @return whether it is another one */
static bool try_prefixes(struct wring_espresso *espresso, struct wring_espresso_family *family)
{
    uint32_t was = family->moved, best = was;

    for (uint32_t moved = 0; moved <= family->n; moved++) {
        move(espresso, family, moved);
        double time = time_all(espresso);
        if (time < espresso->time_us * (1 - WRING_ESPRESSO_GAIN)) {
            espresso->time_us = time;
            best = moved;
        }
    }
    move(espresso, family, best);
    return best != was;
}

void wring_espresso_offload(struct wring_espresso *espresso, uint32_t *best)
{
    bool changed = espresso->seek->params->offload != NULL;

    if (!changed)
        return;
    find_families(espresso);
    try_combinations(espresso, best);
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < espresso->n_families && !wring_seek_late(espresso->seek); i++)
            changed |= try_prefixes(espresso, &espresso->families[i]);
    }
}
