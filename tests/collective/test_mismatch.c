/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a group that do not make the same immediate calls: all of them hear who calls what. */
#include <stdlib.h>
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
    REDUCE,
    GATHER,
    SCATTER,
    ALLGATHERV,
    REDUCE_SCATTERV,
    ALLTOALLV,
    BARRIER,
    NOTHING
};

struct call {
    enum what what;
    uint64_t elems; /* broadcast: bytes */
    uint64_t first; /* of runs of any lengths: of the first one; the second makes it 2 * elems */
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
    /* with a root, and with runs of any lengths */
    {{.what = REDUCE, .elems = 1000, .root = 1},
     {.what = REDUCE, .elems = 1000, .root = ODD},
     {"reduce of 1000 f32 to member 1, sum", "reduce of 1000 f32 to member 2, sum"}},
    {{.what = REDUCE, .elems = 30000},
     {.what = REDUCE, .elems = 30000, .op = WRING_MAX},
     {"reduce of 30000 f32 to member 0, sum", "reduce of 30000 f32 to member 0, max"}},
    {{.what = GATHER, .elems = 4096, .root = ODD},
     {.what = GATHER, .elems = 40960, .root = ODD},
     {"gather of 4096 f32 to member 2", "gather of 40960 f32 to member 2"}},
    {{.what = SCATTER, .elems = 100},
     {.what = SCATTER, .elems = 100, .dtype = WRING_I32},
     {"scatter of 100 f32 from member 0", "scatter of 100 i32 from member 0"}},
    {{.what = ALLGATHERV, .elems = 1000, .first = 700},
     {.what = ALLGATHERV, .elems = 1000, .first = 701},
     {"allgatherv of 4000 f32 in runs #", "allgatherv of 4000 f32 in runs #"}},
    {{.what = REDUCE_SCATTERV, .elems = 1000, .first = 700},
     {.what = REDUCE_SCATTERV, .elems = 1000, .first = 2000},
     {"reduce-scatterv of 4000 f32 in runs #", "reduce-scatterv of 4000 f32 in runs #"}},
    {{.what = BARRIER}, {.what = ALLREDUCE, .elems = 1}, {"barrier", "allreduce of 1 f32, sum"}},
    {{.what = ALLREDUCE, .elems = 5000}, {.what = NOTHING}, {"allreduce of 5000 f32", "barrier"}},
};

static enum wring_status start(struct wring_group *group, const struct call *call, void *in,
                               void *out, const uint64_t *runs, struct wring_request **request)
{
    const struct wring_call how = {.codec = call->codec};
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
    case REDUCE:
        return wring_reduce(group, in, out, call->elems, call->dtype, call->op, call->root, &how,
                            request);
    case GATHER:
        return wring_gather(group, in, out, call->elems, call->dtype, call->root, &how, request);
    case SCATTER:
        return wring_scatter(group, in, out, call->elems, call->dtype, call->root, &how, request);
    case ALLGATHERV:
        return wring_allgatherv(group, in, out, runs, call->dtype, &how, request);
    case REDUCE_SCATTERV:
        return wring_reduce_scatterv(group, in, out, runs, call->dtype, call->op, &how, request);
    case ALLTOALLV:
        return wring_alltoallv(group, in, runs, out, runs, call->dtype, &how, request);
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
    const uint64_t runs[RANKS] = {call->first, 2 * call->elems - call->first, call->elems,
                                  call->elems};
    struct wring_request *request = NULL;
    enum wring_status status = start(group, call, in, out, runs, &request);
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

/** What two members pass for each other in an alltoallv only they know. */
struct pair {
    uint64_t sent, wanted; /* by member 0 to ODD, and by that one from member 0 */
};

static const struct pair pairs[] = {
    {100, 99}, {0, 7}, {7, 0}, {4096, 8192}, {8192, 4096}, {5000, 4096}, {4096, 100000},
};

static void disagree_on_pair(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct pair *pair = arg;
    uint64_t to[RANKS] = {10, 10, 10, 10}, from[RANKS] = {10, 10, 10, 10};
    static _Thread_local struct wring_error_detail detail;
    size_t bytes = ELEMS_MAX * sizeof(float);
    void *in = calloc(1, bytes), *out = calloc(1, bytes);
    struct wring_group *world = wring_session_world(session);

    if (rank == 0)
        to[ODD] = pair->sent;
    if (rank == ODD)
        from[0] = pair->wanted;
    enum wring_status status = wring_alltoallv(world, in, to, out, from, WRING_F32, NULL, NULL);
    if (status == WRING_OK) /* who was content with it hears of it now */
        status = wring_barrier(world, NULL, NULL);
    CHECK(status == WRING_ERR_MISMATCH, "rank %u, %d for %d: %s", rank, (int)pair->sent,
          (int)pair->wanted, wring_status_text(status));
    CHECK(wring_session_error(session, &detail) == WRING_ERR_MISMATCH && detail.rank == -1 &&
              strstr(detail.text, "rank 0 sends rank 2 a piece of"),
          "rank %u, %d for %d, blames %d: %s", rank, (int)pair->sent, (int)pair->wanted,
          (int)detail.rank, detail.text);
    free(in);
    free(out);
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

static void pairs_of_alltoallv(void)
{
    static const char *const shm[] = {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=16k", NULL};
    static const char *const tcp[] = {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=16k", NULL};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        run(i % 2 ? shm : tcp, disagree_on_pair, &pairs[i]);
}

/** One that comes late, and one that is ahead, make the same calls nevertheless. */
static void dawdle(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_error_detail detail = {.text = ""};
    float data[64] = {0};
    (void)arg;

    for (uint32_t turn = 0; turn < RANKS; turn++) {
        uint32_t root = (turn + 1) % RANKS;
        if (rank == turn) { /* statements of the others come and are found to be right */
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
        {"pairs_of_alltoallv", pairs_of_alltoallv},
        {"the_slow_are_no_odd_ones", the_slow_are_no_odd_ones},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
