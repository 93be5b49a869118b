/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/collective/strict.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define SETTINGS 7

struct run {
    const struct wring_matrix_case *c;
    void **results; /* [ranks][out_elems] */
    void **foreign; /* [ranks][2] memory to be freed when all sessions are closed */
};

const char *wring_matrix_text(const struct wring_matrix_case *c, char *text, int bytes)
{
    static const char *const whats[] = {"bucket",    "allreduce", "reduce-scatter",
                                        "allgather", "alltoall",  "broadcast"};
    static const char *const memories[] = {"allocated", "foreign", "registered"};
    snprintf(text, (size_t)bytes,
             "%s, %u ranks (%u per node), %llu elems of %s, %s, %s, scheme %d, %s, chunk %s, %s, "
             "%s, %s, %s slots, %s%s%s%s"
             "%s, %u steps",
             whats[c->what], c->ranks, c->ranks_per_node, (unsigned long long)c->elems,
             wring_dtype_name(c->dtype), wring_op_name(c->op), c->codec, (int)c->scheme,
             c->provider, c->chunk, c->cpu, c->executor, c->progress,
             c->slots != NULL ? c->slots : "64", memories[c->memory], c->strict ? ", strict" : "",
             c->in_place ? ", in place" : "", c->flush ? ", ftz" : "",
             c->special ? ", special" : "", c->steps);
    return text;
}

uint64_t wring_matrix_in_elems(const struct wring_matrix_case *c)
{
    bool each = c->what == WRING_MATRIX_REDUCE_SCATTER || c->what == WRING_MATRIX_ALLTOALL;
    return each ? c->elems * c->ranks : c->elems;
}

uint64_t wring_matrix_out_elems(const struct wring_matrix_case *c)
{
    bool each = c->what == WRING_MATRIX_ALLGATHER || c->what == WRING_MATRIX_ALLTOALL;
    return each ? c->elems * c->ranks : c->elems;
}

double wring_matrix_factor(uint32_t rank, unsigned step)
{
    return ((double)((rank * 5 + step) % 8) - 3) / 7;
}

uint32_t wring_matrix_root(const struct wring_matrix_case *c, unsigned step)
{
    return (step + 1) % c->ranks;
}

bool wring_matrix_same(const struct wring_matrix_case *c)
{
    return c->what != WRING_MATRIX_REDUCE_SCATTER && c->what != WRING_MATRIX_ALLTOALL;
}

/** What codecs take: some denormals, and few elements that are not finite. */
static void fill_coded(const struct wring_matrix_case *c, uint32_t rank, unsigned step, float *data)
{
    const float least = c->dtype == WRING_F16 ? 1e-6f : 1e-39f;
    uint64_t n = wring_matrix_in_elems(c);
    uint32_t state = 1 + rank * 7919 + step * 104729;
    for (uint64_t i = 0; i < n; i++) {
        float x = wring_test_random_float(&state);
        data[i] = i % 64 == 5 ? x * least : x;
    }
    for (uint32_t i = 0; rank == 1 && i < c->special && n > 0; i++)
        data[(uint64_t)i * 977 % n] = i % 2 == 0 ? NAN : INFINITY;
}

static void fill_rounded(const struct wring_matrix_case *c, uint32_t rank, unsigned step,
                         void *data)
{
    uint64_t n = wring_matrix_in_elems(c);
    float *wide = malloc((n + 1) * sizeof(*wide));

    fill_coded(c, rank, step, wide);
    wring_test_narrow(c->dtype, data, wide, n);
    free(wide);
}

