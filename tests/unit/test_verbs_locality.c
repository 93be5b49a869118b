/* SPDX-License-Identifier: Apache-2.0 */
/* Where RDMA devices hang: a machine of two sockets with a card on each, and one on neither. */
#include "transport/providers/verbs/library.h"

#include <string.h>

#include "tests/lib/test.h"

static hwloc_topology_t two_sockets; /* cores 0-1 and 2-3, NUMA nodes 0 and 1 */

static struct verbs_port locality(const char *device, const char *cores)
{
    struct verbs_port port = {.locality = VERBS_LOCALITY_FAR, .numa = 7};
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    CHECK(set != NULL && hwloc_bitmap_list_sscanf(set, cores) == 0, "%s", cores);
    snprintf(port.device, sizeof(port.device), "%s", device);
    wring_verbs_find_locality_in(two_sockets, set, &port);
    hwloc_bitmap_free(set);
    return port;
}

static void devices_are_near_or_far(void)
{
    static const struct {
        const char *device, *cores;
        enum verbs_locality want;
        int numa;
    } cases[] = {
        {"mlx5_0", "0-1", VERBS_LOCALITY_NEAR, 0}, {"mlx5_0", "2-3", VERBS_LOCALITY_FAR, 0},
        {"mlx5_1", "0-1", VERBS_LOCALITY_FAR, 1},  {"mlx5_1", "3", VERBS_LOCALITY_NEAR, 1},
        {"mlx5_0", "1,2", VERBS_LOCALITY_NEAR, 0}, {"mlx5_1", "0-3", VERBS_LOCALITY_NEAR, 1},
        {"mlx5_9", "0", VERBS_LOCALITY_NEAR, -1}, /* hangs off the whole machine */
        {"rxe0", "0", VERBS_LOCALITY_UNKNOWN, -1}, {"mlx5_", "0", VERBS_LOCALITY_UNKNOWN, -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct verbs_port port = locality(cases[i].device, cases[i].cores);
        CHECK(port.locality == cases[i].want && port.numa == cases[i].numa,
              "%s from %s: %d, node %d", cases[i].device, cases[i].cores, port.locality, port.numa);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"devices_are_near_or_far", devices_are_near_or_far},
        {NULL, NULL},
    };
    if (hwloc_topology_init(&two_sockets) != 0 ||
        hwloc_topology_set_xml(two_sockets, WRING_TEST_DATA "/two-sockets.xml") != 0 ||
        hwloc_topology_set_io_types_filter(two_sockets, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc_topology_load(two_sockets) != 0) {
        fprintf(stderr, "the recorded machine cannot be read\n");
        return 1;
    }
    int result = wring_test_main(argc, argv, cases);
    hwloc_topology_destroy(two_sockets);
    return result;
}
