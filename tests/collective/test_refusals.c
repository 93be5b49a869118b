/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that cannot work are refused where they are made, with a line that says why. */
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

static _Thread_local char line[256]; /* the last one logged; ranks are threads */

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level, (void)module;
    (void)arg;
    snprintf(line, sizeof(line), "%s", text);
}

static void refusals(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_bucket *bucket;
    float x[16] = {0}, y[16] = {0};
    int32_t i[16] = {0};
    struct wring_bucket_params params = {
        .name = "b", .data = i, .elems = 4, .dtype = WRING_I32, .codec = "int8"};
    (void)rank, (void)arg;

    CHECK(wring_allreduce(world, i, i, 4, WRING_I32, WRING_SUM,
                          &(struct wring_call){.codec = "int8:block=64"},
                          NULL) == WRING_ERR_UNSUPPORTED &&
              strstr(line, "int8:block=64") && strstr(line, "i32") && strstr(line, "none"),
          "a codec of integers: %s", line);
    CHECK(wring_allreduce(world, x, x, 4, WRING_F32, WRING_MAX,
                          &(struct wring_call){.codec = "bf16"}, NULL) == WRING_ERR_UNSUPPORTED &&
              strstr(line, "max"),
          "the greatest of codes: %s", line);
    CHECK(wring_allgather(world, x, y, 4, WRING_F32, &(struct wring_call){.codec = "bf16+ef"},
                          NULL) == WRING_ERR_UNSUPPORTED,
          "a residual in an immediate call");
    CHECK(wring_reduce_scatter(world, x, y, 4, WRING_F32, WRING_SUM,
                               &(struct wring_call){.codec = "fp16>bf16"},
                               NULL) == WRING_ERR_UNSUPPORTED &&
              strstr(line, "use fp16"),
          "a way back where there is none: %s", line);
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_UNSUPPORTED &&
              strstr(line, "'b'"),
          "a bucket of integers with a codec: %s", line);
    params = (struct wring_bucket_params){.name = "b", .data = (char *)x + 4, .elems = 1};
    params.dtype = WRING_F64;
    CHECK(wring_bucket_register(session, &params, &bucket) ==
              ((uintptr_t)x % 8 == 0 ? WRING_ERR_INVALID : WRING_OK),
          "a float64 at four bytes");
    CHECK(wring_allreduce(world, (char *)i + 2, (char *)i + 2, 1, WRING_I32, WRING_SUM, NULL,
                          NULL) == WRING_ERR_INVALID,
          "an integer at two bytes");
    CHECK(wring_allreduce(world, NULL, NULL, 1, WRING_I32, WRING_SUM, NULL, NULL) ==
              WRING_ERR_INVALID,
          "nowhere");
    CHECK(wring_reduce_scatter(world, x, x, UINT64_MAX / 8, WRING_F32, WRING_SUM, NULL, NULL) ==
              WRING_ERR_INVALID,
          "more than there is");
    CHECK(wring_allreduce(world, x, x, 1, (enum wring_dtype)WRING_DTYPES, WRING_SUM, NULL, NULL) ==
                  WRING_ERR_INVALID &&
              wring_allreduce(world, x, x, 1, WRING_F32, (enum wring_op)WRING_OPS, NULL, NULL) ==
                  WRING_ERR_INVALID,
          "no such type or operation");
    CHECK(wring_alltoall(world, x, x, 2, WRING_F32, NULL, NULL) == WRING_ERR_INVALID,
          "alltoall in place");
    CHECK(wring_broadcast(world, x, 4, 2, NULL, NULL) == WRING_ERR_INVALID, "no such root");
    CHECK(wring_broadcast(world, x, 16, 0, &(struct wring_call){.codec = "bf16+ef"}, NULL) ==
                  WRING_ERR_UNSUPPORTED &&
              strstr(line, "register a bucket"),
          "a residual in a broadcast: %s", line);
    CHECK(wring_broadcast(world, x, 16, 0, &(struct wring_call){.codec = "fp16>bf16"}, NULL) ==
                  WRING_ERR_UNSUPPORTED &&
              strstr(line, "use fp16"),
          "a way back from a broadcast: %s", line);
    CHECK(wring_broadcast(world, x, 15, 0, &(struct wring_call){.codec = "bf16"}, NULL) ==
                  WRING_ERR_INVALID &&
              strstr(line, "15 bytes"),
          "a broadcast of three floats and three quarters: %s", line);
    CHECK(wring_broadcast(world, (char *)i + 2, 8, 0, &(struct wring_call){.codec = "bf16"},
                          NULL) == WRING_ERR_INVALID,
          "floats at two bytes");
    CHECK(wring_broadcast(world, x, 15, 0,
                          &(struct wring_call){.codec = "int8:block=64", .dtype = WRING_F16},
                          NULL) == WRING_ERR_INVALID &&
              strstr(line, "elements of f16"),
          "a broadcast of seven halves and a half: %s", line);
    CHECK(wring_broadcast(world, x, 16, 0,
                          &(struct wring_call){.codec = "bf16", .dtype = WRING_F64},
                          NULL) == WRING_ERR_UNSUPPORTED &&
              strstr(line, "of f64"),
          "a broadcast of coded f64: %s", line);
    CHECK(wring_allreduce(world, x, x, 1, WRING_F16, WRING_SUM,
                          &(struct wring_call){.dtype = WRING_F16}, NULL) == WRING_ERR_INVALID &&
              strstr(line, "leave it 0"),
          "an allreduce of two types: %s", line);
    CHECK(wring_broadcast(world, NULL, 1, 0, NULL, NULL) == WRING_ERR_INVALID, "from nowhere");
    char name[WRING_NAME_MAX + 1];
    snprintf(name, sizeof(name), "%0*d", WRING_NAME_MAX, 7);
    params = (struct wring_bucket_params){.name = name, .data = x, .elems = 4};
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID &&
              strstr(line, "513 bytes, at most 512") != NULL,
          "a name of %d bytes: %s", WRING_NAME_MAX, line);
    params.name = name + 1;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "one of 512: %s", line);
    wring_bucket_drop(bucket);
    CHECK(wring_buffer_register(session, NULL, 4) == WRING_ERR_INVALID &&
              wring_buffer_register(session, x, 0) == WRING_ERR_INVALID,
          "no memory");
    wring_buffer_free(session, x); /* not known: left alone */
    CHECK(wring_barrier(world, &(struct wring_call){.codec = "bf16"}, NULL) == WRING_ERR_INVALID &&
              strstr(line, "bf16"),
          "a barrier with a codec: %s", line);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "the session goes on");
}

