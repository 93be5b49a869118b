/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets whose results go elsewhere end with the bits of those that are summed in place, step
 * after step, and leave what was contributed as it was. A contribution times a factor ends with the
 * bits of one that the program multiplied.
 */
#include <string.h>

#include "compress/reduce.h"
#include "runtime/bucket.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS_MAX 4
#define ELEMS_MAX 150000u
#define STEPS 3

struct kind {
    const char *codec;
    enum wring_dtype dtype;
    enum wring_op op;
    uint64_t elems;
};

static const struct kind kinds[] = {
    {"none", WRING_F32, WRING_SUM, 0},
    {"none", WRING_F32, WRING_AVG, 7},
    {"none", WRING_F32, WRING_PREMUL_SUM, 900},
    {"none", WRING_F32, WRING_SUM, 20000},
    {"none", WRING_F32, WRING_PREMUL_SUM, ELEMS_MAX},
    {"none", WRING_F32, WRING_SUM, ELEMS_MAX},
    {"none", WRING_I64, WRING_MAX, 3001},
    {"none", WRING_BF16, WRING_PREMUL_SUM, 40000},
    {"none", WRING_BF16, WRING_AVG, 50000},
    {"int8+ef", WRING_F32, WRING_AVG, 50001},
    {"int8+ef", WRING_F32, WRING_PREMUL_SUM, ELEMS_MAX},
    {"topk+ef", WRING_F32, WRING_SUM, 30000},
    {"bf16", WRING_F16, WRING_SUM, 9000},
    {"onebit+ef>int8", WRING_F32, WRING_SUM, 40000},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct pair {
    struct wring_bucket *apart, *in_place;
    void *source, *out, *both;
    size_t bytes;
};

static void *alloc(struct wring_session *session, size_t bytes)
{
    void *memory = NULL;
    CHECK(wring_buffer_alloc(session, bytes + 8, &memory) == WRING_OK, "memory");
    return memory;
}

static double factor_of(uint32_t rank)
{
    return rank == 1 ? -0.3 : 1.0 + rank;
}

/** Of any type: small floats and integers, others each step, some of them negative. */
static void fill(void *data, enum wring_dtype dtype, uint64_t elems, uint32_t seed)
{
    for (uint64_t i = 0; i < elems; i++) {
        seed = seed * 1664525u + 1013904223u;
        int value = (int)(seed >> 20) - 2048;
        if (dtype == WRING_F32)
            ((float *)data)[i] = (float)value / 64;
        else if (dtype == WRING_I64)
            ((int64_t *)data)[i] = value;
        else /* of 16 bits: below infinity in either format */
            ((uint16_t *)data)[i] = (uint16_t)(seed >> 16 & 0xbfffu);
    }
}

static void add(struct wring_session *session, const struct kind *kind, uint32_t number,
                uint32_t rank, struct pair *pair)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    char name[32];
    bool premul = kind->op == WRING_PREMUL_SUM;

    pair->bytes = kind->elems * wring_dtype_bytes(kind->dtype);
    pair->source = alloc(session, pair->bytes);
    pair->out = alloc(session, pair->bytes);
    pair->both = alloc(session, pair->bytes);
    params.name = name;
    params.elems = kind->elems;
    params.dtype = kind->dtype;
    params.codec = kind->codec;
    params.op = kind->op;
    params.data = pair->source;
    params.out = pair->out;
    params.factor = premul ? factor_of(rank) : 0;
    snprintf(name, sizeof(name), "apart%u", number);
    REQUIRE(wring_bucket_register(session, &params, &pair->apart) == WRING_OK, "apart %u", number);
    params.op = premul ? WRING_SUM : kind->op;
    params.data = pair->both;
    params.out = number % 2 == 0 ? NULL : pair->both; /* one and the same */
    params.factor = 0;
    snprintf(name, sizeof(name), "in_place%u", number);
    REQUIRE(wring_bucket_register(session, &params, &pair->in_place) == WRING_OK, "in place %u",
            number);
}

static void step(const struct kind *kind, const struct pair *pair, uint32_t seed, uint32_t rank)
{
    fill(pair->source, kind->dtype, kind->elems, seed);
    fill(pair->both, kind->dtype, kind->elems, seed);
    memset(pair->out, 0x77, pair->bytes);
    if (kind->op == WRING_PREMUL_SUM)
        wring_scale(kind->dtype, pair->both, pair->both, kind->elems, factor_of(rank), "auto");
    CHECK(wring_bucket_post(pair->apart) == WRING_OK, "post");
    CHECK(wring_bucket_post(pair->in_place) == WRING_OK, "post");
}

