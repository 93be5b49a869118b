/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which hosts stand at one site, by the time to each of them and back: where the nearest ones are
 * at least WRING_SITES_GAP times nearer than the next ones, which are more than a millisecond away.
 * Without such a gap nothing is said, so that two measurements of one network do not differ.
 *
 * One host after the other is asked how far all others are, until all have a site.
 */
#ifndef WRING_TRANSPORT_SITES_H
#define WRING_TRANSPORT_SITES_H

#include <stdbool.h>
#include <stdint.h>

#define WRING_SITES_MAX 16
#define WRING_SITES_GAP 5
#define WRING_SITES_UNKNOWN UINT64_MAX /* a round trip that could not be measured */

struct wring_sites {
    uint32_t hosts, n; /* n sites so far */
    uint32_t *first;   /* [hosts] the first host of each one's site; hosts: it has none yet */
    uint32_t asked[WRING_SITES_MAX];                    /* [n] the first host of each site */
    uint64_t ways_ns[WRING_SITES_MAX][WRING_SITES_MAX]; /* from its first host to that of another */
};

/** @param first  [hosts], the caller's for the object's life; filled in */
void wring_sites_init(struct wring_sites *sites, uint32_t hosts, uint32_t *first);

/** The host that is to be asked next; hosts: all have their sites. */
uint32_t wring_sites_next(const struct wring_sites *sites);

/**
 * The next host has been asked: that is its site.
 * @param round_trips_ns  [hosts] from it, its own 0
 * @param sorted          [hosts], scratch
 * @return false: there is no clear gap, some way is unknown, or there are more than WRING_SITES_MAX
 */
bool wring_sites_place(struct wring_sites *sites, const uint64_t *round_trips_ns, uint64_t *sorted);

/**
 * In which order a ring passes the sites, so that the way around is short. They stand in the order
 * of their first hosts, but for runs of them that are turned around, each of which shortens the way
 * by an eighth or more: small differences, which the next measurement may not find again, change
 * nothing. @param places  out, [n]: how many sites come before each
 */
void wring_sites_around(const struct wring_sites *sites, uint32_t *places);

#endif
