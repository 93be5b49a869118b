/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)

struct run {
    const struct wring_matrix_case *c;
    float **results; /* [ranks][elems] */
};

const char *wring_matrix_text(const struct wring_matrix_case *c, char *text, int bytes)
{
    snprintf(text, (size_t)bytes,
             "%u ranks, %llu elems, %s, scheme %d, op %d, %s, chunk %s, %s, "
             "%s, %s%s%s",
             c->ranks, (unsigned long long)c->elems, c->codec, (int)c->scheme, (int)c->op,
             c->provider, c->chunk, c->cpu, c->executor, c->progress, c->foreign ? ", foreign" : "",
             c->flush ? ", ftz" : "");
    return text;
}

void wring_matrix_input(const struct wring_matrix_case *c, uint32_t rank, unsigned step,
                        float *data)
{
    uint32_t state = 1 + rank * 7919 + step * 104729;
    uint64_t saved = wring_fp_enter(); /* the same input in every mode */
    for (uint64_t i = 0; i < c->elems; i++) {
        float x = wring_test_random_float(&state);
        data[i] = i % 64 == 5 ? x * 1e-39f : x; /* some denormals */
    }
    for (uint32_t i = 0; rank == 1 && i < c->special && c->elems > 0; i++)
        data[(uint64_t)i * 977 % c->elems] = i % 2 == 0 ? NAN : INFINITY;
    wring_fp_leave(saved);
}

static void set_flush(bool flush)
{
#if defined(__x86_64__)
    if (flush)
        _mm_setcsr(_mm_getcsr() | 0x8040); /* FTZ and DAZ */
#else
    (void)flush;
#endif
}

enum wring_status wring_matrix_steps(struct wring_session *session,
                                     const struct wring_matrix_case *c, float *data)
{
    uint32_t rank = wring_session_rank(session);
    struct wring_bucket *bucket;
    char text[256];
    struct wring_bucket_params params = {.name = "b",
                                         .data = data,
                                         .elems = c->elems,
                                         .op = c->op,
                                         .codec = c->codec,
                                         .scheme = c->scheme};
    enum wring_status status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    CHECK(status == WRING_OK, "rank %u: %s: %s", rank, wring_status_text(status),
          wring_matrix_text(c, text, sizeof(text)));
    set_flush(c->flush);
    for (unsigned step = 0; step < c->steps && status == WRING_OK; step++) {
        wring_matrix_input(c, rank, step, data);
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WAIT_NS);
        CHECK(status == WRING_OK, "rank %u step %u: %s: %s", rank, step, wring_status_text(status),
              wring_matrix_text(c, text, sizeof(text)));
    }
    return status;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct run *run = arg;
    const struct wring_matrix_case *c = run->c;
    size_t bytes = c->elems * sizeof(float);
    void *data = NULL;

    if (c->foreign)
        data = calloc(1, bytes + 64);
    else
        REQUIRE(wring_buffer_alloc(session, bytes, &data) == WRING_OK, "alloc");
    wring_matrix_steps(session, c, data);
    if (bytes > 0)
        memcpy(run->results[rank], data, bytes);
    if (c->foreign) {
        wring_session_commit(session); /* nobody may still write into it */
        free(data);
    }
}

bool wring_matrix_run(const struct wring_matrix_case *c, float *out)
{
    char settings[5][64], text[256];
    const char *list[6] = {settings[0], settings[1], settings[2], settings[3], settings[4], NULL};
    unsigned before = wring_test_failures();
    struct run run = {c, calloc(c->ranks, sizeof(float *))};

    snprintf(settings[0], 64, "WRING_PROVIDER=%s", c->provider);
    snprintf(settings[1], 64, "WRING_CHUNK_BYTES=%s", c->chunk);
    snprintf(settings[2], 64, "WRING_CPU=%s", c->cpu);
    snprintf(settings[3], 64, "WRING_EXECUTOR=%s", c->executor);
    snprintf(settings[4], 64, "WRING_PROGRESS=%s", c->progress);
    for (uint32_t i = 0; i < c->ranks; i++)
        run.results[i] = calloc(c->elems + 1, sizeof(float));
    struct wring_test_job job = {.ranks = c->ranks, .settings = list, .arg = &run, .run = run_rank};
    wring_test_run_ranks(&job);
    for (uint32_t i = 1; i < c->ranks; i++)
        CHECK(memcmp(run.results[0], run.results[i], c->elems * sizeof(float)) == 0,
              "ranks 0 and %u differ: %s", i, wring_matrix_text(c, text, sizeof(text)));
    memcpy(out, run.results[0], c->elems * sizeof(float));
    for (uint32_t i = 0; i < c->ranks; i++)
        free(run.results[i]);
    free(run.results);
    return wring_test_failures() == before;
}
