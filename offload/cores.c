/* SPDX-License-Identifier: Apache-2.0 */
#include "offload/cores.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define WRING_MODULE "pool"
#define NUMBER_MAX 65535 /* no machine has a processor of a higher number */

enum wring_status wring_cores_load(const struct wring_log *log, hwloc_topology_t *out)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return WRING_ERR_NO_MEMORY;
    if (hwloc_topology_load(topology) != 0) {
        wring_error(log, "hwloc cannot read this machine's topology: %s", strerror(errno));
        hwloc_topology_destroy(topology);
        return WRING_ERR_SYSTEM;
    }
    /* A container's limits are left out by hwloc itself; an affinity mask is not. */
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    if (bound != NULL && hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_topology_restrict(topology, bound, 0);
    hwloc_bitmap_free(bound);
    *out = topology;
    return WRING_OK;
}

/** The objects that count as cores; on a machine that does not tell, each processor. */
static hwloc_obj_type_t core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

uint32_t wring_cores_count(hwloc_topology_t topology)
{
    int n = hwloc_get_nbobjs_by_type(topology, core_type(topology));
    return n > 0 ? (uint32_t)n : 0;
}

hwloc_obj_t wring_cores_get(hwloc_topology_t topology, uint32_t index)
{
    return hwloc_get_obj_by_type(topology, core_type(topology), index);
}

enum wring_status wring_cores_usable(const struct wring_log *log, uint32_t *out)
{
    hwloc_topology_t topology;
    enum wring_status status = wring_cores_load(log, &topology);

    if (status != WRING_OK)
        return status;
    int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    *out = n > 0 ? (uint32_t)n : 0;
    hwloc_topology_destroy(topology);
    return WRING_OK;
}

/** A plain number at *text; false where there is none. */
static bool parse_number(const char **text, unsigned *out)
{
    unsigned number = 0;
    const char *start = *text;

    for (; **text >= '0' && **text <= '9'; ++*text) {
        number = number * 10 + (unsigned)(**text - '0');
        if (number > NUMBER_MAX)
            return false;
    }
    *out = number;
    return *text != start;
}

/** "0,2-3" into a set. False where it is malformed. */
static bool parse_core_list(const char *text, hwloc_bitmap_t set)
{
    for (;; text++) {
        unsigned first, last;
        if (!parse_number(&text, &first))
            return false;
        last = first;
        if (*text == '-' && (text++, !parse_number(&text, &last)))
            return false;
        if (last < first)
            return false;
        hwloc_bitmap_set_range(set, first, (int)last);
        if (*text != ',')
            return *text == '\0';
    }
}

static enum wring_status take_listed_cores(hwloc_const_bitmap_t allowed,
                                           hwloc_const_bitmap_t listed, const char *text,
                                           const struct wring_log *log, unsigned *cores, size_t max,
                                           size_t *count)
{
    size_t n = 0;
    unsigned core;

    hwloc_bitmap_foreach_begin(core, listed)
    {
        if (!hwloc_bitmap_isset(allowed, core)) {
            char usable[256];
            hwloc_bitmap_list_snprintf(usable, sizeof(usable), allowed);
            wring_error(log, "pool:%s: this process may not use core %u; it may use %s", text, core,
                        usable);
            return WRING_ERR_INVALID;
        }
        if (n == max) {
            wring_error(log, "pool:%s: more than %zu cores", text, max);
            return WRING_ERR_INVALID;
        }
        cores[n++] = core;
    }
    hwloc_bitmap_foreach_end();
    *count = n;
    return WRING_OK;
}

/**
 * One processor of each core, last core first, the application's core after all others; then the
 * cores' further hardware threads likewise. @return how many there are, at most max
 */
static size_t order_processors(hwloc_topology_t topology, int own, unsigned *order, size_t max)
{
    uint32_t n_cores = wring_cores_count(topology);
    size_t n = 0;

    for (int pass = 0; pass < 4; pass++) { /* others' first threads, own; others' second, own */
        for (uint32_t i = n_cores; i > 0; i--) {
            hwloc_obj_t object = wring_cores_get(topology, i - 1);
            bool is_own = own >= 0 && hwloc_bitmap_isset(object->cpuset, (unsigned)own);
            int first = hwloc_bitmap_first(object->cpuset);
            int processor = pass < 2 ? first : hwloc_bitmap_next(object->cpuset, first);
            if (is_own != (pass % 2 == 1))
                continue;
            for (; processor >= 0 && n < max;
                 processor = pass < 2 ? -1 : hwloc_bitmap_next(object->cpuset, processor))
                order[n++] = (unsigned)processor;
        }
    }
    return n;
}

static enum wring_status take_core_count(hwloc_topology_t topology, int own, unsigned wanted,
                                         const struct wring_log *log, unsigned *cores, size_t max,
                                         size_t *count)
{
    if (wanted == 0 || wanted > max) {
        wring_error(log, "pool:%u: needs a number of cores from 1 to %zu", wanted, max);
        return WRING_ERR_INVALID;
    }
    size_t usable = order_processors(topology, own, cores, wanted);
    if (usable == 0) {
        wring_error(log, "pool: no core of this process can be found");
        return WRING_ERR_INVALID;
    }
    if (usable < wanted)
        wring_warn(log, "pool:%u: this process may use %zu cores only; threads share them", wanted,
                   usable);
    for (size_t i = usable; i < wanted; i++)
        cores[i] = cores[i % usable];
    *count = wanted;
    return WRING_OK;
}

enum wring_status wring_cores_choose(hwloc_topology_t topology, const char *text, int own,
                                     const struct wring_log *log, unsigned *cores, size_t max,
                                     size_t *count)
{
    const char *rest = text;
    unsigned wanted;

    if (text == NULL || *text == '\0')
        return take_core_count(topology, own, 1, log, cores, max, count);
    if (parse_number(&rest, &wanted) && *rest == '\0')
        return take_core_count(topology, own, wanted, log, cores, max, count);

    enum wring_status status = WRING_ERR_INVALID;
    hwloc_bitmap_t listed = hwloc_bitmap_alloc();
    if (listed == NULL)
        return WRING_ERR_NO_MEMORY;
    if (strncmp(text, "cores=", 6) == 0 && parse_core_list(text + 6, listed))
        status = take_listed_cores(hwloc_topology_get_topology_cpuset(topology), listed, text, log,
                                   cores, max, count);
    else
        wring_error(log, "pool:%s: needs a number of cores, or cores=LIST such as cores=0,2-3",
                    text);
    hwloc_bitmap_free(listed);
    return status;
}
