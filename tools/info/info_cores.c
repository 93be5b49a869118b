/* SPDX-License-Identifier: Apache-2.0 */
/** Where codecs run: the cores that wring would choose now, each with the reason. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <hwloc.h>

#include "offload/cores.h"
#include "offload/pool.h"
#include "tools/info/info.h"

struct choice {
    bool pool;
    const char *text; /* of the pool's cores */
    unsigned cores[WRING_POOL_THREADS_MAX];
    size_t n;
    char reason[256]; /* why there is none */
};

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct choice *choice = arg;

    (void)module;
    if (level == WRING_LOG_ERROR)
        snprintf(choice->reason, sizeof(choice->reason), "%s", text);
}

static struct choice choose(hwloc_topology_t topology, const char *executor, int own)
{
    struct choice choice = {.text = ""};
    struct wring_log log = {keep_line, &choice, WRING_LOG_ERROR};

    choice.pool = strcmp(executor, "pool") == 0 || strncmp(executor, "pool:", 5) == 0;
    if (choice.pool && executor[4] == ':')
        choice.text = executor + 5;
    if (!choice.pool && strcmp(executor, "inline") != 0)
        snprintf(choice.reason, sizeof(choice.reason),
                 "needs inline, pool, pool:N or pool:cores=LIST");
    else if (wring_cores_choose(topology, choice.text, own, &log, choice.cores,
                                WRING_POOL_THREADS_MAX, &choice.n) != WRING_OK)
        choice.n = 0;
    return choice;
}

/** The core that a processor of the system's number belongs to; NULL where it is in none. */
static hwloc_obj_t core_of(hwloc_topology_t topology, unsigned processor)
{
    for (uint32_t i = 0; i < wring_cores_count(topology); i++) {
        hwloc_obj_t core = wring_cores_get(topology, i);
        if (hwloc_bitmap_isset(core->cpuset, processor))
            return core;
    }
    return NULL;
}

static bool chosen_before(const struct choice *choice, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (choice->cores[i] == choice->cores[index])
            return true;
    return false;
}

static const char *why(hwloc_topology_t topology, const struct choice *choice, size_t index,
                       int own)
{
    unsigned processor = choice->cores[index];
    hwloc_obj_t core = core_of(topology, processor);

    if (strncmp(choice->text, "cores=", 6) == 0)
        return "WRING_EXECUTOR names it";
    if (chosen_before(choice, index))
        return "shared once more: there are more threads than cores to take";
    if (core != NULL && own >= 0 && hwloc_bitmap_isset(core->cpuset, (unsigned)own))
        return "the application's own core: no other is left";
    if (core != NULL && hwloc_bitmap_first(core->cpuset) != (int)processor)
        return "a second hardware thread: every core has its first one taken";
    return "the last core that is not the application's and not yet taken";
}

static json_t *describe(hwloc_topology_t topology, const struct choice *choice, size_t index,
                        int own)
{
    hwloc_obj_t core = core_of(topology, choice->cores[index]);
    json_t *numa = json_null();

    if (core != NULL && core->nodeset != NULL && hwloc_bitmap_weight(core->nodeset) == 1)
        numa = json_integer(hwloc_bitmap_first(core->nodeset));
    return json_pack("{s:i, s:o, s:s}", "core", (int)choice->cores[index], "numa", numa, "why",
                     why(topology, choice, index, own));
}

static json_t *describe_all(hwloc_topology_t topology, const struct wring_config *config)
{
    int own = sched_getcpu();
    struct choice choice = choose(topology, config->executor, own);
    json_t *numbers = json_array(), *cores = json_array();

    for (size_t i = 0; i < choice.n; i++) {
        json_array_append_new(numbers, json_integer(choice.cores[i]));
        json_array_append_new(cores, describe(topology, &choice, i, own));
    }
    return json_pack("{s:o, s:b, s:o, s:i, s:i, s:o, s:o}", "asked",
                     wring_json_text(config->executor), "pool", choice.pool, "reason",
                     wring_json_text(choice.reason), "usable_cores",
                     (int)wring_cores_count(topology), "application_core", own, "pool_cores",
                     numbers, "cores", cores);
}

json_t *wring_info_executor(const struct wring_config *config)
{
    hwloc_topology_t topology;

    if (wring_cores_load(NULL, &topology) != WRING_OK)
        return NULL;
    json_t *executor = describe_all(topology, config);
    hwloc_topology_destroy(topology);
    return executor;
}
