/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of buckets follow the way to the farthest member, and its rate, up to what is allowed. */
#include <string.h>

#include "runtime/commit/layout.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ELEMS 200000 /* 98 pieces of 4 KiB for each of two owners */
#define RANKS 2

struct row {
    const char *name;
    const char *fault;   /* what is wrong with the links; NULL: they are short */
    const char *setting; /* one more, or NULL */
    const char *codec;
    uint32_t window;
    uint64_t round_trip_ns;
};

static const struct row rows[] = {
    {"near", NULL, NULL, "none", 16, 0},
    {"far", "WRING_FAULT=delay=20ms", NULL, "none", 128, 40000000},
    /* 40 ms at 1 MB/s hold 40 kB, and twice as much is 20 pieces */
    {"far and slow", "WRING_FAULT=delay=20ms,rate=8mbit", NULL, "none", 32, 40000000},
    {"far, window given", "WRING_FAULT=delay=20ms", "WRING_WINDOW=2", "none", 16, 0},
    /* two members' slots of 4 KiB */
    {"far, little memory", "WRING_FAULT=delay=20ms", "WRING_SLOT_BYTES=256k", "none", 32, 40000000},
    /* one hop of the whole bucket: 49 codes of 4 KiB for four times as many elements, and a bit */
    {"far, one hop", "WRING_FAULT=delay=20ms", "WRING_BYPASS=never", "int8", 64, 40000000},
};

static void run_row(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct row *row = arg;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket = NULL;
    float *data = NULL;
    uint32_t wrong = 0;

    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(*data), (void **)&data) == WRING_OK,
            "memory");
    params.name = "far";
    params.data = data;
    params.elems = ELEMS;
    params.codec = row->codec;
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint32_t step = 0; step < 3; step++) {
        for (uint32_t i = 0; i < ELEMS; i++)
            data[i] = (float)(rank * 127); /* which a code of 8 bits keeps */
        CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
        CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "wait");
        for (uint32_t i = 0; i < ELEMS; i++)
            wrong += data[i] != 127;
    }
    CHECK(wrong == 0, "%s: %u are wrong", row->name, wrong);
    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
    CHECK(stats.window == row->window, "%s: a window of %u", row->name, stats.window);
    CHECK(stats.round_trip_ns == row->round_trip_ns, "%s: %llu ns away", row->name,
          (unsigned long long)stats.round_trip_ns);
}

static void windows_follow_the_way(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *settings[5] = {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=4096"};
        size_t n = 2;
        if (rows[i].fault != NULL)
            settings[n++] = rows[i].fault;
        if (rows[i].setting != NULL)
            settings[n++] = rows[i].setting;
        struct row row = rows[i];
        wring_test_run_ranks(&(struct wring_test_job){
            .ranks = RANKS, .settings = settings, .arg = &row, .run = run_row});
    }
}

static void measured_rates_only_narrow(void)
{
    const uint64_t gbit = 125000000;

    CHECK(wring_layout_way_rate(10 * gbit, 0) == 10.0 * (double)gbit, "not measured");
    CHECK(wring_layout_way_rate(10 * gbit, gbit) == 2.0 * (double)gbit, "a slow way");
    CHECK(wring_layout_way_rate(gbit, gbit) == (double)gbit, "no more than the interface");
    CHECK(wring_layout_way_rate(0, gbit) == 2.0 * (double)gbit, "an interface that does not say");
    CHECK(wring_layout_way_rate(0, 0) == 10.0 * (double)gbit, "nobody says anything");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"windows_follow_the_way", windows_follow_the_way},
        {"measured_rates_only_narrow", measured_rates_only_narrow},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
