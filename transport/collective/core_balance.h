/* SPDX-License-Identifier: Apache-2.0 */
/**
 * More ranks than cores, and one core has two ranks more than another: that holds for long, as a
 * scheduler that shares time out fairly sees nothing amiss among threads which all give way. A step
 * takes as long as the fullest core's turns, so one of that core's ranks moves itself.
 *
 * Threads: safe.
 */
#ifndef WRING_TRANSPORT_COLLECTIVE_CORE_BALANCE_H
#define WRING_TRANSPORT_COLLECTIVE_CORE_BALANCE_H

#include <sched.h>
#include <stdint.h>

/**
 * @param cores   [n] of each member, + 1; 0: unknown. Hostile
 * @param me      whose core is cores[me]
 * @param usable  by us
 * @return the core to go to: the emptiest, the first of these, if it has at least two members less
 *         than ours and we are our core's last member. -1: stay. -1 also if any is unknown
 */
int wring_spread_choose(const uint32_t *cores, uint32_t n, uint32_t me, const cpu_set_t *usable);

/** Have this thread go on there; which cores it may use stays what it is. A refusal is no harm. */
void wring_spread_move(int core, const cpu_set_t *usable);

#endif
