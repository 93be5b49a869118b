/* SPDX-License-Identifier: Apache-2.0 */
/** How much devices are bothered, as they count it themselves: bytes that ride in requests,
 * requests under one doorbell, completions asked for, receives posted together. */
#include "tests/provider/mock/mock.h"
#include "tests/provider/mock/one_pair.h"

#define BATCH 16
#define TURNS 200

static const char *const one_path[] = {"WRING_VERBS_RAILS", "1", NULL};

static struct mock_counts counts_now(void)
{
    struct mock_counts counts;
    mock_get_counts(&counts);
    return counts;
}

/** One put of so many bytes, from a to b and done. @return requests with their bytes inside */
static uint64_t inlined_by_put(struct one_pair *pair, size_t bytes)
{
    uint64_t before = counts_now().inlined;
    unsigned cookie = pair->a.done;
    CHECK(end_put(&pair->a, pair->a.base, 0, bytes, cookie, cookie) == WRING_OK, "put");
    UNTIL(&pair->a, &pair->b, pair->a.done == cookie + 1 && pair->b.arrived == cookie + 1);
    return counts_now().inlined - before;
}

static void small_puts_ride_inside(void)
{
    static const char *const few[] = {"WRING_VERBS_RAILS", "1", "WRING_VERBS_INLINE_BYTES", "64",
                                      NULL};
    static const char *const none[] = {"WRING_VERBS_RAILS", "1", "WRING_VERBS_INLINE_BYTES", "0",
                                       NULL};
    static const struct {
        const char *const *settings;
        size_t bytes;
        uint64_t want;
    } cases[] = {{one_path, 8, 1}, {one_path, 220, 1}, {one_path, 4096, 0},
                 {few, 64, 1},     {few, 128, 0},      {none, 8, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct one_pair pair;
        REQUIRE(one_pair_open(&pair, cases[i].settings), "no pair: %s", pair.said);
        uint64_t got = inlined_by_put(&pair, cases[i].bytes);
        CHECK(got == cases[i].want, "%s: %zu bytes: %llu inside", cases[i].settings[1],
              cases[i].bytes, (unsigned long long)got);
        one_pair_close(&pair);
    }
}

/** Posted without a poll in between they leave together, and one completion tells of all. */
static void a_batch_is_one_doorbell_and_one_completion(void)
{
    struct one_pair pair;
    REQUIRE(one_pair_open(&pair, one_path), "no pair: %s", pair.said);
    for (unsigned n = 1; n <= 2 * BATCH; n *= 2) {
        unsigned first = pair.a.done, batches = n <= BATCH ? 1 : n / BATCH;
        struct mock_counts before = counts_now();
        for (unsigned i = 0; i < n; i++)
            CHECK(end_put(&pair.a, pair.a.base, 0, 4096, first + i, first + i) == WRING_OK, "put");
        UNTIL(&pair.a, &pair.b, pair.a.done == first + n && pair.b.arrived == first + n);
        struct mock_counts after = counts_now();
        CHECK(after.send_doorbells - before.send_doorbells == batches, "%u puts: %llu doorbells", n,
              (unsigned long long)(after.send_doorbells - before.send_doorbells));
        CHECK(after.writes - before.writes == n, "%llu writes",
              (unsigned long long)(after.writes - before.writes));
        CHECK(after.signalled - before.signalled == batches, "%u puts: %llu completions asked for",
              n, (unsigned long long)(after.signalled - before.signalled));
    }
    one_pair_close(&pair);
}

/** Control messages leave one by one, since the caller may go, but hardly any tells when it is
 * done; receives, and what tells of them, come many at a time. */
static void control_messages_are_quiet(void)
{
    struct one_pair pair;
    REQUIRE(one_pair_open(&pair, one_path), "no pair: %s", pair.said);
    struct mock_counts before = counts_now();
    for (unsigned i = 0; i < TURNS; i++) {
        CHECK(pair.a.provider->ops->send(pair.a.conn, "word", 4) == WRING_OK, "send %u", i);
        UNTIL(&pair.a, &pair.b, pair.b.messages == i + 1);
    }
    struct mock_counts after = counts_now();
    uint64_t signalled = after.signalled - before.signalled;
    uint64_t receives = after.receives - before.receives;
    uint64_t posts = after.receive_doorbells - before.receive_doorbells;
    CHECK(after.sends - before.sends == TURNS, "%llu sends",
          (unsigned long long)(after.sends - before.sends));
    CHECK(signalled > 0 && signalled <= TURNS / 8, "%llu of %u ask for a completion",
          (unsigned long long)signalled, TURNS);
    CHECK(after.writes - before.writes <= TURNS / 32, "%llu writes of credits",
          (unsigned long long)(after.writes - before.writes));
    CHECK(posts > 0 && receives >= 16 * posts, "%llu receives in %llu posts",
          (unsigned long long)receives, (unsigned long long)posts);
    one_pair_close(&pair);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"small_puts_ride_inside", small_puts_ride_inside},
        {"a_batch_is_one_doorbell_and_one_completion", a_batch_is_one_doorbell_and_one_completion},
        {"control_messages_are_quiet", control_messages_are_quiet},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
