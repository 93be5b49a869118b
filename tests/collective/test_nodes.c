/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot go hierarchically, where that was asked for, goes flat, and one line says so. */
#include <string.h>

#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ELEMS 10000 /* too many for what is flat by size */
#define BUCKETS 2

static const char *const hierarchical[] = {"WRING_SCHEME=hierarchical", NULL};

static void fill(float *data, uint32_t rank)
{
    for (uint32_t i = 0; i < ELEMS; i++)
        data[i] = (float)(rank + i % 7);
}

/** Of so many ranks' data, from the first element on. */
static void check_sums(const float *data, uint32_t elems, uint32_t ranks)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < elems; i++)
        wrong += data[i] != (float)(ranks * (i % 7) + ranks * (ranks - 1) / 2);
    CHECK(wrong == 0, "%u of %u are wrong", wrong, elems);
}

static struct wring_bucket *make_bucket(struct wring_session *session, const char *name,
                                        float **data)
{
    struct wring_bucket *bucket = NULL;
    wring_buffer_alloc(session, ELEMS * sizeof(**data), (void **)data);
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    params.name = name;
    params.data = *data;
    params.elems = ELEMS;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    return bucket;
}

static void exchange_bucket(struct wring_bucket *bucket, float *data, uint32_t rank, uint32_t ranks)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    fill(data, rank);
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, WAIT_NS) == WRING_OK, "wait");
    check_sums(data, ELEMS, ranks);
    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK && strcmp(stats.scheme, "direct") == 0,
          "went %s", stats.scheme);
}

/** Buckets that are committed twice. */
static void run_buckets(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const names[BUCKETS] = {"first", "second"};
    struct wring_bucket *buckets[BUCKETS];
    float *data[BUCKETS];
    (void)arg;

    for (int b = 0; b < BUCKETS; b++)
        buckets[b] = make_bucket(session, names[b], &data[b]);
    for (int i = 0; i < 2; i++) {
        REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
        for (int b = 0; b < BUCKETS; b++)
            exchange_bucket(buckets[b], data[b], rank, wring_session_size(session));
    }
}

static void unequal_nodes_go_flat_and_say_so_once(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    wring_test_run_ranks(&(struct wring_test_job){.ranks = 3,
                                                  .ranks_per_node = 2,
                                                  .settings = hierarchical,
                                                  .run = run_buckets,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(wring_test_lines_count(&lines, "\n") == 1, "more than one line:\n%s", lines.text);
    CHECK(
        strcmp(lines.text,
               "to go hierarchically needs equally many ranks on each node, and rank 2's has 1, "
               "rank 0's 2: 'first', and all like it, goes flat; start as many on each, or choose "
               "a flat scheme\n") == 0,
        "it says: %s", lines.text);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"unequal_nodes_go_flat_and_say_so_once", unequal_nodes_go_flat_and_say_so_once},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