/** A type has some operations, and a factor goes with one of them. */
static void operations(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    const struct wring_call how = {.factor = 0.5};
    struct wring_bucket_params params = {.name = "b", .elems = 4, .op = WRING_BXOR};
    struct wring_bucket *bucket;
    float x[4] = {1, 2, 3, 4};
    (void)rank, (void)arg;

    CHECK(wring_allreduce(world, x, x, 4, WRING_F32, WRING_BAND, NULL, NULL) == WRING_ERR_INVALID &&
              strstr(line, "no band of f32"),
          "bits of floats: %s", line);
    CHECK(wring_reduce_scatter(world, x, x, 1, WRING_BYTE, WRING_SUM, NULL, NULL) ==
                  WRING_ERR_INVALID &&
              strstr(line, "no sum of byte"),
          "a sum of bytes: %s", line);
    CHECK(wring_allreduce(world, x, x, 4, WRING_F32, WRING_PREMUL_SUM, NULL, NULL) ==
                  WRING_ERR_INVALID &&
              strstr(line, "factor"),
          "no factor: %s", line);
    CHECK(wring_allreduce(world, x, x, 4, WRING_F32, WRING_SUM, &how, NULL) == WRING_ERR_INVALID &&
              strstr(line, "factor"),
          "a factor of a plain sum: %s", line);
    params.data = x;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID &&
              strstr(line, "no bxor of f32"),
          "a bucket: %s", line);
    params.op = WRING_SUM;
    params.factor = 2;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID &&
              strstr(line, "factor is for premul_sum"),
          "a factor of a bucket's plain sum: %s", line);
    CHECK(x[0] == 1 && x[3] == 4, "memory is left alone");
    CHECK(wring_allreduce(world, x, x, 4, WRING_F32, WRING_PREMUL_SUM, &how, NULL) == WRING_OK &&
              x[0] == 1 && x[3] == 4,
          "two halves are one: %g", (double)x[0]);
}

static void operations_are_those_of_types(void)
{
    struct wring_test_job job = {.ranks = 2, .run = operations, .log = keep_line};
    wring_test_run_ranks(&job);
}

