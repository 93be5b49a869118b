/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts of a collective that was measured as a whole: for pictures, not for plans. Its time,
 * its processor time, codec work and bytes were measured apart from each other; this apportions
 * them.
 */
#ifndef WRING_PLANNER_TOOL_COLLECTIVE_PARTS_H
#define WRING_PLANNER_TOOL_COLLECTIVE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/model/cost_model.h"

/** In the order in which pictures have them. */
enum wring_collective_part {
    WRING_PART_ENCODE,
    WRING_PART_WIRE, /* beside all others; copying in shared memory is work instead */
    WRING_PART_DECODE,
    WRING_PART_WORK,  /* of the processor besides: sums of raw data, copies, hand-overs, calls */
    WRING_PART_CORES, /* waiting for a processor that ranks share */
    WRING_PART_PEERS, /* waiting for the link, or for other ranks */
};
#define WRING_COLLECTIVE_PARTS 6

struct wring_collective_parts {
    double took_us; /* the whole collective behind others */
    double us[WRING_COLLECTIVE_PARTS];
    double begin_us[WRING_COLLECTIVE_PARTS]; /* if it were one piece; of several, each has as much
                                              less of everything */
    uint64_t pieces;                         /* that go one after another, 1 or more */
    uint32_t decides; /* bit per part: those that, one after another, take as long as it does */
};

/** "encode", "wire", "decode and add" …; a static string. */
const char *wring_collective_part_name(enum wring_collective_part part);

/**
 * Apportion the time of a group of `elems`.
 *
 * W is the collective's time, P its processor time, E and D those of encoding and decoding. A rank
 * that codes inline has P - E - D for the rest of the work, and waits for the remainder of W. Ranks
 * that share a processor wait for it first, P / share - P. Pinned cores code beside the rest.
 *
 * The wire takes the time of the bytes on the only kind of link. It decides if it is busy for nine
 * tenths of W, the processor is not, and the thread's work with its wait for a core is shorter.
 * Else the thread with the most work decides, its waiting included.
 *
 * @return false: the option was not measured as a whole, or takes no time
 */
bool wring_collective_parts(const struct wring_cost_model *model, uint32_t option, uint64_t elems,
                            struct wring_collective_parts *out);

#endif
