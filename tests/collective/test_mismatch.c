/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a group that do not make the same immediate calls: all of them hear who calls what. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 4
#define ODD 2 /* who does otherwise */
#define ELEMS_MAX 300000
#define WAIT_NS (60 * WRING_NS_PER_S)

enum what {
    ALLREDUCE,
    REDUCE_SCATTER,
    ALLGATHER,
    ALLTOALL,
    BROADCAST,
    BARRIER,
    NOTHING
};

struct call {
    enum what what;
    uint64_t elems; /* broadcast: bytes */
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec;
    uint32_t root;
};

struct disagreement {
    struct call call, odd;
    const char *named[2]; /* how the line calls them */
};

static const struct disagreement disagreements[] = {
    /* fewer and more chunks of the same size, and another size of the last one */
    {{.what = ALLREDUCE, .elems = 262144},
     {.what = ALLREDUCE, .elems = 131072},
     {"allreduce of 262144 f32, sum", "allreduce of 131072 f32, sum"}},
    {{.what = ALLREDUCE, .elems = 65536},
     {.what = ALLREDUCE, .elems = 131072},
     {"allreduce of 65536 f32, sum", "allreduce of 131072 f32, sum"}},
    {{.what = ALLREDUCE, .elems = 1200},
     {.what = ALLREDUCE, .elems = 1000},
     {"allreduce of 1200 f32, sum", "allreduce of 1000 f32, sum"}},
    {{.what = ALLGATHER, .elems = 4096},
     {.what = ALLGATHER, .elems = 40960},
     {"allgather of 4096 f32", "allgather of 40960 f32"}},
    {{.what = ALLTOALL, .elems = 4096},
     {.what = ALLTOALL, .elems = 1},
     {"alltoall of 4096 f32", "alltoall of 1 f32"}},
    {{.what = REDUCE_SCATTER, .elems = 20000},
     {.what = REDUCE_SCATTER, .elems = 10000},
     {"reduce-scatter of 20000 f32, sum", "reduce-scatter of 10000 f32, sum"}},
    {{.what = BROADCAST, .elems = 100000},
     {.what = BROADCAST, .elems = 4096},
     {"broadcast of 100000 bytes from member 0", "broadcast of 4096 bytes from member 0"}},
    /* nothing where others have something */
    {{.what = ALLREDUCE, .elems = 1000},
     {.what = ALLREDUCE},
     {"allreduce of 1000 f32, sum", "allreduce of 0 f32, sum"}},
    {{.what = ALLREDUCE, .elems = 40, .codec = "bf16"}, /* whose shards do not reach all members */
     {.what = ALLREDUCE, .codec = "bf16"},
     {"allreduce of 40 f32, sum, bf16", "allreduce of 0 f32, sum, bf16"}},
    {{.what = BROADCAST, .elems = 8, .root = ODD},
     {.what = BROADCAST, .elems = 0, .root = ODD},
     {"broadcast of 8 bytes from member 2", "broadcast of 0 bytes from member 2"}},
    /* the same chunks */
    {{.what = ALLREDUCE, .elems = 1000},
     {.what = ALLREDUCE, .elems = 1000, .dtype = WRING_I32},
     {"allreduce of 1000 f32, sum", "allreduce of 1000 i32, sum"}},
    {{.what = ALLREDUCE, .elems = 100000, .dtype = WRING_F16},
     {.what = ALLREDUCE, .elems = 100000, .dtype = WRING_BF16},
     {"allreduce of 100000 f16, sum", "allreduce of 100000 bf16, sum"}},
    {{.what = ALLREDUCE, .elems = 2},
     {.what = ALLREDUCE, .elems = 2, .op = WRING_MAX},
     {"allreduce of 2 f32, sum", "allreduce of 2 f32, max"}},
    {{.what = ALLGATHER, .elems = 1000, .codec = "bf16"},
     {.what = ALLGATHER, .elems = 1000, .codec = "fp16"},
     {"allgather of 1000 f32, bf16", "allgather of 1000 f32, fp16"}},
    {{.what = BROADCAST, .elems = 64, .root = 1},
     {.what = BROADCAST, .elems = 64, .root = 3},
     {"broadcast of 64 bytes from member 1", "broadcast of 64 bytes from member 3"}},
    /* another collective */
    {{.what = ALLREDUCE, .elems = 1000},
     {.what = ALLGATHER, .elems = 1000},
     {"allreduce of 1000 f32, sum", "allgather of 1000 f32"}},
    {{.what = REDUCE_SCATTER, .elems = 5000},
     {.what = ALLTOALL, .elems = 5000},
     {"reduce-scatter of 5000 f32, sum", "alltoall of 5000 f32"}},
    {{.what = BARRIER}, {.what = ALLREDUCE, .elems = 1}, {"barrier", "allreduce of 1 f32, sum"}},
    {{.what = ALLREDUCE, .elems = 5000}, {.what = NOTHING}, {"allreduce of 5000 f32", "barrier"}},
};