/** @param copy  room for what was contributed */
static void check(const struct kind *kind, const struct pair *pair, uint32_t seed, void *copy)
{
    CHECK(wring_bucket_wait(pair->apart, WRING_FOREVER, NULL) == WRING_OK, "wait");
    CHECK(wring_bucket_wait(pair->in_place, WRING_FOREVER, NULL) == WRING_OK, "wait");
    CHECK(memcmp(pair->out, pair->both, pair->bytes) == 0, "%s, %llu elements of %s %s: other bits",
          kind->codec, (unsigned long long)kind->elems, wring_dtype_name(kind->dtype),
          wring_op_name(kind->op));
    fill(copy, kind->dtype, kind->elems, seed);
    CHECK(memcmp(pair->source, copy, pair->bytes) == 0, "%s, %llu: its source has changed",
          kind->codec, (unsigned long long)kind->elems);
}

static void steps(struct wring_session *session, uint32_t rank, void *arg)
{
    struct pair pairs[KINDS];
    void *copy = alloc(session, ELEMS_MAX * sizeof(double));

    (void)arg;
    for (uint32_t i = 0; i < KINDS; i++)
        add(session, &kinds[i], i, rank, &pairs[i]);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint32_t s = 0; s < STEPS; s++) {
        for (uint32_t i = 0; i < KINDS; i++)
            step(&kinds[i], &pairs[i], s * 1000 + i * 10 + rank, rank);
        for (uint32_t i = 0; i < KINDS; i++)
            check(&kinds[i], &pairs[i], s * 1000 + i * 10 + rank, copy);
        if (s == 1) /* what codecs hold back is carried over */
            REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    }
}

static void results_go_elsewhere(void)
{
    static const char *const settings[][4] = {
        {"WRING_PROVIDER=tcp", "WRING_BYPASS=never", NULL},
        {"WRING_PROVIDER=shm", "WRING_BYPASS=never", NULL},
        {"WRING_PROVIDER=shm", "WRING_BYPASS=never", "WRING_EXECUTOR=pool:1", NULL},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        for (uint32_t ranks = 1; ranks <= 3; ranks++) {
            struct wring_test_job job = {.ranks = ranks, .settings = settings[i], .run = steps};
            wring_test_run_ranks(&job);
        }
}

static void within_nodes_first(void)
{
    static const char *const settings[] = {"WRING_SCHEME=hierarchical", "WRING_BYPASS=never", NULL};
    struct wring_test_job job = {
        .ranks = RANKS_MAX, .ranks_per_node = 2, .settings = settings, .run = steps};
    wring_test_run_ranks(&job);
}

/** What a codec held back goes out with the first step without it, which the source does not see.
 */
static void residual_goes_out(struct wring_session *session, uint32_t rank, void *arg)
{
    static const struct kind kind = {"topk+ef", WRING_F32, WRING_SUM, 30000};
    struct pair pair;
    void *copy = alloc(session, kind.elems * sizeof(float));

    (void)arg;
    add(session, &kind, 0, rank, &pair);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (uint32_t s = 0; s < 4; s++) {
        step(&kind, &pair, s * 10 + rank, rank);
        check(&kind, &pair, s * 10 + rank, copy);
        if (s == 1) { /* as a commit might measure */
            strcpy(session->config.bypass, "always");
            REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
            CHECK(pair.apart->idle, "nothing is held back");
        }
    }
}

static void what_is_held_back_goes_out(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_BYPASS=never", NULL};
    struct wring_test_job job = {.ranks = 2, .settings = settings, .run = residual_goes_out};
    wring_test_run_ranks(&job);
}

static void refuse(struct wring_session *session, uint32_t rank, void *arg)
{
    static float memory[2][100];
    struct wring_bucket *bucket = NULL;
    struct wring_bucket_params good = WRING_BUCKET_PARAMS_INIT, params;

    (void)rank, (void)arg;
    good.name = "b";
    good.data = memory[0];
    good.elems = 100;
    params = good;
    params.out = memory[0] + 50;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID, "overlap");
    params.out = (char *)memory[1] + 1;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID, "alignment");
    params = good;
    params.factor = 2;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID,
          "a factor of a sum");
    params.op = WRING_PREMUL_SUM;
    params.dtype = WRING_BOOL;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID, "of booleans");
}

static void swallow(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void misuse_is_refused(void)
{
    struct wring_test_job job = {.ranks = 1, .run = refuse, .log = swallow};
    wring_test_run_ranks(&job);
}

static const struct wring_test_case cases[] = {
    {"results_go_elsewhere", results_go_elsewhere},
    {"within_nodes_first", within_nodes_first},
    {"what_is_held_back_goes_out", what_is_held_back_goes_out},
    {"misuse_is_refused", misuse_is_refused},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
