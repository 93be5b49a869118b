/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How far sums of int8 codes are off, beside rings that encode the sum so far again at every hop:
 * one with the same blocks of 512 around 0, and one whose codes go from the least to the largest
 * number of a whole shard, as PCCL's do. The rings are plain loops over the same numbers.
 *
 * Of independent numbers each code adds the same error e for each rank that it holds. Here n - 1
 * contributions are coded, and their sum of n: (2n - 1) e. A ring codes sums of 1 to n - 1, and
 * then of n: n (n + 1) / 2 e. That is 7/10 with 4 ranks, and 31/136 with 16.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tools/bench/data.h"

#define RANKS_MAX 16
#define BLOCK 512 /* of int8 unless told otherwise */
#define ELEMS (256 * BLOCK)
#define WAIT_NS (60ull * 1000000000)

/** What is summed: the numbers of all ranks, and what becomes of them. */
struct subject {
    uint32_t ranks;
    float *inputs, *results; /* [ranks × ELEMS] */
    double *exact;           /* [ELEMS] */
};

static void make_subject(struct subject *subject, const char *name, uint32_t ranks)
{
    struct wring_bench_data data;

    *subject =
        (struct subject){ranks, calloc(ranks * ELEMS, sizeof(float)),
                         calloc(ranks * ELEMS, sizeof(float)), calloc(ELEMS, sizeof(double))};
    REQUIRE(subject->inputs != NULL && subject->results != NULL && subject->exact != NULL,
            "out of memory");
    REQUIRE(wring_bench_data_open(&data, name) == 0, "%s", name);
    REQUIRE(wring_bench_data_ranks(&data) >= ranks, "%s has %u ranks", name,
            wring_bench_data_ranks(&data));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        wring_bench_data_fill(&data, rank, subject->inputs + rank * ELEMS, ELEMS);
        for (int i = 0; i < ELEMS; i++)
            subject->exact[i] += (double)subject->inputs[rank * ELEMS + i];
    }
    wring_bench_data_close(&data);
}

static void free_subject(struct subject *subject)
{
    free(subject->inputs);
    free(subject->results);
    free(subject->exact);
}

static double nmse_of(const struct subject *subject, const float *sum)
{
    double error = 0, power = 0;

    for (int i = 0; i < ELEMS; i++) {
        error += ((double)sum[i] - subject->exact[i]) * ((double)sum[i] - subject->exact[i]);
        power += subject->exact[i] * subject->exact[i];
    }
    return error / power;
}

/* ---- as a job sums ---- */

static void sum_bucket(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct subject *subject = arg;
    struct wring_bucket *bucket;
    float *data = subject->results + rank * ELEMS;
    struct wring_bucket_params params = {.name = "sum",
                                         .data = data,
                                         .elems = ELEMS,
                                         .op = WRING_SUM,
                                         .codec = "int8",
                                         .scheme = WRING_SCHEME_DIVISIBLE};

    memcpy(data, subject->inputs + rank * ELEMS, ELEMS * sizeof(float));
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "bucket");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    CHECK(wring_bucket_post(bucket) == WRING_OK &&
              wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
          "step");
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
}

static double sum_by_sessions(struct subject *subject)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller",
                                           "WRING_SPIN=0", NULL};

    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = subject->ranks, .settings = settings, .arg = subject, .run = sum_bucket});
    for (uint32_t rank = 1; rank < subject->ranks; rank++)
        CHECK(memcmp(subject->results, subject->results + rank * ELEMS, ELEMS * sizeof(float)) == 0,
              "rank %u of %u has another sum", rank, subject->ranks);
    return nmse_of(subject, subject->results);
}

/* ---- as rings do ---- */

/** Round to 255 steps around 0. */
static void code_around_0(float *data, int n)
{
    float peak = 0;

    for (int i = 0; i < n; i++)
        peak = fmaxf(peak, fabsf(data[i]));
    for (int i = 0; i < n && peak > 0; i++)
        data[i] = nearbyintf(data[i] / (peak / 127)) * (peak / 127);
}

