/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations that are shared and kept: what is found again, what goes, and when. */
#include "transport/providers/verbs/memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static unsigned dropped, alive;
static uintptr_t last_dropped;

static void count_drop(void *arg, struct verbs_entry *entry)
{
    CHECK(arg == &dropped, "another argument");
    CHECK(entry->users == 0, "%u users at %zx", entry->users, (size_t)entry->begin);
    dropped++;
    alive--;
    last_dropped = entry->begin;
    free(entry);
}

static struct verbs_cache make_cache(uint64_t budget)
{
    dropped = alive = 0;
    return (struct verbs_cache){.budget = budget, .drop = count_drop, .arg = &dropped};
}

static struct verbs_entry *add(struct verbs_cache *cache, uintptr_t begin, size_t bytes)
{
    struct verbs_entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        abort();
    entry->begin = begin;
    entry->end = begin + bytes;
    alive++;
    wring_verbs_cache_add(cache, entry);
    return entry;
}

static void finish(struct verbs_cache *cache)
{
    wring_verbs_cache_gone(cache, 0, SIZE_MAX);
    CHECK(cache->newest == NULL && cache->oldest == NULL, "something is left");
    CHECK(alive == 0 && cache->idle_bytes == 0, "%u left, %llu bytes", alive,
          (unsigned long long)cache->idle_bytes);
}

static void users_share(void)
{
    struct verbs_cache cache = make_cache(0);
    struct verbs_entry *entry = add(&cache, 1000, 100);
    CHECK(wring_verbs_cache_take(&cache, 1000, 100) == entry, "the same");
    CHECK(wring_verbs_cache_take(&cache, 1050, 50) == entry, "a part");
    CHECK(wring_verbs_cache_take(&cache, 1100, 0) == entry, "nothing, at its end");
    static const uintptr_t others[][2] = {{999, 2},  {1099, 2}, {1101, 0},
                                          {1100, 1}, {0, 5000}, {1050, SIZE_MAX}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK(wring_verbs_cache_take(&cache, others[i][0], others[i][1]) == NULL, "%zu", i);
    for (unsigned i = 0; i < 4; i++) {
        CHECK(dropped == 0, "dropped with users");
        wring_verbs_cache_release(&cache, entry);
    }
    CHECK(dropped == 1, "kept in spite of a budget of nothing");
    finish(&cache);
}

static void the_least_recently_used_go_first(void)
{
    struct verbs_cache cache = make_cache(300);
    struct verbs_entry *entries[4];
    for (unsigned i = 0; i < 4; i++)
        entries[i] = add(&cache, 1000 * (i + 1), 100);
    for (unsigned i = 0; i < 3; i++)
        wring_verbs_cache_release(&cache, entries[i]);
    CHECK(dropped == 0 && cache.idle_bytes == 300, "%u dropped", dropped);
    CHECK(wring_verbs_cache_take(&cache, 1000, 100) == entries[0], "kept");
    wring_verbs_cache_release(&cache, entries[0]); /* the latest now; the second is the oldest */
    wring_verbs_cache_release(&cache, entries[3]);
    CHECK(dropped == 1 && last_dropped == 2000, "%u dropped, %zu last", dropped,
          (size_t)last_dropped);
    struct verbs_entry *large = add(&cache, 9000, 301); /* alone more than the budget */
    wring_verbs_cache_release(&cache, large);
    CHECK(dropped == 5 && cache.idle_bytes == 0, "%u dropped", dropped);
    finish(&cache);
}

static void memory_that_is_gone_is_not_found(void)
{
    struct verbs_cache cache = make_cache(10000);
    struct verbs_entry *used = add(&cache, 1000, 100), *kept = add(&cache, 2000, 100);
    struct verbs_entry *other = add(&cache, 3000, 100);
    wring_verbs_cache_release(&cache, kept);
    wring_verbs_cache_release(&cache, other);
    wring_verbs_cache_gone(&cache, 1100, 900); /* touches neither neighbour */
    CHECK(dropped == 0, "neighbours are gone");
    wring_verbs_cache_gone(&cache, 1099, 902); /* a byte of each */
    CHECK(dropped == 1 && last_dropped == 2000, "%u dropped", dropped);
    CHECK(wring_verbs_cache_take(&cache, 1000, 10) == NULL, "shared, though gone");
    CHECK(wring_verbs_cache_take(&cache, 3000, 10) == other, "the one that was not touched");
    wring_verbs_cache_release(&cache, other);
    struct verbs_entry *again = add(&cache, 1000, 100); /* other memory at the same place */
    CHECK(wring_verbs_cache_take(&cache, 1000, 10) == again, "the old one");
    wring_verbs_cache_release(&cache, again);
    wring_verbs_cache_release(&cache, used);
    CHECK(dropped == 2 && last_dropped == 1000, "what is gone is not kept");
    wring_verbs_cache_release(&cache, again);
    CHECK(dropped == 2, "what is not gone is");
    finish(&cache);
}

static void room_is_made_of_what_is_idle(void)
{
    struct verbs_cache cache = make_cache(10000);
    struct verbs_entry *used = add(&cache, 1000, 100);
    CHECK(!wring_verbs_cache_shrink(&cache, 0), "there was nothing to drop");
    wring_verbs_cache_release(&cache, add(&cache, 2000, 100));
    wring_verbs_cache_release(&cache, add(&cache, 3000, 100));
    CHECK(wring_verbs_cache_shrink(&cache, 150) && dropped == 1 && last_dropped == 2000, "%u",
          dropped);
    CHECK(wring_verbs_cache_shrink(&cache, 0) && dropped == 2, "%u", dropped);
    wring_verbs_cache_release(&cache, used);
    finish(&cache);
}

/** Any order of calls: users never see theirs go, the budget holds, and nothing is left. */
static void any_order_holds(void)
{
    enum {
        USERS = 40
    };
    struct verbs_entry *users[USERS] = {NULL};
    uintptr_t at[USERS] = {0};
    struct verbs_cache cache = make_cache(5000);
    uint32_t random = 4711;
    for (unsigned step = 0; step < 100000; step++) {
        uint32_t bits = wring_test_random(&random);
        unsigned who = bits % USERS;
        uintptr_t begin = 1000 + (bits >> 8) % 5000;
        size_t bytes = 1 + (bits >> 22) % 900;
        if (users[who] != NULL) {
            CHECK(users[who]->users > 0 && at[who] >= users[who]->begin, "its entry went");
            wring_verbs_cache_release(&cache, users[who]);
            users[who] = NULL;
        } else {
            users[who] = wring_verbs_cache_take(&cache, begin, bytes);
            if (users[who] == NULL)
                users[who] = add(&cache, begin, bytes);
            CHECK(users[who]->begin <= begin && users[who]->end >= begin + bytes &&
                      !users[who]->gone,
                  "does not cover it");
            at[who] = begin;
        }
        if (bits % 31 == 0)
            wring_verbs_cache_gone(&cache, begin, bytes);
        CHECK(cache.idle_bytes <= 5000, "%llu idle", (unsigned long long)cache.idle_bytes);
    }
    for (unsigned i = 0; i < USERS; i++)
        if (users[i] != NULL)
            wring_verbs_cache_release(&cache, users[i]);
    finish(&cache);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"users_share", users_share},
        {"the_least_recently_used_go_first", the_least_recently_used_go_first},
        {"memory_that_is_gone_is_not_found", memory_that_is_gone_is_not_found},
        {"room_is_made_of_what_is_idle", room_is_made_of_what_is_idle},
        {"any_order_holds", any_order_holds},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
