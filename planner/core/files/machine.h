/* SPDX-License-Identifier: Apache-2.0 */
/** What a profile says of where it was measured, to be compared with where it is to be used. */
#ifndef WRING_PLANNER_MACHINE_H
#define WRING_PLANNER_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wring_machine_params {
    const char *version;  /* of wring */
    const char *provider; /* that joins the ranks, "shm,tcp" where there are several */
    uint32_t nodes, ranks_per_node;
    uint32_t cores; /* processors that the ranks of a node may use */
};

/**
 * "wring 0.1.0, Xeon ..., 8 cores, 2 x 4 ranks over tcp": version, processor and how the job was
 * started. No names of hosts, no time: the same on any machine of the kind. @param text out,
 * [bytes]
 */
void wring_machine_describe(const struct wring_machine_params *params, char *text, size_t bytes);

/**
 * Was such a text written on another kind of machine? Version, processor and number of cores count;
 * ranks and providers are the job's, not the machine's.
 *
 * @param machine  as wring_machine_describe() wrote it; "": of none, which differs from nothing
 * @param here     version and cores of this one
 * @param why      out, [bytes]: what differs, with both sides of it
 */
bool wring_machine_differs(const char *machine, const struct wring_machine_params *here, char *why,
                           size_t bytes);

#endif
