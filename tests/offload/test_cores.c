/* SPDX-License-Identifier: Apache-2.0 */
/** Which cores a pool takes. */
#include <stdio.h>
#include <string.h>

#include "offload/cores.h"
#include "tests/lib/test.h"

static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level, (void)module;
    snprintf(arg, 256, "%s", text);
}

static void choose(const char *machine, const char *text, int own, const char *want)
{
    hwloc_topology_t topology;
    char why[256] = "", got[256] = "";
    struct wring_log log = {drop_line, why, WRING_LOG_WARN};
    unsigned cores[64];
    size_t count;

    hwloc_topology_init(&topology);
    hwloc_topology_set_synthetic(topology, machine);
    hwloc_topology_load(topology);
    if (wring_cores_choose(topology, text, own, &log, cores, 64, &count) == WRING_OK)
        for (size_t i = 0; i < count; i++)
            snprintf(got + strlen(got), sizeof(got) - strlen(got), i > 0 ? " %u" : "%u", cores[i]);
    else
        snprintf(got, sizeof(got), "%s", why);
    CHECK(strcmp(got, want) == 0, "'%s' on %s, application on %d: got '%s', not '%s'", text,
          machine, own, got, want);
    hwloc_topology_destroy(topology);
}

static void core_lists(void)
{
    choose("core:4 pu:1", "1", 0, "3");
    choose("core:4 pu:1", NULL, 3, "2");
    choose("core:4 pu:1", "4", 3, "2 1 0 3");
    choose("core:2 pu:2", "4", 0, "2 0 3 1");
    choose("core:1 pu:1", "1", 0, "0");
    choose("core:2 pu:1", "3", 0, "1 0 1");
    choose("core:4 pu:1", "cores=0,2-3", 0, "0 2 3");
    choose("core:4 pu:1", "cores=1", -1, "1");
    choose("core:4 pu:1", "0", 0, "pool:0: needs a number of cores from 1 to 64");
    choose("core:4 pu:1", "cores=9", 0,
           "pool:cores=9: this process may not use core 9; it may use 0-3");
    static const char *const malformed[] = {"x",  "cores=", "cores=1,",         "cores=3-1",
                                            "-1", "1 ",     "cores=99999999999"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char want[200];
        snprintf(want, sizeof(want),
                 "pool:%s: needs a number of cores, or cores=LIST such as cores=0,2-3",
                 malformed[i]);
        choose("core:4 pu:1", malformed[i], 0, want);
    }
}

static const struct wring_test_case cases[] = {
    {"core_lists", core_lists},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