/** Calls with a root, and those with runs of any lengths. The job has two ranks. */
static void runs_and_roots(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t runs[2] = {3, 1}, huge[2] = {1, UINT64_MAX / 8};
    const uint64_t other[2] = {rank == 0 ? 4 : 3, rank == 0 ? 1 : 2};
    struct wring_group *world = wring_session_world(session);
    float x[16] = {0}, y[16] = {0};
    (void)arg;

    CHECK(wring_reduce(world, x, y, 4, WRING_F32, WRING_SUM, 2, NULL, NULL) == WRING_ERR_INVALID &&
              strstr(line, "no root 2"),
          "no such root: %s", line);
    CHECK(wring_gather(world, x, y, 4, WRING_F32, 2, NULL, NULL) == WRING_ERR_INVALID &&
              wring_scatter(world, x, y, 4, WRING_F32, UINT32_MAX, NULL, NULL) == WRING_ERR_INVALID,
          "nor here");
    CHECK(wring_reduce(world, x, NULL, 4, WRING_F32, WRING_SUM, rank, NULL, NULL) ==
                  WRING_ERR_INVALID &&
              wring_gather(world, x, NULL, 4, WRING_F32, rank, NULL, NULL) == WRING_ERR_INVALID &&
              wring_scatter(world, NULL, y, 4, WRING_F32, rank, NULL, NULL) == WRING_ERR_INVALID,
          "a root without memory");
    CHECK(wring_gather(world, x + 1, x, 4, WRING_F32, rank, NULL, NULL) == WRING_ERR_INVALID &&
              wring_scatter(world, x, x + 1, 4, WRING_F32, rank, NULL, NULL) == WRING_ERR_INVALID,
          "not the root's own place");
    CHECK(wring_gather(world, x, y, 4, WRING_F32, 0, &(struct wring_call){.codec = "fp16>bf16"},
                       NULL) == WRING_ERR_UNSUPPORTED,
          "a way back in a gather");
    CHECK(wring_reduce(world, x, y, 4, WRING_F32, WRING_MAX, 0,
                       &(struct wring_call){.codec = "bf16"}, NULL) == WRING_ERR_UNSUPPORTED,
          "the greatest of codes");
    CHECK(wring_allgatherv(world, x, y, NULL, WRING_F32, NULL, NULL) == WRING_ERR_INVALID &&
              strstr(line, "elems"),
          "no lengths: %s", line);
    CHECK(wring_reduce_scatterv(world, x, y, huge, WRING_F32, WRING_SUM, NULL, NULL) ==
                  WRING_ERR_INVALID &&
              wring_allgatherv(world, x, y, huge, WRING_F32, NULL, NULL) == WRING_ERR_INVALID &&
              wring_alltoallv(world, x, huge, y, huge, WRING_F32, NULL, NULL) == WRING_ERR_INVALID,
          "more than there is");
    CHECK(wring_alltoallv(world, x, runs, y, other, WRING_F32, NULL, NULL) == WRING_ERR_INVALID &&
              strstr(line, "for itself"),
          "other lengths for itself: %s", line);
    CHECK(wring_alltoallv(world, x, runs, x, runs, WRING_F32, NULL, NULL) == WRING_ERR_INVALID,
          "alltoallv in place");
    CHECK(wring_alltoallv(world, x, runs, y, runs, WRING_F32, &(struct wring_call){.codec = "bf16"},
                          NULL) == WRING_ERR_UNSUPPORTED &&
              strstr(line, "bf16"),
          "alltoallv with a codec: %s", line);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "the session goes on");
}

