/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot go hierarchically, where that was asked for, goes flat, and one line says so. */
#include <string.h>

#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ELEMS 10000 /* too many for what is flat by size */
#define FEW 100
#define BUCKETS 2

static const char *const hierarchical[] = {"WRING_SCHEME=hierarchical", NULL};
static const char *const unset[] = {"WRING_SCHEME=auto", NULL};

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

static void sum_bucket(struct wring_bucket *bucket, float *data, uint32_t rank, uint32_t ranks)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    fill(data, rank);
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "wait");
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
            sum_bucket(buckets[b], data[b], rank, wring_session_size(session));
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

/** A bucket of all ranks goes by its legs, and its sums are right. */
static void run_by_sites(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_session_stats all = WRING_SESSION_STATS_INIT;
    uint32_t ranks = wring_session_size(session);
    const bool *by_sites = arg;
    float *data;
    struct wring_bucket *bucket = make_bucket(session, "sited", &data);

    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < 3; step++) {
        fill(data, rank);
        CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
        CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "wait");
        check_sums(data, ELEMS, ranks);
    }
    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK &&
              (strncmp(stats.scheme, "hierarchical", 12) == 0) == *by_sites,
          "went %s", stats.scheme);
    CHECK(wring_session_stats(session, &all) == WRING_OK && (all.sites > 1) == *by_sites,
          "%llu sites", (unsigned long long)all.sites);
}

/** Each rank is a host: only sites say who is near whom; one site alone says nothing. */
static void sums_are_made_within_sites_first(void)
{
    static bool yes = true, no = false;
    struct wring_test_job job = {.ranks = 6,
                                 .ranks_per_node = 1,
                                 .ranks_per_site = 3,
                                 .settings = hierarchical,
                                 .arg = &yes,
                                 .run = run_by_sites};
    wring_test_run_ranks(&job);
    job.ranks_per_site = 2;
    wring_test_run_ranks(&job);
    job.ranks_per_node = 6; /* one host, at two sites: sites count */
    wring_test_run_ranks(&job);
    job.ranks_per_site = 6;
    job.ranks_per_node = 3; /* two hosts at one site */
    job.arg = &no;
    wring_test_run_ranks(&job);
}

/** Immediate calls of so many elements, in the group of all and in another one. */
static void run_calls(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t all[] = {0, 1, 2, 3};
    uint32_t elems = *(const uint32_t *)arg, ranks = wring_session_size(session);
    struct wring_group *groups[2] = {wring_session_world(session), NULL};
    float data[ELEMS];

    REQUIRE(wring_group_create(groups[0], all, ranks, 0, WRING_FOREVER, &groups[1]) == WRING_OK,
            "group");
    for (int call = 0; call < 4; call++) {
        fill(data, rank);
        CHECK(wring_allreduce(groups[call % 2], data, data, elems, WRING_F32, WRING_SUM, NULL,
                              NULL) == WRING_OK,
              "allreduce");
        check_sums(data, elems, ranks);
    }
    CHECK(wring_barrier(groups[0], NULL, NULL) == WRING_OK, "barrier");
    wring_group_destroy(groups[1]);
}

/** How many lines there are of calls that go flat, and no others. */
static void check_told(const char *const *settings, uint32_t ranks, uint32_t elems, unsigned want)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    const char *line = "WRING_SCHEME=hierarchical is for buckets, and immediate calls go flat: "
                       "register a bucket for what is to be summed within nodes first\n";

    wring_test_run_ranks(&(struct wring_test_job){.ranks = ranks,
                                                  .ranks_per_node = 2,
                                                  .settings = settings,
                                                  .arg = &elems,
                                                  .run = run_calls,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(wring_test_lines_count(&lines, line) == want &&
              wring_test_lines_count(&lines, "\n") == want,
          "%s, %u ranks, %u elements: not %u such lines:\n%s", settings[0], ranks, elems, want,
          lines.text);
}

static void immediate_calls_go_flat_and_say_so_once(void)
{
    check_told(hierarchical, 4, ELEMS, 1);
    check_told(hierarchical, 4, FEW, 0);   /* flat is best for these */
    check_told(hierarchical, 3, ELEMS, 0); /* no bucket of theirs would do otherwise */
    check_told(hierarchical, 2, ELEMS, 0);
    check_told(unset, 4, ELEMS, 0);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums_are_made_within_sites_first", sums_are_made_within_sites_first},
        {"unequal_nodes_go_flat_and_say_so_once", unequal_nodes_go_flat_and_say_so_once},
        {"immediate_calls_go_flat_and_say_so_once", immediate_calls_go_flat_and_say_so_once},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
