/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: what has keys, what is shared, what is kept and for how long. */
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/made_up_devices.h"

static const char *const usual[] = {NULL};

static void targets_have_keys_of_their_own(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    uint8_t key[WRING_REGION_KEY_MAX], again[WRING_REGION_KEY_MAX];
    struct verbs_key read;
    struct wring_region *a = make_region(memory, host(pages, 5000, false));
    struct wring_region *b = make_region(memory, host(pages, 5000, false));
    CHECK(devices.alive == 2 * RAILS && wring_verbs_memory_registrations(memory) == 2 * RAILS,
          "%u registrations", devices.alive);
    size_t bytes = wring_verbs_region_export(a, key);
    CHECK(bytes == 16 + 4 * RAILS && wring_verbs_region_export(b, again) == bytes, "%zu", bytes);
    REQUIRE(wring_verbs_key_read(key, bytes, RAILS, &read), "its own key is refused");
    CHECK(read.address == (uintptr_t)pages && read.bytes == 5000, "another place");
    CHECK(read.rkeys[0] == 1001 && read.rkeys[1] == 1002, "%u %u", read.rkeys[0], read.rkeys[1]);
    REQUIRE(wring_verbs_key_read(again, bytes, RAILS, &read), "its own key is refused");
    CHECK(read.rkeys[0] == 1003 && wring_verbs_lkey(b, 1) == 4, "shared");
    wring_verbs_region_destroy(a);
    CHECK(devices.alive == RAILS, "%u are left, a key still names something", devices.alive);
    wring_verbs_region_destroy(NULL);
    wring_verbs_memory_destroy(memory); /* with b, which was forgotten */
    CHECK(devices.alive == 0 && devices.locked == 0, "%u left", devices.alive);
    wring_verbs_memory_destroy(NULL);
}

static void keys_are_checked(void)
{
    struct verbs_key read;
    uint8_t key[WRING_REGION_KEY_MAX] = {[0] = 1, [8] = 1};
    for (unsigned rails = 0; rails <= VERBS_RAILS_MAX + 1; rails++)
        for (size_t n = 0; n <= sizeof(key); n++)
            CHECK(wring_verbs_key_read(key, n, rails, &read) ==
                      (rails >= 1 && rails <= VERBS_RAILS_MAX && n == 16 + 4 * rails),
                  "%zu bytes of %u rails", n, rails);
    memset(key, 0xff, 16); /* wraps */
    CHECK(!wring_verbs_key_read(key, 20, 1, &read), "wraps");
    memset(key, 0, 16);
    CHECK(!wring_verbs_key_read(key, 20, 1, &read), "no bytes");
}

static void sources_share_pages(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    uint8_t key[WRING_REGION_KEY_MAX];
    struct wring_region *a = make_region(memory, host(pages + 100, 50, true));
    struct wring_region *b = make_region(memory, host(pages + 3000, 1000, true));
    CHECK(devices.alive == RAILS && devices.access == 0, "%u, access %u", devices.alive,
          devices.access);
    CHECK(wring_verbs_lkey(a, 0) == wring_verbs_lkey(b, 0), "not shared");
    CHECK(wring_verbs_region_export(a, key) == 0, "a source has a key");
    struct wring_region *c = make_region(memory, host(pages + 4000, 200, true)); /* two pages */
    CHECK(devices.alive == 2 * RAILS, "%u", devices.alive);
    struct wring_region *target = make_region(memory, host(pages + 100, 50, false));
    CHECK(devices.alive == 3 * RAILS, "a target shares with a source");
    wring_verbs_region_destroy(target);
    wring_verbs_region_destroy(a);
    wring_verbs_region_destroy(b);
    wring_verbs_region_destroy(c);
    CHECK(devices.alive == 2 * RAILS, "nothing is kept");
    unsigned made = devices.made;
    for (unsigned i = 0; i < 100; i++)
        wring_verbs_region_destroy(make_region(memory, host(pages + 100, 3000, true)));
    CHECK(devices.made == made, "registered again");
    wring_verbs_memory_gone(memory, pages, 1);
    CHECK(devices.alive == 0, "%u are left of memory that is gone", devices.alive);
    wring_verbs_region_destroy(make_region(memory, host(pages + 100, 50, true)));
    CHECK(devices.made == made + RAILS, "found what is gone");
    wring_verbs_memory_destroy(memory);
    CHECK(devices.alive == 0, "%u left", devices.alive);
}

static void budgets_hold(void)
{
    static const char *const two_pages[] = {"WRING_VERBS_CACHE_BYTES", "8192", NULL};
    static const char *const none[] = {"WRING_VERBS_CACHE_BYTES", "0", NULL};
    restart();
    struct verbs_memory *memory = open_memory(two_pages);
    for (unsigned i = 0; i < 4; i++)
        wring_verbs_region_destroy(make_region(memory, host(pages + 4096 * i, 4096, true)));
    CHECK(devices.alive == 2 * RAILS, "%u", devices.alive);
    wring_verbs_memory_destroy(memory);
    memory = open_memory(none);
    wring_verbs_region_destroy(make_region(memory, host(pages, 4096, true)));
    CHECK(devices.alive == 0, "%u", devices.alive);
    wring_verbs_memory_destroy(memory);
}

static void what_is_kept_makes_room(void)
{
    restart();
    struct verbs_memory *memory = open_memory(usual);
    devices.limit = 4 * 4096;
    wring_verbs_region_destroy(make_region(memory, host(pages, 8192, true))); /* twice 8192 */
    CHECK(devices.locked == devices.limit, "not full");
    struct wring_region *region = make_region(memory, host(pages + 8192, 8192, false));
    CHECK(devices.alive == RAILS && wring_verbs_lkey(region, 1) != 0, "%u", devices.alive);
    wring_verbs_memory_destroy(memory);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"targets_have_keys_of_their_own", targets_have_keys_of_their_own},
        {"keys_are_checked", keys_are_checked},
        {"sources_share_pages", sources_share_pages},
        {"budgets_hold", budgets_hold},
        {"what_is_kept_makes_room", what_is_kept_makes_room},
        {NULL, NULL},
    };
    if (!devices_begin())
        return 1;
    return wring_test_main(argc, argv, cases);
}
