/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets that are posted at once are done one after another, not all of them at the end. */
#include <stdio.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define BUCKETS 16
#define ELEMS (1u << 18) /* four pieces each */
#define TRIES 40         /* a rank whose peer has no core may well go on with the last ones */

struct story {
    const char *codec;
    enum wring_scheme scheme;
};

static bool make_buckets(struct wring_session *session, const struct story *story,
                         struct wring_bucket **buckets)
{
    char name[16];
    void *data;

    for (int b = 0; b < BUCKETS; b++) {
        snprintf(name, sizeof(name), "bucket %d", b);
        if (wring_buffer_alloc(session, ELEMS * sizeof(float), &data) != WRING_OK)
            return false;
        struct wring_bucket_params params = {.name = name,
                                             .data = data,
                                             .elems = ELEMS,
                                             .codec = story->codec,
                                             .scheme = story->scheme};
        if (wring_bucket_register(session, &params, &buckets[b]) != WRING_OK)
            return false;
    }
    return wring_session_commit(session) == WRING_OK;
}

static uint64_t sent(struct wring_session *session)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;

    CHECK(wring_session_stats(session, &stats) == WRING_OK, "stats");
    return stats.wire_bytes_sent;
}

/** @return whether less than half of all had left when the first bucket was done */
static bool run_step(struct wring_session *session, struct wring_bucket **buckets)
{
    uint64_t before = sent(session);

    for (int b = 0; b < BUCKETS; b++)
        CHECK(wring_bucket_post(buckets[b]) == WRING_OK, "post %d", b);
    CHECK(wring_bucket_wait(buckets[0], WAIT_NS, NULL) == WRING_OK, "the first");
    uint64_t early = sent(session) - before;
    for (int b = 1; b < BUCKETS; b++)
        CHECK(wring_bucket_wait(buckets[b], WAIT_NS, NULL) == WRING_OK, "wait %d", b);
    CHECK(early > 0, "nothing was sent");
    return early < (sent(session) - before) / 2;
}

static void be_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[BUCKETS];
    int64_t seen = 0, all_seen = 0;

    REQUIRE(make_buckets(session, arg, buckets), "buckets");
    for (int i = 0; i < TRIES && all_seen == 0 && wring_test_failures() == 0; i++) {
        seen |= run_step(session, buckets);
        all_seen = seen;
        REQUIRE(wring_allreduce(wring_session_world(session), &all_seen, &all_seen, 1, WRING_I64,
                                WRING_MIN, NULL, NULL) == WRING_OK,
                "allreduce");
    }
    CHECK(seen, "rank %u: most had always left before the first bucket was done", rank);
}

/** Who waits makes progress: when that begins, all are posted. */
static void run(struct story story)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller",
                                           "WRING_CHUNK_BYTES=64k", NULL};
    struct wring_test_job job = {.ranks = 2, .settings = settings, .run = be_rank, .arg = &story};

    wring_test_run_ranks(&job);
}

static void in_one_step(void)
{
    run((struct story){"onebit", WRING_SCHEME_INDIVISIBLE});
}

static void in_two_steps(void)
{
    run((struct story){"bf16", WRING_SCHEME_DIVISIBLE});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"in_one_step", in_one_step},
        {"in_two_steps", in_two_steps},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
