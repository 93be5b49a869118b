/* SPDX-License-Identifier: Apache-2.0 */
/** What it takes to give a core to another process. */
#ifndef WRING_TESTS_PEERS_MACHINE_HANDOVER_H
#define WRING_TESTS_PEERS_MACHINE_HANDOVER_H

/**
 * Two processes on the caller's core, of which one at a time can go on.
 * @param how  "yield" (sched_yield), "futex" or "pipe"
 * @return us from one going on to the other going on, a median; negative if there is no such way
 */
double handover_time(const char *how);

#endif
