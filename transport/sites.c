/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FAR_NS (1 * WRING_NS_PER_MS)
#define NEAR_NS (FAR_NS / WRING_SITES_GAP) /* what is nearer is as near as can be */

void wring_sites_init(struct wring_sites *sites, uint32_t hosts, uint32_t *first)
{
    *sites = (struct wring_sites){.hosts = hosts, .first = first};
    for (uint32_t i = 0; i < hosts; i++)
        first[i] = hosts;
}

uint32_t wring_sites_next(const struct wring_sites *sites)
{
    uint32_t host = 0;

    while (host < sites->hosts && sites->first[host] < sites->hosts)
        host++;
    return host;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/** How many times farther the second one is, where that may part two sites; else 0. */
static double gap_between(uint64_t near_ns, uint64_t far_ns)
{
    double times = (double)far_ns / (double)(near_ns > NEAR_NS ? near_ns : NEAR_NS);
    return far_ns > FAR_NS && times >= WRING_SITES_GAP ? times : 0;
}

/** The longest way within the site: up to the widest gap. @return false: there is none, and not all
 *  are near */
static bool find_limit(const uint64_t *sorted, uint32_t n, uint64_t *limit_ns)
{
    double widest = 0;

    *limit_ns = sorted[n - 1];
    for (uint32_t i = 0; i + 1 < n; i++) {
        double gap = gap_between(sorted[i], sorted[i + 1]);
        if (gap > widest) {
            widest = gap;
            *limit_ns = sorted[i];
        }
    }
    return widest > 0 || *limit_ns <= FAR_NS;
}

bool wring_sites_place(struct wring_sites *sites, const uint64_t *round_trips_ns, uint64_t *sorted)
{
    uint32_t n = sites->hosts, from = wring_sites_next(sites);
    uint64_t limit_ns;

    memcpy(sorted, round_trips_ns, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare);
    if (sites->n == WRING_SITES_MAX || sorted[n - 1] == WRING_SITES_UNKNOWN ||
        !find_limit(sorted, n, &limit_ns))
        return false;
    for (uint32_t i = 0; i < sites->n; i++)
        sites->ways_ns[i][sites->n] = sites->ways_ns[sites->n][i] = round_trips_ns[sites->asked[i]];
    sites->asked[sites->n] = from;
    for (uint32_t i = 0; i < n; i++) {
        if (round_trips_ns[i] > limit_ns)
            continue;
        if (sites->first[i] < n)
            return false; /* an earlier host saw it elsewhere */
        sites->first[i] = from;
    }
    sites->n++;
    return true;
}

/* ---- around ---- */

#define TURN_GAIN 8 /* a run is turned around if that shortens the way by so many-eth */

static uint64_t way_around(const struct wring_sites *sites, const uint32_t *order)
{
    uint64_t ns = 0;

    for (uint32_t i = 0; i < sites->n; i++)
        ns += sites->ways_ns[order[i]][order[(i + 1) % sites->n]];
    return ns;
}

/** Turn around the sites from place `begin` to `end`, that one included. */
static void turn_run(uint32_t *order, uint32_t begin, uint32_t end)
{
    for (; begin < end; begin++, end--) {
        uint32_t site = order[begin];
        order[begin] = order[end];
        order[end] = site;
    }
}

/** Turn around the run that gains most. @return false: none gains enough */
static bool shorten(const struct wring_sites *sites, uint32_t *order)
{
    uint64_t before = way_around(sites, order), least = before;
    uint32_t begin = 0, end = 0;

    for (uint32_t i = 1; i + 1 < sites->n; i++)
        for (uint32_t j = i + 1; j < sites->n; j++) {
            turn_run(order, i, j);
            uint64_t ns = way_around(sites, order);
            turn_run(order, i, j);
            if (ns < least) {
                least = ns;
                begin = i;
                end = j;
            }
        }
    if (before - least < before / TURN_GAIN || begin == end)
        return false;
    turn_run(order, begin, end);
    return true;
}

void wring_sites_around(const struct wring_sites *sites, uint32_t *places)
{
    uint32_t order[WRING_SITES_MAX];

    for (uint32_t i = 0; i < sites->n; i++)
        order[i] = i;
    while (shorten(sites, order))
        continue;
    for (uint32_t i = 0; i < sites->n; i++)
        places[order[i]] = i;
}
