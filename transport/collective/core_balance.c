/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/core_balance.h"

#include <stdbool.h>

/** Members on each core. @return false: nobody can tell */
static bool count_members(const uint32_t *cores, uint32_t n, uint32_t load[CPU_SETSIZE])
{
    for (uint32_t i = 0; i < n; i++) {
        if (cores[i] == 0 || cores[i] > CPU_SETSIZE)
            return false;
        load[cores[i] - 1]++;
    }
    return true;
}

/** Of all members on its core; only one may move at a time. */
static bool is_last_there(const uint32_t *cores, uint32_t n, uint32_t me)
{
    for (uint32_t i = me + 1; i < n; i++)
        if (cores[i] == cores[me])
            return false;
    return true;
}

static int emptiest(const uint32_t load[CPU_SETSIZE], const cpu_set_t *usable)
{
    int best = -1;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, usable) && (best < 0 || load[core] < load[best]))
            best = core;
    return best;
}

int wring_spread_choose(const uint32_t *cores, uint32_t n, uint32_t me, const cpu_set_t *usable)
{
    uint32_t load[CPU_SETSIZE] = {0};

    if (!is_last_there(cores, n, me) || !count_members(cores, n, load))
        return -1;
    int core = emptiest(load, usable);
    return core >= 0 && load[core] + 2 <= load[cores[me] - 1] ? core : -1;
}

void wring_spread_move(int core, const cpu_set_t *usable)
{
    cpu_set_t there;

    CPU_ZERO(&there);
    CPU_SET(core, &there);
    if (sched_setaffinity(0, sizeof(there), &there) == 0)
        sched_setaffinity(0, sizeof(*usable), usable);
}
