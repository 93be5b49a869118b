/* SPDX-License-Identifier: Apache-2.0 */
/** The machine that a job runs on, as profiles and plans name theirs. */
#ifndef WRING_RUNTIME_PLAN_MACHINE_H
#define WRING_RUNTIME_PLAN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/wring.h>

struct wring_job_machine {
    uint32_t nodes, ranks_per_node; /* nodes of equal size, or each rank as if it were one */
    bool even;                      /* they are known, and of equal size */
    uint32_t cores;                 /* processors that the ranks of rank 0's node may use */
    uint32_t own_cores;             /* that each rank has to itself: the least of all ranks; 0:
                                       ranks of a host share theirs */
    char text[256];                 /* as wring_machine_describe() has it */
};

/**
 * Find out where all ranks run, or where WRING_NODE says that they do. Collective. Processor and
 * cores are those of each rank's own host: rank 0's count.
 *
 * @param first  out, [ranks of the session]: of each rank, the first one on its host; NULL: is not
 *               asked for
 * Errors: WRING_ERR_NO_MEMORY, and those of an exchange.
 */
enum wring_status wring_job_machine_find(struct wring_session *session,
                                         struct wring_job_machine *out, uint32_t *first);

#endif
