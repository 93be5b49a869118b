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
static enum wring_status rank_places(struct wring_stops *stops)
{
    const struct wring_rates *rates = stops->rates;
    uint32_t n = rates->n_tensors;
    const struct wring_problem *problem = rates->problem;
    struct place *places = malloc(n * sizeof(*places));

    if (places == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 1; i < n; i++) {
        double elems = (double)(problem->elems[i] - problem->elems[i - 1]);
        places[i - 1].at = i;
        places[i - 1].weight = (elems / (double)problem->elems[n] + 1e-9) *
                               (problem->compute_us[i] / (rates->compute_us[n] + 1e-9) + 1e-9);
    }
    qsort(places, n - 1, sizeof(*places), heaviest);
    for (uint32_t i = 0; i + 1 < n; i++)
        stops->rank[i] = places[i].at;
    free(places);
    return WRING_OK;
}

enum wring_status wring_stops_init(struct wring_stops *stops, const struct wring_rates *rates,
                                   uint32_t most)
{
    size_t n = rates->n_tensors;

    *stops = (struct wring_stops){.rates = rates, .most = most < n ? most : (uint32_t)n};
    stops->at = malloc((n + 1) * sizeof(*stops->at));
    stops->rank = malloc(n * sizeof(*stops->rank));
    stops->taken = malloc((n + 1) * sizeof(*stops->taken));

    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (stops->at != NULL && stops->rank != NULL && stops->taken != NULL)
        status = rank_places(stops);
    if (status != WRING_OK)
        wring_stops_finish(stops);
    return status;
}

void wring_stops_finish(struct wring_stops *stops)
{
    free(stops->at);
    free(stops->rank);
    free(stops->taken);
    *stops = (struct wring_stops){0};
}

static void begin(struct wring_stops *stops)
{
    uint32_t n = stops->rates->n_tensors;

    memset(stops->taken, 0, (n + 1) * sizeof(*stops->taken));
    stops->taken[0] = stops->taken[n] = true;
    stops->n = 1;
}

static void take(struct wring_stops *stops, uint32_t at)
{
    if (stops->n >= stops->most || stops->taken[at])
        return;
    stops->taken[at] = true;
    stops->n++;
}

/** More stops where two are farther apart than one group may be. */
static void mend(struct wring_stops *stops)
{
    const struct wring_rates *rates = stops->rates;
    uint32_t last = 0;

    for (uint32_t i = 1; i < rates->n_tensors; i++) {
        if (!wring_rates_fit(rates, last, i + 1) || !wring_rates_allow_any(rates, last, i + 1))
            stops->taken[i] = true;
        if (stops->taken[i])
            last = i;
    }
}

/** Fill up with the most promising stops, and list them all. */
static void end(struct wring_stops *stops)
{
    uint32_t n = stops->rates->n_tensors;

    for (uint32_t i = 0; i + 1 < n && stops->n < stops->most; i++)
        take(stops, stops->rank[i]);
    mend(stops);
    stops->n = 0;
    stops->at[0] = 0;
    for (uint32_t i = 1; i <= n; i++)
        if (stops->taken[i])
            stops->at[++stops->n] = i;
}

void wring_stops_choose(struct wring_stops *stops)
{
    uint32_t n = stops->rates->n_tensors;

    begin(stops);
    for (uint32_t i = 1; i < 4 && i < n; i++) /* whatever comes last has to be small */
        take(stops, n - i);
    end(stops);
}

void wring_stops_choose_near(struct wring_stops *stops, const struct wring_grouping *grouping,
                             uint32_t by)
{
    begin(stops);
    for (uint32_t i = 0; i + 1 < grouping->n; i++)
        take(stops, grouping->end[i]);
    for (uint32_t way = 1; way <= by; way++)
        for (uint32_t i = grouping->n; i-- > 0;) {
            if (grouping->end[i] > way)
                take(stops, grouping->end[i] - way);
            if (grouping->end[i] + way < stops->rates->n_tensors)
                take(stops, grouping->end[i] + way);
        }
    end(stops);
}
