/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way is tried next, and which one stays, by what iterations took. Each has a look; then,
 * unless it is clear who wins, as registered and the best one have further ones in turn, so that
 * what else the machine did meanwhile met both.
 */
#include "runtime/plan/autoplan.h"

#define HOPELESS 1.1 /* times as long as without: needs no second look */
#define CLEAR 0.6    /* likewise: no machine is so much faster for a while */
#define WORTH 0.97   /* of the time without, at most: what saves less is not worth a change */

static uint32_t find_best(const struct wring_autoplan *autoplan)
{
    uint32_t best = 1;

    for (uint32_t i = 2; i < autoplan->n_ways; i++)
        if (wring_autoplan_us(&autoplan->ways[i]) < wring_autoplan_us(&autoplan->ways[best]))
            best = i;
    return best;
}

/** Of the best way, beside as registered, in looks that followed each other: their median.
 *  @param agree  out: all say the same */
static double compare_best(const struct wring_autoplan *autoplan, bool *agree)
{
    const struct wring_autoplan_way *none = &autoplan->ways[0];
    const struct wring_autoplan_way *best = &autoplan->ways[autoplan->best];
    double ratios[WRING_AUTOPLAN_LOOKS];
    uint32_t worth = 0;

    for (uint32_t i = 0; i < best->measured; i++) {
        ratios[i] = best->measured_us[i] / none->measured_us[i];
        worth += ratios[i] < WORTH;
    }
    *agree = worth == 0 || worth == best->measured;
    return wring_autoplan_median(ratios, best->measured);
}

/** All ways have been looked at once. */
static bool end_first_round(struct wring_autoplan *autoplan, uint32_t *way)
{
    autoplan->best = find_best(autoplan);
    double of_none =
        wring_autoplan_us(&autoplan->ways[autoplan->best]) / wring_autoplan_us(&autoplan->ways[0]);
    *way = of_none < CLEAR ? autoplan->best : 0;
    return of_none < CLEAR || of_none > HOPELESS;
}

/** The best way has had its turn, after as registered. */
static bool end_turn(const struct wring_autoplan *autoplan, uint32_t *way)
{
    bool agree;
    double of_none = compare_best(autoplan, &agree);
    bool over = agree || autoplan->ways[0].measured == WRING_AUTOPLAN_LOOKS;

    *way = over && of_none < WORTH ? autoplan->best : 0;
    return over;
}

bool wring_autoplan_choose(struct wring_autoplan *autoplan, uint32_t *way)
{
    bool first_round = autoplan->ways[0].measured == 1;

    if (first_round && autoplan->at + 1 == autoplan->n_ways)
        return end_first_round(autoplan, way);
    if (!first_round && autoplan->at > 0)
        return end_turn(autoplan, way);
    *way = first_round ? autoplan->at + 1 : autoplan->best;
    return false;
}