void wring_matrix_input(const struct wring_matrix_case *c, uint32_t rank, unsigned step, void *data)
{
    uint64_t saved = wring_fp_enter(); /* the same input in every mode */
    bool coded = strcmp(c->codec, "none") != 0;
    if (c->dtype == WRING_F32)
        fill_coded(c, rank, step, data);
    else if (coded)
        fill_rounded(c, rank, step, data);
    else
        wring_test_fill(c->dtype, data, wring_matrix_in_elems(c),
                        c->special ? WRING_TEST_BITS : WRING_TEST_PLAIN, 1 + rank + step * 64);
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

static enum wring_status call(struct wring_group *group, const struct wring_matrix_case *c,
                              uint32_t rank, unsigned step, void *in, void *out,
                              struct wring_request **request)
{
    struct wring_call how = {.codec = c->codec};

    if (c->what == WRING_MATRIX_BROADCAST && strcmp(c->codec, "none") != 0)
        how.dtype = c->dtype;

    if (c->op == WRING_PREMUL_SUM)
        how.factor = wring_matrix_factor(rank, step);
    switch (c->what) {
    case WRING_MATRIX_ALLREDUCE:
        return wring_allreduce(group, in, out, c->elems, c->dtype, c->op, &how, request);
    case WRING_MATRIX_REDUCE_SCATTER:
        return wring_reduce_scatter(group, in, out, c->elems, c->dtype, c->op, &how, request);
    case WRING_MATRIX_ALLGATHER:
        return wring_allgather(group, in, out, c->elems, c->dtype, &how, request);
    case WRING_MATRIX_ALLTOALL:
        return wring_alltoall(group, in, out, c->elems, c->dtype, &how, request);
    case WRING_MATRIX_BROADCAST:
        return wring_broadcast(group, in, c->elems * wring_dtype_bytes(c->dtype),
                               wring_matrix_root(c, step), &how, request);
    case WRING_MATRIX_BUCKET:
    case WRING_MATRIX_WHATS:
        break;
    }
    return WRING_ERR_INVALID;
}

/** A call that waits in even steps, a request in odd ones. */
static enum wring_status immediate_step(struct wring_session *session,
                                        const struct wring_matrix_case *c, unsigned step, void *in,
                                        void *out)
{
    struct wring_group *world = wring_session_world(session);
    uint32_t rank = wring_session_rank(session);
    struct wring_request *request;
    if (step % 2 == 0)
        return call(world, c, rank, step, in, out, NULL);
    enum wring_status status = call(world, c, rank, step, in, out, &request);
    return status == WRING_OK ? wring_request_wait(request, WAIT_NS, NULL) : status;
}

static enum wring_status make_bucket(struct wring_session *session,
                                     const struct wring_matrix_case *c, void *data,
                                     struct wring_bucket **out)
{
    struct wring_bucket_params params = {.name = "b",
                                         .data = data,
                                         .elems = c->elems,
                                         .dtype = c->dtype,
                                         .op = c->op,
                                         .codec = c->codec,
                                         .scheme = c->scheme};
    if (c->rows > 0) {
        params.shape.rows = c->rows;
        params.shape.columns = c->elems / c->rows;
    }
    enum wring_status status = wring_bucket_register(session, &params, out);
    return status == WRING_OK ? wring_session_commit(session) : status;
}

/** What goes out of place is only read. */
static void check_kept(const struct wring_matrix_case *c, uint32_t rank, const void *in)
{
    size_t bytes = wring_matrix_in_elems(c) * wring_dtype_bytes(c->dtype);
    void *want = calloc(1, bytes + 1);
    char text[512];

    wring_matrix_input(c, rank, c->steps - 1, want);
    CHECK(bytes == 0 || memcmp(in, want, bytes) == 0, "rank %u: its input was written to: %s", rank,
          wring_matrix_text(c, text, sizeof(text)));
    free(want);
}

enum wring_status wring_matrix_steps(struct wring_session *session,
                                     const struct wring_matrix_case *c, void *in, void *out)
{
    uint32_t rank = wring_session_rank(session);
    struct wring_bucket *bucket = NULL;
    enum wring_status status = WRING_OK;
    unsigned step = 0;
    char text[512];

    if (c->what == WRING_MATRIX_BUCKET)
        status = make_bucket(session, c, in, &bucket);
    set_flush(c->flush);
    for (; step < c->steps && status == WRING_OK; step++) {
        wring_matrix_input(c, rank, step, in);
        if (bucket == NULL) {
            status = immediate_step(session, c, step, in, out);
            continue;
        }
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WAIT_NS, NULL);
    }
    CHECK(status == WRING_OK, "rank %u step %u: %s: %s", rank, step, wring_status_text(status),
          wring_matrix_text(c, text, sizeof(text)));
    if (in != out && !c->in_place && c->steps > 0)
        check_kept(c, rank, in);
    return status;
}

/** One piece of memory as the case wants it. @param foreign out, what is to be freed later */
static void *get_memory(struct wring_session *session, const struct wring_matrix_case *c,
                        uint64_t elems, void **foreign)
{
    size_t bytes = elems * wring_dtype_bytes(c->dtype) + 8;
    void *data = NULL;
    if (c->memory == WRING_MATRIX_ALLOCATED) {
        CHECK(wring_buffer_alloc(session, bytes, &data) == WRING_OK, "alloc");
        return data;
    }
    data = *foreign = calloc(1, bytes);
    if (c->memory == WRING_MATRIX_REGISTERED)
        CHECK(wring_buffer_register(session, data, bytes) == WRING_OK, "register");
    return data;
}

