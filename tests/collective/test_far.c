/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of buckets, and pieces of immediate calls, follow the way to the farthest member, and its
 * rate, up to what is allowed. */
#include <stdlib.h>
#include <string.h>

#include "runtime/commit/layout.h"
#include "runtime/session/distance.h"
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

#define CALL_RANKS 3
#define CALL_ELEMS 700001 /* some pieces for each of three owners, and a rest */

/** Immediate calls on links of one kind. */
struct calls {
    const char *fault;   /* NULL: the links are short */
    const char *setting; /* or NULL */
    uint64_t round_trip_ns, piece_bytes;
    float *sums[2]; /* [CALL_ELEMS] of rank 0: raw, and coded */
};

static void run_calls(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const codecs[] = {"none", "int8"};
    struct calls *calls = arg;
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    float *data = malloc(CALL_ELEMS * sizeof(*data));

    REQUIRE(data != NULL, "memory");
    for (size_t c = 0; c < 2; c++) {
        struct wring_call how = WRING_CALL_INIT;
        uint32_t random = 7 + rank;
        how.codec = codecs[c];
        for (uint32_t i = 0; i < CALL_ELEMS; i++)
            data[i] = (float)(int32_t)wring_test_random(&random) * 0x1p-31f;
        CHECK(wring_allreduce(wring_session_world(session), data, data, CALL_ELEMS, WRING_F32,
                              WRING_SUM, &how, NULL) == WRING_OK,
              "%s", codecs[c]);
        if (rank == 0)
            memcpy(calls->sums[c], data, CALL_ELEMS * sizeof(*data));
    }
    CHECK(wring_session_stats(session, &stats) == WRING_OK, "stats");
    CHECK(stats.round_trip_ns == calls->round_trip_ns && stats.piece_bytes == calls->piece_bytes,
          "%llu ns away, pieces of %llu bytes", (unsigned long long)stats.round_trip_ns,
          (unsigned long long)stats.piece_bytes);
    free(data);
}

/** Each rank is a host; whatever the size of pieces, sums have the same bits. */
static void pieces_of_calls_follow_the_way(void)
{
    struct calls links[] = {
        {.piece_bytes = 256 << 10},
        {.fault = "WRING_FAULT=delay=10ms", .round_trip_ns = 20000000, .piece_bytes = 1 << 20},
        /* 25 MB/s for 20 ms are 500 kB: eight pieces hold them twice */
        {.fault = "WRING_FAULT=delay=10ms,rate=200mbit",
         .round_trip_ns = 20000000,
         .piece_bytes = 256 << 10},
        {.fault = "WRING_FAULT=delay=10ms",
         .setting = "WRING_CHUNK_BYTES=64k",
         .round_trip_ns = 20000000,
         .piece_bytes = 64 << 10},
    };
    const size_t n = sizeof(links) / sizeof(links[0]);

    for (size_t i = 0; i < n; i++) {
        const char *settings[4] = {"WRING_PROVIDER=tcp"};
        size_t k = 1;
        if (links[i].fault != NULL)
            settings[k++] = links[i].fault;
        if (links[i].setting != NULL)
            settings[k++] = links[i].setting;
        for (size_t c = 0; c < 2; c++)
            REQUIRE((links[i].sums[c] = malloc(CALL_ELEMS * sizeof(float))) != NULL, "memory");
        wring_test_run_ranks(&(struct wring_test_job){.ranks = CALL_RANKS,
                                                      .ranks_per_node = 1,
                                                      .settings = settings,
                                                      .arg = &links[i],
                                                      .run = run_calls});
        for (size_t c = 0; c < 2; c++)
            CHECK(memcmp(links[i].sums[c], links[0].sums[c], CALL_ELEMS * sizeof(float)) == 0,
                  "row %zu: %s differs from near ranks'", i, c == 0 ? "raw" : "coded");
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 2; c++)
            free(links[i].sums[c]);
}

static void pieces_have_bounds(void)
{
    const uint64_t mbit = 125000, ms = 1000000;

    CHECK(wring_distance_piece_bytes(256 << 10, 40 * ms, 500 * mbit) == 1 << 20, "a long way");
    CHECK(wring_distance_piece_bytes(256 << 10, 20 * ms, 500 * mbit) == 512 << 10, "half of it");
    CHECK(wring_distance_piece_bytes(256 << 10, 10 * ms, 100 * mbit) == 256 << 10, "a slow one");
    CHECK(wring_distance_piece_bytes(256 << 10, 500 * ms, 0) == 1 << 20, "no more than a put has");
    CHECK(wring_distance_piece_bytes(4 << 20, 500 * ms, 0) == 4 << 20, "never less than before");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"windows_follow_the_way", windows_follow_the_way},
        {"measured_rates_only_narrow", measured_rates_only_narrow},
        {"pieces_of_calls_follow_the_way", pieces_of_calls_follow_the_way},
        {"pieces_have_bounds", pieces_have_bounds},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
