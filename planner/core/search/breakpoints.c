/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/breakpoints.h"

#include <stdlib.h>
#include <string.h>

struct place {
    uint32_t at;
    double weight;
};

static int heaviest(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/**
 * A cut pays where much can leave early: where the tensor before it is large and the one after it
 * is long in coming. Small shares of the whole keep those apart that have only one of the two.
 */
static enum wring_status rank_places(struct wring_breakpoints *breakpoints)
{
    const struct wring_cost_tables *tables = breakpoints->tables;
    uint32_t n = tables->n_tensors;
    const struct wring_problem *problem = tables->problem;
    struct place *places = malloc(n * sizeof(*places));

    if (places == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 1; i < n; i++) {
        double elems = (double)(problem->elems[i] - problem->elems[i - 1]);
        places[i - 1].at = i;
        places[i - 1].weight = (elems / (double)problem->elems[n] + 1e-9) *
                               (problem->compute_us[i] / (tables->compute_us[n] + 1e-9) + 1e-9);
    }
    qsort(places, n - 1, sizeof(*places), heaviest);
    for (uint32_t i = 0; i + 1 < n; i++)
        breakpoints->rank[i] = places[i].at;
    free(places);
    return WRING_OK;
}

enum wring_status wring_breakpoints_init(struct wring_breakpoints *breakpoints,
                                         const struct wring_cost_tables *tables, uint32_t most)
{
    size_t n = tables->n_tensors;

    *breakpoints =
        (struct wring_breakpoints){.tables = tables, .most = most < n ? most : (uint32_t)n};
    breakpoints->at = malloc((n + 1) * sizeof(*breakpoints->at));
    breakpoints->rank = malloc(n * sizeof(*breakpoints->rank));
    breakpoints->taken = malloc((n + 1) * sizeof(*breakpoints->taken));

    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (breakpoints->at != NULL && breakpoints->rank != NULL && breakpoints->taken != NULL)
        status = rank_places(breakpoints);
    if (status != WRING_OK)
        wring_breakpoints_finish(breakpoints);
    return status;
}

void wring_breakpoints_finish(struct wring_breakpoints *breakpoints)
{
    free(breakpoints->at);
    free(breakpoints->rank);
    free(breakpoints->taken);
    *breakpoints = (struct wring_breakpoints){0};
}

static void begin(struct wring_breakpoints *breakpoints)
{
    uint32_t n = breakpoints->tables->n_tensors;

    memset(breakpoints->taken, 0, (n + 1) * sizeof(*breakpoints->taken));
    breakpoints->taken[0] = breakpoints->taken[n] = true;
    breakpoints->n = 1;
}

static void take(struct wring_breakpoints *breakpoints, uint32_t at)
{
    if (breakpoints->n >= breakpoints->most || breakpoints->taken[at])
        return;
    breakpoints->taken[at] = true;
    breakpoints->n++;
}

/** More stops where two are farther apart than one group may be. */
static void mend(struct wring_breakpoints *breakpoints)
{
    const struct wring_cost_tables *tables = breakpoints->tables;
    uint32_t last = 0;

    for (uint32_t i = 1; i < tables->n_tensors; i++) {
        if (!wring_cost_tables_fit(tables, last, i + 1) ||
            !wring_cost_tables_allow_any(tables, last, i + 1))
            breakpoints->taken[i] = true;
        if (breakpoints->taken[i])
            last = i;
    }
}

/** Fill up with the most promising breakpoints, and list them all. */
static void end(struct wring_breakpoints *breakpoints)
{
    uint32_t n = breakpoints->tables->n_tensors;

    for (uint32_t i = 0; i + 1 < n && breakpoints->n < breakpoints->most; i++)
        take(breakpoints, breakpoints->rank[i]);
    mend(breakpoints);
    breakpoints->n = 0;
    breakpoints->at[0] = 0;
    for (uint32_t i = 1; i <= n; i++)
        if (breakpoints->taken[i])
            breakpoints->at[++breakpoints->n] = i;
}

void wring_breakpoints_choose(struct wring_breakpoints *breakpoints)
{
    uint32_t n = breakpoints->tables->n_tensors;

    begin(breakpoints);
    for (uint32_t i = 1; i < 4 && i < n; i++) /* whatever comes last has to be small */
        take(breakpoints, n - i);
    end(breakpoints);
}

void wring_breakpoints_choose_near(struct wring_breakpoints *breakpoints,
                                   const struct wring_grouping *grouping, uint32_t by)
{
    begin(breakpoints);
    for (uint32_t i = 0; i + 1 < grouping->n; i++)
        take(breakpoints, grouping->end[i]);
    for (uint32_t distance = 1; distance <= by; distance++)
        for (uint32_t i = grouping->n; i-- > 0;) {
            if (grouping->end[i] > distance)
                take(breakpoints, grouping->end[i] - distance);
            if (grouping->end[i] + distance < breakpoints->tables->n_tensors)
                take(breakpoints, grouping->end[i] + distance);
        }
    end(breakpoints);
}