/** Where `in` and `out` lie in the larger of both. */
static void overlay(const struct wring_matrix_case *c, uint32_t rank, uint8_t **in, uint8_t **out)
{
    size_t own = rank * c->elems * wring_dtype_bytes(c->dtype);
    if (wring_matrix_in_elems(c) > wring_matrix_out_elems(c))
        *out = *in + own;
    else if (wring_matrix_in_elems(c) < wring_matrix_out_elems(c))
        *in = *out + own;
    else
        *out = *in;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct run *run = arg;
    const struct wring_matrix_case *c = run->c;
    void **foreign = run->foreign + (size_t)2 * rank;
    uint8_t *in = get_memory(session, c, wring_matrix_in_elems(c), &foreign[0]);
    uint8_t *out = get_memory(session, c, wring_matrix_out_elems(c), &foreign[1]);
    uint8_t *used_in = in, *used_out = out;

    if (c->strict)
        wring_test_be_strict(session);
    bool same = c->what == WRING_MATRIX_BROADCAST || c->what == WRING_MATRIX_BUCKET;
    if (same || c->in_place)
        overlay(c, rank, &used_in, &used_out);
    wring_matrix_steps(session, c, used_in, used_out);
    memcpy(run->results[rank], used_out, wring_matrix_out_elems(c) * wring_dtype_bytes(c->dtype));
    if (c->what == WRING_MATRIX_BUCKET)
        return; /* its memory is in use until the session is closed */
    wring_buffer_free(session, in);
    wring_buffer_free(session, out);
}

static void check_results(const struct run *run)
{
    const struct wring_matrix_case *c = run->c;
    size_t bytes = wring_matrix_out_elems(c) * wring_dtype_bytes(c->dtype);
    char text[512];

    for (uint32_t i = 0; i < c->ranks; i++)
        if (i == 0 || !wring_matrix_same(c))
            wring_matrix_check(c, i, run->results[i]);
        else
            CHECK(memcmp(run->results[0], run->results[i], bytes) == 0, "ranks 0 and %u differ: %s",
                  i, wring_matrix_text(c, text, sizeof(text)));
}

/** "shm+fault" is a provider and a wrapper, far faster than anything here. */
static void write_provider(const char *provider, char *name, char *fault)
{
    size_t length = strcspn(provider, "+");
    snprintf(name, 64, "WRING_PROVIDER=%.*s", (int)length, provider);
    snprintf(fault, 64, "WRING_FAULT=%s", provider[length] == '+' ? "rate=40gbit" : "");
}

bool wring_matrix_run(const struct wring_matrix_case *c)
{
    char settings[SETTINGS][64];
    const char *list[SETTINGS + 1] = {NULL};
    unsigned before = wring_test_failures();
    struct run run = {c, calloc(c->ranks, sizeof(void *)), calloc(c->ranks, 2 * sizeof(void *))};

    write_provider(c->provider, settings[0], settings[1]);
    snprintf(settings[2], 64, "WRING_CHUNK_BYTES=%s", c->chunk);
    snprintf(settings[3], 64, "WRING_CPU=%s", c->cpu);
    snprintf(settings[4], 64, "WRING_EXECUTOR=%s", c->executor);
    snprintf(settings[5], 64, "WRING_PROGRESS=%s", c->progress);
    snprintf(settings[6], 64, "WRING_POOL_SLOTS=%s", c->slots != NULL ? c->slots : "64");
    for (int i = 0; i < SETTINGS; i++)
        list[i] = settings[i];
    for (uint32_t i = 0; i < c->ranks; i++)
        run.results[i] = calloc(wring_matrix_out_elems(c) + 1, wring_dtype_bytes(c->dtype));
    struct wring_test_job job = {.ranks = c->ranks,
                                 .ranks_per_node = c->ranks_per_node,
                                 .settings = list,
                                 .arg = &run,
                                 .run = run_rank};
    wring_test_run_ranks(&job);
    if (wring_test_failures() == before)
        check_results(&run);
    for (uint32_t i = 0; i < c->ranks; i++) {
        free(run.results[i]);
        free(run.foreign[2 * i]);
        free(run.foreign[2 * i + 1]);
    }
    free(run.results);
    free(run.foreign);
    return wring_test_failures() == before;
}
