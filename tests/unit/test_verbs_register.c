/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of refusals: limits, ordering that a device does not know, dma-bufs. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/lib/test.h"
#include "tests/unit/made_up_devices.h"

static const char *const usual[] = {NULL};

/** The limit in force and the need, both in the line. */
static void limits_are_explained(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    struct wring_memory what = host(pages, 12288, false);
    struct wring_region *region, *first = make_region(memory, host(pages, 4096, false));
    struct rlimit before, small = {65536, 65536};
    CHECK(getrlimit(RLIMIT_MEMLOCK, &before) == 0, "getrlimit");
    small.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &small) == 0, "setrlimit");
    devices.limit = 2 * 4096 + 12288; /* the second device has no room */
    enum wring_status status = wring_verbs_region_create(memory, NULL, &what, &region);
    CHECK(status == WRING_ERR_NO_MEMORY, "%s", wring_status_text(status));
    static const char *const parts[] = {"cannot register 12288 bytes with second",
                                        "may lock 65536 bytes (ulimit -l 64)",
                                        "has 20480 registered", "needs 12288 more"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        CHECK(strstr(said, parts[i]) != NULL, "'%s' has no '%s'", said, parts[i]);
    CHECK(devices.alive == RAILS, "the first device's part is left");
    CHECK(setrlimit(RLIMIT_MEMLOCK, &before) == 0, "setrlimit");
    if (before.rlim_cur == RLIM_INFINITY) {
        wring_verbs_region_create(memory, NULL, &what, &region);
        CHECK(strstr(said, "not limited") != NULL, "'%s'", said);
    }
    wring_verbs_region_destroy(first);
    devices.error = EFAULT;
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_INVALID, "EFAULT");
    devices.error = EIO;
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_DEVICE, "EIO");
    CHECK(strstr(said, "with first") != NULL, "'%s'", said);
    what.bytes = 0;
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_INVALID, "no bytes");
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);
}

static void ordering_is_relaxed_for_targets_only(void)
{
    static const char *const off[] = {"WRING_VERBS_RELAXED_ORDERING", "off", NULL};
    static const char *const on[] = {"WRING_VERBS_RELAXED_ORDERING", "on", NULL};
    restart();
    struct wring_memory what = host(pages, 4096, false);
    struct verbs_pin *pin;
    struct verbs_memory *memory = open_memory(usual);
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == (ACCESS | IBV_ACCESS_RELAXED_ORDERING), "0x%x", devices.access);
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_WORDS, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == ACCESS, "0x%x", devices.access);
    wring_verbs_unpin(memory, pin);
    wring_verbs_unpin(memory, NULL);
    wring_verbs_memory_destroy(memory);
    memory = open_memory(off);
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == ACCESS, "0x%x", devices.access);
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);

    memory = open_memory(usual);
    devices.strict = true;
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(devices.access == ACCESS && strstr(said, "first refuses") != NULL, "'%s'", said);
    said[0] = '\0';
    CHECK(wring_verbs_pin(memory, &what, VERBS_PIN_TARGET, &pin) == WRING_OK, "%s", said);
    CHECK(said[0] == '\0', "tried again: '%s'", said);
    wring_verbs_memory_destroy(memory);

    struct verbs_memory_params params = {.library = &library, .log = &log_said, .config = &config};
    memory = open_memory(on);
    wring_verbs_memory_destroy(memory);
    library.reg_mr_iova2 = NULL; /* an old library */
    said[0] = '\0';
    CHECK(wring_verbs_memory_create(&params, &memory) == WRING_OK, "create");
    CHECK(strstr(said, "writes stay in order") != NULL, "'%s'", said);
    wring_verbs_memory_destroy(memory);
}

static void dmabufs_are_taken_where_devices_take_them(void)
{
    static const int noes[] = {EOPNOTSUPP, EPROTONOSUPPORT, EINVAL};
    struct wring_region *region;
    struct wring_memory what = {.base = (void *)(uintptr_t)0x7f0000001000,
                                .bytes = 8192,
                                .kind = WRING_MEMORY_DEVICE,
                                .fd = 33,
                                .fd_offset = 4096};
    for (size_t i = 0; i < sizeof(noes) / sizeof(noes[0]); i++) {
        restart();
        devices.probe_error = noes[i];
        struct verbs_memory *memory = open_memory(usual);
        CHECK(!wring_verbs_memory_takes_dmabuf(memory), "error %d", noes[i]);
        CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_UNSUPPORTED,
              "error %d", noes[i]);
        CHECK(strstr(said, "dma-buf") != NULL, "'%s'", said);
        wring_verbs_memory_destroy(memory);
    }
    restart();
    devices.probe_error = EBADF;
    struct verbs_memory *memory = open_memory(usual);
    CHECK(wring_verbs_memory_takes_dmabuf(memory), "EBADF");
    region = make_region(memory, what);
    CHECK(devices.alive == RAILS && devices.fd == 33 && devices.offset == 4096 &&
              devices.iova == 0x7f0000001000,
          "registered otherwise");
    what.source_only = true; /* never shared: its address is another device's */
    struct wring_region *a = make_region(memory, what), *b = make_region(memory, what);
    CHECK(devices.alive == 3 * RAILS, "shared");
    wring_verbs_region_destroy(a);
    wring_verbs_region_destroy(b);
    CHECK(devices.alive == RAILS, "kept");
    devices.error = EOPNOTSUPP; /* of that exporter */
    CHECK(wring_verbs_region_create(memory, NULL, &what, &region) == WRING_ERR_UNSUPPORTED, "'%s'",
          said);
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"limits_are_explained", limits_are_explained},
        {"ordering_is_relaxed_for_targets_only", ordering_is_relaxed_for_targets_only},
        {"dmabufs_are_taken_where_devices_take_them", dmabufs_are_taken_where_devices_take_them},
        {NULL, NULL},
    };
    if (!devices_begin())
        return 1;
    return wring_test_main(argc, argv, cases);
}