static void code_blocks(float *data, int n)
{
    for (int at = 0; at < n; at += BLOCK)
        code_around_0(data + at, BLOCK);
}

/** Round to 256 steps from the least to the largest. */
static void code_shard(float *data, int n)
{
    float least = data[0], most = data[0];

    for (int i = 1; i < n; i++) {
        least = fminf(least, data[i]);
        most = fmaxf(most, data[i]);
    }
    float step = (most - least) / 255;
    for (int i = 0; i < n && step > 0; i++)
        data[i] = least + nearbyintf((data[i] - least) / step) * step;
}

/** A shard goes from rank to rank, coded before each hop, and coded once more for all of them. */
static double sum_by_ring(const struct subject *subject, void (*code)(float *data, int n))
{
    static float sum[ELEMS];
    uint32_t ranks = subject->ranks;
    int n = ELEMS / (int)ranks;

    for (uint32_t shard = 0; shard < ranks; shard++) {
        float *part = sum + shard * (uint32_t)n;
        const float *inputs = subject->inputs + shard * (uint32_t)n;
        memcpy(part, inputs + shard * ELEMS, (size_t)n * sizeof(float));
        for (uint32_t hop = 1; hop < ranks; hop++) {
            const float *own = inputs + (shard + hop) % ranks * ELEMS;
            code(part, n);
            for (int i = 0; i < n; i++)
                part[i] += own[i];
        }
        code(part, n);
    }
    return nmse_of(subject, sum);
}

/* ---- both ---- */

/** Errors of a sum, and their shares of those of the two rings. */
struct errors {
    double nmse, of_blocks, of_shards;
};

static struct errors measure(const char *data, uint32_t ranks)
{
    struct subject subject;

    make_subject(&subject, data, ranks);
    double nmse = sum_by_sessions(&subject), blocks = sum_by_ring(&subject, code_blocks),
           shards = sum_by_ring(&subject, code_shard);
    free_subject(&subject);
    printf("%s, %u ranks: nmse %.3g; of a ring's with the same blocks %.3f, of one with a range a "
           "shard %.3f\n",
           data, ranks, nmse, nmse / blocks, nmse / shards);
    return (struct errors){nmse, nmse / blocks, nmse / shards};
}

/** More ranks make a sum hardly worse, and a range a shard is always worse than blocks. */
static void compare(const char *data)
{
    struct errors four = measure(data, 4), sixteen = measure(data, RANKS_MAX);

    CHECK(four.of_blocks <= 0.8, "%s, 4 ranks: %.3f of a ring's error", data, four.of_blocks);
    CHECK(sixteen.of_blocks <= 0.35, "%s, 16 ranks: %.3f", data, sixteen.of_blocks);
    CHECK(sixteen.nmse <= 1.3 * four.nmse, "%s: %g with 16 ranks, %g with 4", data, sixteen.nmse,
          four.nmse);
    CHECK(four.of_shards < four.of_blocks && sixteen.of_shards < sixteen.of_blocks,
          "%s: a range a shard does better than blocks", data);
}

/** Of numbers that are what the theory takes them for. */
static void as_predicted(void)
{
    struct errors four = measure("normal", 4), sixteen = measure("normal", RANKS_MAX);

    CHECK(fabs(four.of_blocks / (7.0 / 10) - 1) < 0.05, "4 ranks: %.3f of a ring's error, not 7/10",
          four.of_blocks);
    CHECK(fabs(sixteen.of_blocks / (31.0 / 136) - 1) < 0.05, "16 ranks: %.3f, not 31/136",
          sixteen.of_blocks);
}

static void normal(void)
{
    compare("normal");
}

/** Of a block's numbers one stands out more than of a sum's: first codes lose more. */
static void laplace(void)
{
    compare("laplace");
}

static void recorded(void)
{
    compare("recorded");
}

static const struct wring_test_case cases[] = {
    {"as predicted", as_predicted},
    {"normal", normal},
    {"laplace", laplace},
    {"recorded", recorded},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
