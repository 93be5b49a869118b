/* SPDX-License-Identifier: Apache-2.0 */
/** How puts are cut over paths, and put together again from whatever order their parts come in. */
#include <string.h>

#include "tests/lib/test.h"
#include "transport/providers/verbs/stripe.h"

#define MESSAGES 400

static const uint64_t thresholds[] = {0, 128, 4096, 65536};

/** Stripes lie side by side, begin at multiples of 128, and home tells whether there are others. */
static void check_cut(const struct verbs_stripes *stripes, uint64_t message, uint64_t bytes)
{
    uint64_t at = 0;
    for (unsigned i = 0; i < stripes->paths; i++) {
        uint64_t offset;
        unsigned path = (unsigned)((message + i) % stripes->paths);
        uint64_t part = wring_verbs_stripe(stripes, message, bytes, path, &offset);
        CHECK(offset == at, "path %u of %u begins at %llu, not %llu", path, stripes->paths,
              (unsigned long long)offset, (unsigned long long)at);
        CHECK(part == 0 || offset % VERBS_STRIPE_ALIGN == 0, "%llu is not aligned",
              (unsigned long long)offset);
        CHECK(i > 0 || part > stripes->threshold, "nobody can tell that there is more");
        at += part;
    }
    CHECK(at == bytes, "%llu of %llu bytes", (unsigned long long)at, (unsigned long long)bytes);
}

static void stripes_cover_each_put(void)
{
    uint32_t random = 5;
    for (unsigned t = 0; t < sizeof(thresholds) / sizeof(thresholds[0]); t++)
        for (unsigned paths = 2; paths <= VERBS_PATHS_MAX; paths++) {
            const struct verbs_stripes stripes = {paths, thresholds[t]};
            for (uint64_t over = 1; over < 400; over += 3)
                check_cut(&stripes, over, thresholds[t] + over);
            for (unsigned i = 0; i < 50; i++)
                check_cut(&stripes, i, thresholds[t] + 1 + wring_test_random(&random) % 4000000);
            check_cut(&stripes, 1, UINT64_C(1) << 31);
        }
}

/** With much to send, no path has more than its share and one unit. */
static void large_puts_are_shared_evenly(void)
{
    for (unsigned paths = 2; paths <= VERBS_PATHS_MAX; paths++) {
        const struct verbs_stripes stripes = {paths, 4096};
        uint64_t bytes = 1 << 20, offset;
        for (unsigned path = 0; path < paths; path++) {
            uint64_t part = wring_verbs_stripe(&stripes, 7, bytes, path, &offset);
            CHECK(part <= bytes / paths + VERBS_STRIPE_ALIGN, "path %u of %u: %llu", path, paths,
                  (unsigned long long)part);
        }
    }
}

static void one_path_never_stripes(void)
{
    const struct verbs_stripes stripes = {1, 128};
    const struct verbs_arrival put = {1 << 30, 9, false};
    const struct verbs_arrival *heads[] = {&put};
    uint64_t bytes = 0;
    CHECK(!wring_verbs_is_striped(&stripes, 1 << 30), "striped");
    CHECK(wring_verbs_gather(&stripes, 77, heads, &bytes) == VERBS_WHOLE && bytes == 1 << 30,
          "%llu", (unsigned long long)bytes);
}

/* one direction of a connection: what is under way on each path, in order */
struct wire {
    struct verbs_arrival queue[VERBS_PATHS_MAX][MESSAGES];
    unsigned sent[VERBS_PATHS_MAX], there[VERBS_PATHS_MAX], given[VERBS_PATHS_MAX];
};

static struct verbs_arrival random_message(const struct verbs_stripes *stripes, uint32_t *random)
{
    struct verbs_arrival message = {.imm = wring_test_random(random)};
    uint32_t what = wring_test_random(random) % 4;
    if (what == 0) {
        message.is_message = true;
        message.bytes = 1 + wring_test_random(random) % 256;
    } else if (what == 1)
        message.bytes = (uint32_t)stripes->threshold + wring_test_random(random) % 3;
    else
        message.bytes = wring_test_random(random) % 300000;
    return message;
}

static void send_message(const struct verbs_stripes *stripes, struct wire *wire, uint64_t number,
                         const struct verbs_arrival *message)
{
    unsigned home = wring_verbs_home(stripes, number);
    if (message->is_message || !wring_verbs_is_striped(stripes, message->bytes)) {
        wire->queue[home][wire->sent[home]++] = *message;
        return;
    }
    for (unsigned path = 0; path < stripes->paths; path++) {
        uint64_t offset;
        struct verbs_arrival part = *message;
        part.bytes = (uint32_t)wring_verbs_stripe(stripes, number, message->bytes, path, &offset);
        wire->queue[path][wire->sent[path]++] = part;
    }
}

