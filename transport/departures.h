/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ranks that have left, and that neighbours in the control tree are yet to be told of; when, and in
 * which words. A rank says good-bye to its neighbours alone, which tell theirs now and then. They
 * are told at once if they were told nothing for a while, else later: the second time after 1 ms,
 * then 2, 4, 8, and 16 ms. So many that leave together cost as many messages as a few.
 */
#ifndef WRING_TRANSPORT_DEPARTURES_H
#define WRING_TRANSPORT_DEPARTURES_H

#include "transport/control.h"

struct wring_control_link;
struct wring_fates;

struct wring_departures {
    struct wring_departure {
        uint32_t rank, from; /* who has told us: nobody tells that one again */
    } * list;                /* [n], room for all ranks */
    uint32_t n;
    uint64_t due_ns; /* when they are to be told, where n is not 0 */
    uint64_t told_ns, gap_ns;
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_departures_init(struct wring_departures *departures, uint32_t ranks);
void wring_departures_finish(struct wring_departures *departures);

/** A rank has left, of which nobody has told before. */
void wring_departures_add(struct wring_departures *departures, uint32_t rank, uint32_t from,
                          uint64_t now_ns);

/** In order of ranks, as they are written. */
void wring_departures_sort(struct wring_departures *departures);

/** All have been told. */
void wring_departures_told(struct wring_departures *departures, uint64_t now_ns);

/* Words to neighbours. If we leave, each is a good-bye, too: one answer is for both. */

/** Tell all neighbours that have not left themselves. Those below one that has hear it from their
 *  next parent, and those above it by way of it, as nobody else may know. Who leaves says good-bye
 *  again: the answer is that to all before it.
 *  @param rank, leaving  our own rank; whether we leave */
void wring_departures_tell(struct wring_departures *departures, struct wring_control_link *links,
                           uint32_t rank, bool leaving, uint64_t now_ns);

/** Tell a neighbour whose connection is new of all that have left. */
void wring_departures_introduce(const struct wring_fates *fates, struct wring_control_link *link,
                                bool leaving);

/** Say good-bye to a neighbour, and nothing else. @param rank  our own */
void wring_departures_say_bye(struct wring_control_link *link, uint32_t rank);

/* The body of a message: ranges of ranks, first and last. */

#define WRING_RANGE_BYTES (2 * sizeof(uint32_t))

/** Add a rank, higher than those in it. @return false: it is full */
bool wring_ranges_add(struct wring_control *control, uint32_t rank);

struct wring_range {
    uint32_t first, last;
};

/** The next one of hostile bytes; they come to an end. @return false: malformed */
bool wring_ranges_next(struct wring_reader *reader, uint32_t ranks, struct wring_range *out);

#endif
