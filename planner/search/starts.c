/* SPDX-License-Identifier: Apache-2.0 */
/** Starting points of a search. */
#include "planner/search/starts.h"

#include <float.h>

enum {
    EVEN = 8,     /* groups of a plain start */
    SMALL = 1000, /* tensors times options up to which each option is one tensor by tensor */
    GREEDY = 64,  /* tensors up to which Espresso's answer is one */
};

/** Option by option, a few groups of as many tensors each. @return the best option so */
static uint32_t offer_even(struct wring_seek *seek)
{
    uint32_t n = seek->rates->n_tensors, groups = n < EVEN ? n : EVEN, even[EVEN], best = 0;

    for (uint32_t i = 0; i < groups; i++)
        even[i] = (uint32_t)((uint64_t)n * (i + 1) / groups);
    for (uint32_t option = 0; option < seek->rates->n_options; option++) {
        double before = seek->time_us;
        wring_seek_uniform(seek, even, groups, option, &seek->trial);
        wring_seek_offer(seek, &seek->trial);
        best = seek->time_us < before ? option : best;
    }
    return best;
}

static void offer_alone(struct wring_seek *seek, uint32_t option)
{
    wring_seek_alone(seek, option, &seek->trial);
    wring_seek_offer(seek, &seek->trial);
}

enum wring_status wring_seek_start(struct wring_seek *seek, const struct wring_stops *stops)
{
    const struct wring_rates *rates = seek->rates;
    uint32_t best = offer_even(seek);
    enum wring_status status = WRING_OK;

    offer_alone(seek, seek->params->uncompressed);
    offer_alone(seek, best);
    for (uint32_t option = 0; option < rates->n_options; option++)
        if ((uint64_t)rates->n_tensors * rates->n_options <= SMALL)
            offer_alone(seek, option);
    if (rates->n_tensors <= GREEDY)
        status = wring_seek_espresso(seek);
    if (status == WRING_OK)
        status = wring_seek_mergecomp(seek, best, stops->at + 1, stops->n);
    return status;
}

double wring_seek_floor(const struct wring_seek *seek)
{
    const struct wring_rates *rates = seek->rates;
    uint32_t last = rates->n_tensors - 1;
    double least = DBL_MAX;
    struct wring_task task;

    for (uint32_t option = 0; option < rates->n_options; option++) {
        if (!wring_rates_allow(rates, last, last + 1, option))
            continue;
        if (rates->problem->options[option].chunk_elems != 0)
            return 0; /* of a larger group chunks may be smaller */
        wring_rates_task(rates, last, last + 1, option, &task);
        double us = 0;
        for (uint32_t lane = 0; lane < rates->n_lanes; lane++)
            us += task.took[lane];
        least = us < least ? us : least;
    }
    return rates->compute_us[last] + least;
}
