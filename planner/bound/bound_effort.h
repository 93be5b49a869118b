/* SPDX-License-Identifier: Apache-2.0 */
/** What looking takes, in nanoseconds of a core that others use, too: counted, so that it is the
 *  same on every machine. */
#ifndef WRING_PLANNER_BOUND_EFFORT_H
#define WRING_PLANNER_BOUND_EFFORT_H

enum {
    WRING_EFFORT_PLAYED = 20,    /* at an arc or an edge, by the game */
    WRING_EFFORT_PRICED = 500,   /* at a group of the table */
    WRING_EFFORT_BRANCHED = 100, /* at a label, by branch and bound */
    WRING_EFFORT_TRIED = 10,     /* at an option of a group, likewise */
};

#endif