/** Take the next message, if it is there. */
static bool take_message(const struct verbs_stripes *stripes, struct wire *wire, uint64_t number,
                         uint64_t *bytes, struct verbs_arrival *first)
{
    const struct verbs_arrival *heads[VERBS_PATHS_MAX];
    unsigned home = wring_verbs_home(stripes, number);
    for (unsigned path = 0; path < stripes->paths; path++)
        heads[path] =
            wire->given[path] < wire->there[path] ? &wire->queue[path][wire->given[path]] : NULL;
    enum verbs_gathered what = wring_verbs_gather(stripes, number, heads, bytes);
    CHECK(what != VERBS_MISFIT, "message %llu", (unsigned long long)number);
    if (what != VERBS_WHOLE)
        return false;
    *first = *heads[home];
    bool striped = !first->is_message && wring_verbs_is_striped(stripes, first->bytes);
    for (unsigned path = 0; path < stripes->paths; path++)
        wire->given[path] += striped || path == home;
    return true;
}

static void run_interleaved(const struct verbs_stripes *stripes, uint32_t seed)
{
    static struct wire wire;
    static struct verbs_arrival messages[MESSAGES];
    uint32_t random = seed;
    unsigned taken = 0, left;
    memset(&wire, 0, sizeof(wire));
    for (unsigned i = 0; i < MESSAGES; i++) {
        messages[i] = random_message(stripes, &random);
        send_message(stripes, &wire, i, &messages[i]);
    }
    do { /* any path may be ahead of any other */
        unsigned path = wring_test_random(&random) % stripes->paths;
        unsigned step = wring_test_random(&random) % 9;
        left = 0;
        wire.there[path] += step;
        if (wire.there[path] > wire.sent[path])
            wire.there[path] = wire.sent[path];
        for (unsigned p = 0; p < stripes->paths; p++)
            left += wire.sent[p] - wire.there[p];
        struct verbs_arrival first;
        for (uint64_t bytes;
             taken < MESSAGES && take_message(stripes, &wire, taken, &bytes, &first); taken++)
            CHECK(bytes == messages[taken].bytes && first.imm == messages[taken].imm &&
                      first.is_message == messages[taken].is_message,
                  "message %u, seed %u: another one", taken, seed);
    } while (left > 0);
    CHECK(taken == MESSAGES, "%u of %u, %u paths, seed %u", taken, MESSAGES, stripes->paths, seed);
}

static void messages_come_in_order_however_their_parts_come(void)
{
    for (unsigned paths = 1; paths <= VERBS_PATHS_MAX; paths++)
        for (unsigned t = 0; t < sizeof(thresholds) / sizeof(thresholds[0]); t++)
            for (uint32_t seed = 1; seed <= 3; seed++)
                run_interleaved(&(struct verbs_stripes){paths, thresholds[t]}, seed);
}

/** @return what is made of two stripes of a put of 1000 bytes on path 0 and 1 */
static enum verbs_gathered gather_two(struct verbs_arrival a, struct verbs_arrival b)
{
    const struct verbs_stripes stripes = {2, 128};
    const struct verbs_arrival *heads[] = {&a, &b};
    uint64_t bytes;
    return wring_verbs_gather(&stripes, 0, heads, &bytes);
}

static void stripes_that_do_not_fit_are_refused(void)
{
    const struct verbs_arrival first = {512, 3, false}, second = {488, 3, false};
    struct verbs_arrival other = second;
    CHECK(gather_two(first, second) == VERBS_WHOLE, "a good one");
    other.imm = 4;
    CHECK(gather_two(first, other) == VERBS_MISFIT, "another immediate");
    other = second;
    other.is_message = true;
    CHECK(gather_two(first, other) == VERBS_MISFIT, "a message");
    other = second;
    other.bytes = 600;
    CHECK(gather_two(first, other) == VERBS_MISFIT, "the larger part is not at home");
    other.bytes = 0;
    CHECK(gather_two(first, other) == VERBS_MISFIT, "home has too much");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"stripes_cover_each_put", stripes_cover_each_put},
        {"large_puts_are_shared_evenly", large_puts_are_shared_evenly},
        {"one_path_never_stripes", one_path_never_stripes},
        {"messages_come_in_order_however_their_parts_come",
         messages_come_in_order_however_their_parts_come},
        {"stripes_that_do_not_fit_are_refused", stripes_that_do_not_fit_are_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