static enum wring_status start(struct wring_group *group, const struct call *call, void *in,
                               void *out, struct wring_request **request)
{
    switch (call->what) {
    case ALLREDUCE:
        return wring_allreduce(group, in, in, call->elems, call->dtype, call->op,
                               &(struct wring_call){.codec = call->codec}, request);
    case REDUCE_SCATTER:
        return wring_reduce_scatter(group, in, out, call->elems, call->dtype, call->op,
                                    &(struct wring_call){.codec = call->codec}, request);
    case ALLGATHER:
        return wring_allgather(group, in, out, call->elems, call->dtype,
                               &(struct wring_call){.codec = call->codec}, request);
    case ALLTOALL:
        return wring_alltoall(group, in, out, call->elems, call->dtype,
                              &(struct wring_call){.codec = call->codec}, request);
    case BROADCAST:
        return wring_broadcast(group, in, call->elems, call->root,
                               &(struct wring_call){.codec = call->codec}, request);
    case BARRIER:
        return wring_barrier(group, NULL, NULL);
    case NOTHING:
        break;
    }
    return WRING_OK;
}

/** The call, and another one after it: who was content with the first learns of it then. */
static enum wring_status call_and_wait(struct wring_group *group, const struct call *call, void *in,
                                       void *out)
{
    struct wring_request *request = NULL;
    enum wring_status status = start(group, call, in, out, &request);
    if (status == WRING_OK && request != NULL)
        status = wring_request_wait(request, WAIT_NS, NULL);
    return status == WRING_OK ? wring_barrier(group, NULL, NULL) : status;
}

static void disagree(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct disagreement *d = arg;
    const struct call *call = rank == ODD ? &d->odd : &d->call;
    struct wring_group *world = wring_session_world(session);
    struct wring_error_detail detail = {.rank = -2};
    size_t bytes = ELEMS_MAX * sizeof(double);
    void *in = NULL, *out = NULL;

    REQUIRE(wring_buffer_alloc(session, bytes, &in) == WRING_OK &&
                wring_buffer_alloc(session, bytes, &out) == WRING_OK,
            "memory");
    enum wring_status status = WRING_OK;
    for (int i = 0; i < 3 && status == WRING_OK; i++) /* the others may be ahead, and at odds */
        status = wring_allreduce(world, in, in, 10, WRING_F32, WRING_SUM, NULL, NULL);
    if (status == WRING_OK)
        status = call_and_wait(world, call, in, out);
    CHECK(status == WRING_ERR_MISMATCH, "rank %u, %s: %s", rank, d->named[0],
          wring_status_text(status));
    CHECK(wring_session_error(session, &detail) == WRING_ERR_MISMATCH && detail.rank == -1,
          "rank %u blames %d", rank, (int)detail.rank);
    CHECK(strstr(detail.text, d->named[0]) && strstr(detail.text, d->named[1]) &&
              strstr(detail.text, "rank 2 "),
          "rank %u, %s against %s: %s", rank, d->named[0], d->named[1], detail.text);
}

static void keep_quiet(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void run(const char *const *settings, void (*part)(struct wring_session *, uint32_t, void *),
                const void *arg)
{
    struct wring_test_job job = {
        .ranks = RANKS, .settings = settings, .run = part, .arg = (void *)arg, .log = keep_quiet};
    wring_test_run_ranks(&job);
}

static void disagreements_end_all(const char *provider, const char *progress)
{
    const char *settings[] = {provider, progress, "WRING_CHUNK_BYTES=16k", "WRING_HEARTBEAT=50ms",
                              NULL};
    for (size_t i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++)
        run(settings, disagree, &disagreements[i]);
}

static void over_shm(void)
{
    disagreements_end_all("WRING_PROVIDER=shm", "WRING_PROGRESS=thread");
}

static void over_tcp(void)
{
    disagreements_end_all("WRING_PROVIDER=tcp", "WRING_PROGRESS=caller");
}

/** One that comes late, and one that is ahead, make the same calls nevertheless. */
static void dawdle(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_error_detail detail = {.text = ""};
    float data[64] = {0};
    (void)arg;

    for (uint32_t round = 0; round < RANKS; round++) {
        uint32_t root = (round + 1) % RANKS;
        if (rank == round) { /* statements of the others come and are found to be right */
            struct timespec pause = {0, 300 * WRING_NS_PER_MS};
            nanosleep(&pause, NULL);
        }
        for (int i = 0; i < 6; i++)
            wring_broadcast(world, data, i % 2 * sizeof(data), root, NULL, NULL);
        wring_allreduce(world, data, data, 64, WRING_F32, WRING_SUM,
                        &(struct wring_call){.codec = "bf16"}, NULL);
    }
    wring_barrier(world, NULL, NULL);
    CHECK(wring_session_error(session, &detail) == WRING_OK, "rank %u: %s", rank, detail.text);
}

static void the_slow_are_no_odd_ones(void)
{
    static const char *const thread[] = {"WRING_HEARTBEAT=20ms", NULL};
    static const char *const caller[] = {"WRING_HEARTBEAT=20ms", "WRING_PROGRESS=caller", NULL};
    run(thread, dawdle, NULL);
    run(caller, dawdle, NULL);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"over_shm", over_shm},
        {"over_tcp", over_tcp},
        {"the_slow_are_no_odd_ones", the_slow_are_no_odd_ones},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