/** in and out are the same memory in the way that a call names, or apart. */
static void overlaps(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    float x[16] = {0};
    (void)arg;

#define OVERLAP(call)                                                                              \
    do {                                                                                           \
        line[0] = '\0';                                                                            \
        CHECK((call) == WRING_ERR_INVALID && strstr(line, "overlap") != NULL, #call ": %s", line); \
    } while (0)
    OVERLAP(wring_allreduce(world, x, x + 3, 4, WRING_F32, WRING_SUM, NULL, NULL));
    OVERLAP(wring_allreduce(world, x + 3, x, 4, WRING_F32, WRING_SUM, NULL, NULL));
    OVERLAP(
        wring_reduce_scatter(world, x, x + 4 * (1 - rank), 4, WRING_F32, WRING_SUM, NULL, NULL));
    OVERLAP(wring_allgather(world, x + 4 * (1 - rank), x, 4, WRING_F32, NULL, NULL));
    OVERLAP(wring_alltoall(world, x, x, 2, WRING_F32, NULL, NULL));
    CHECK(wring_allreduce(world, x + 4, x, 4, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK,
          "side by side");
    CHECK(wring_alltoall(world, x, x, 0, WRING_F32, NULL, NULL) == WRING_OK, "nothing at all");
}

static void roots_and_runs_are_refused(void)
{
    struct wring_test_job job = {.ranks = 2, .run = runs_and_roots, .log = keep_line};
    wring_test_run_ranks(&job);
}

static void overlaps_are_refused(void)
{
    struct wring_test_job job = {.ranks = 2, .run = overlaps, .log = keep_line};
    wring_test_run_ranks(&job);
}

/** Sizes that overflow are told from places that are wrong. */
static void overflows(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t counts[] = {1ull << 58, 1ull << 62, (1ull << 62) + 1, 1ull << 63,
                                      UINT64_MAX};
    struct wring_group *world = wring_session_world(session);
    struct wring_bucket *bucket;
    void *data;
    float x[16] = {0}, y[32] = {0};
    (void)rank, (void)arg;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t n = counts[i];
        struct wring_bucket_params params = {.name = "b", .data = x, .elems = n};
        line[0] = '\0';
        CHECK(wring_bucket_register(session, &params, &bucket) != WRING_OK, "a bucket");
        CHECK(n == 1ull << 58 || strstr(line, "more than memory can hold") != NULL,
              "a bucket of %llu: %s", (unsigned long long)n, line);
#define TOO_MUCH(call)                                                                          \
    do {                                                                                        \
        line[0] = '\0';                                                                         \
        CHECK((call) == WRING_ERR_INVALID && strstr(line, "more than memory can hold") != NULL, \
              #call ", %llu: %s", (unsigned long long)n, line);                                 \
    } while (0)
        TOO_MUCH(wring_allreduce(world, x, x, n, WRING_F32, WRING_SUM, NULL, NULL));
        TOO_MUCH(wring_reduce_scatter(world, x, y, n, WRING_F32, WRING_SUM, NULL, NULL));
        TOO_MUCH(wring_allgather(world, x, y, n, WRING_F32, NULL, NULL));
        TOO_MUCH(wring_alltoall(world, x, y, n, WRING_F32, NULL, NULL));
        TOO_MUCH(wring_broadcast(world, x, n, 0, NULL, NULL));
    }
    line[0] = '\0';
    CHECK(wring_buffer_alloc(session, SIZE_MAX, &data) == WRING_ERR_NO_MEMORY &&
              strstr(line, "more than memory can hold") != NULL,
          "a buffer: %s", line);
    line[0] = '\0';
    CHECK(wring_buffer_register(session, x, SIZE_MAX - 64) == WRING_ERR_INVALID &&
              strstr(line, "more than memory can hold") != NULL,
          "memory past its end: %s", line);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "the session goes on");
}

static void overflows_are_named(void)
{
    struct wring_test_job job = {.ranks = 2, .run = overflows, .log = keep_line};
    wring_test_run_ranks(&job);
}

static void refused_calls(void)
{
    struct wring_test_job job = {.ranks = 2, .run = refusals, .log = keep_line};
    wring_test_run_ranks(&job);
}

/** Rank 1 passes another count: everyone learns that somebody did, and nobody waits for ever. */
static void other_count(struct wring_session *session, uint32_t rank, void *arg)
{
    const char *codec = arg;
    struct wring_group *world = wring_session_world(session);
    const struct wring_call how = {.codec = codec};
    struct wring_error_detail detail = {.rank = -2};
    struct wring_result result = {.rank = -2, .bytes = 7};
    struct wring_request *request;
    static _Thread_local float in[1000], out[3000];
    uint64_t elems = rank == 1 ? 999 : 1000;

    enum wring_status status = wring_allgather(world, in, out, elems, WRING_F32, &how, &request);
    if (status == WRING_OK) { /* else others have found out before this rank called */
        status = wring_request_wait(request, WRING_FOREVER, &result);
        CHECK(result.status == status && result.rank == -1 &&
                  result.bytes == (status == WRING_OK ? 3 * elems * sizeof(float) : 0),
              "rank %u: %s, %llu bytes", rank, wring_status_text(result.status),
              (unsigned long long)result.bytes);
    }
    if (status == WRING_OK) /* a rank may have had all it wants before the others found out */
        status = wring_barrier(world, NULL, NULL);
    CHECK(status == WRING_ERR_MISMATCH, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_session_error(session, &detail) == status && detail.rank == -1 &&
              strstr(detail.text, "rank 1 ") && strstr(detail.text, "allgather of 999 f32") &&
              strstr(detail.text, "allgather of 1000 f32"),
          "rank %u blames %d: %s", rank, (int)detail.rank, detail.text);
}

static void counts_that_differ(void)
{
    static char bf16[] = "bf16";
    struct wring_test_job job = {.ranks = 3, .run = other_count, .log = keep_line};
    wring_test_run_ranks(&job);
    job.arg = bf16;
    wring_test_run_ranks(&job);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"refused_calls", refused_calls},
        {"operations_are_those_of_types", operations_are_those_of_types},
        {"roots_and_runs_are_refused", roots_and_runs_are_refused},
        {"overlaps_are_refused", overlaps_are_refused},
        {"overflows_are_named", overflows_are_named},
        {"counts_that_differ", counts_that_differ},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
