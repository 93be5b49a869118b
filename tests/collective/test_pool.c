/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of many groups share the slots of a session: few of them, and in any order. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/slot_pool.h"

#define WAIT_NS (120ull * 1000000000)
#define RANKS 9
#define OPERATIONS 16
#define ELEMS 45000 /* shards of 20 KB, in two pieces */

static const uint32_t all_ranks[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

/** One of the operations on one rank. */
struct operation {
    struct wring_group *group;
    struct wring_request *request;
    float *in, *out;
};

static float value(uint32_t operation, uint32_t rank, uint64_t i)
{
    return (float)((i * 7 + operation * 3 + rank) % 64);
}

static float sum(uint32_t operation, uint64_t i)
{
    float all = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        all += value(operation, rank, i);
    return all;
}

/** Of each kind some: o mod 8. */
static enum wring_status post(struct operation *operation, uint32_t o)
{
    const uint64_t run = ELEMS / RANKS;
    const struct wring_call how = {.struct_bytes = sizeof(how), .priority = (int32_t)(o % 3)};
    const struct wring_call coded = {.struct_bytes = sizeof(how), .codec = "bf16"};
    struct wring_group *group = operation->group;
    float *in = operation->in, *out = operation->out;
    struct wring_request **request = &operation->request;

    switch (o % 8) {
    case 0:
        return wring_allreduce(group, in, out, ELEMS, WRING_F32, WRING_SUM, &how, request);
    case 1:
        return wring_reduce_scatter(group, in, out, run, WRING_F32, WRING_SUM, &how, request);
    case 2:
        return wring_allgather(group, in, out, run, WRING_F32, &how, request);
    case 3:
        return wring_reduce(group, in, out, ELEMS, WRING_F32, WRING_SUM, o % RANKS, &how, request);
    case 4:
        return wring_allreduce(group, in, out, ELEMS, WRING_F32, WRING_SUM, &coded, request);
    case 5:
        memcpy(out, in, ELEMS * sizeof(*out));
        return wring_broadcast(group, out, ELEMS * sizeof(*out), o % RANKS, &how, request);
    case 6:
        return wring_scatter(group, in, out, run, WRING_F32, o % RANKS, &how, request);
    default:
        return wring_gather(group, in, out, run, WRING_F32, o % RANKS, &how, request);
    }
}

/** What element i of the result is on that rank; none is below 0. */
static float expected(uint32_t o, uint32_t rank, uint64_t i)
{
    const uint64_t run = ELEMS / RANKS;
    uint32_t from = (uint32_t)(i / run), root = o % RANKS;
    switch (o % 8) {
    case 0:
        return sum(o, i);
    case 1:
        return i < run ? sum(o, rank * run + i) : -1;
    case 2:
        return value(o, from, i % run);
    case 3:
        return rank == root ? sum(o, i) : -1;
    case 4:
        return sum(o, i);
    case 5:
        return value(o, root, i);
    case 6:
        return i < run ? value(o, root, rank * run + i) : -1;
    default:
        return rank == root ? value(o, from, i % run) : -1;
    }
}

static void check(const struct operation *operation, uint32_t o, uint32_t rank)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < ELEMS; i++) {
        float want = expected(o, rank, i), got = operation->out[i];
        float off = got > want ? got - want : want - got;
        wrong += want >= 0 && off > (o % 8 == 4 ? want / 128 : 0);
    }
    CHECK(wrong == 0, "operation %u of rank %u: %" PRIu64 " wrong", o, rank, wrong);
}

static void make(struct wring_session *session, uint32_t rank, struct operation *operations)
{
    for (uint32_t o = 0; o < OPERATIONS; o++) {
        struct operation *operation = &operations[o];
        *operation = (struct operation){.in = malloc(ELEMS * sizeof(float)),
                                        .out = malloc(ELEMS * sizeof(float))};
        REQUIRE(wring_group_create(wring_session_world(session), all_ranks, RANKS, o, WAIT_NS,
                                   &operation->group) == WRING_OK,
                "group");
        for (uint64_t i = 0; i < ELEMS; i++)
            operation->in[i] = value(o, rank, i);
    }
}

/** The number of the operation that a rank posts k-th: no two ranks have the same order. */
static uint32_t turn(uint32_t rank, uint32_t k)
{
    return (k * (2 * (rank % 8) + 1) + 5 * rank) % OPERATIONS;
}

static void any_order(struct wring_session *session, uint32_t rank, void *arg)
{
    struct operation operations[OPERATIONS];
    const struct wring_pool *pool = session->engine->pool;
    const bool *scarce = arg;

    make(session, rank, operations);
    for (uint32_t k = 0; k < OPERATIONS; k++)
        REQUIRE(post(&operations[turn(rank, k)], turn(rank, k)) == WRING_OK, "post");
    for (uint32_t o = 0; o < OPERATIONS; o++) {
        enum wring_status status = wring_request_wait(operations[o].request, WAIT_NS, NULL);
        REQUIRE(status == WRING_OK, "operation %u: %s", o, wring_status_text(status));
        check(&operations[o], o, rank);
    }
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    CHECK(!*scarce || pool->moved > 0, "slots were never scarce");
    for (uint32_t o = 0; o < OPERATIONS; o++) {
        wring_group_destroy(operations[o].group);
        free(operations[o].in);
        free(operations[o].out);
    }
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    CHECK(pool->asks == NULL && pool->n_free == pool->n_slots, "%u of %u slots are free",
          pool->n_free, pool->n_slots);
}

static void run_any_order(const char *provider, const char *slots, bool scarce)
{
    char provider_setting[64], slots_setting[64];
    const char *const settings[] = {provider_setting, slots_setting, "WRING_CHUNK_BYTES=16k", NULL};
    struct wring_test_job job = {
        .ranks = RANKS, .settings = settings, .run = any_order, .arg = &scarce};

    snprintf(provider_setting, sizeof(provider_setting), "WRING_PROVIDER=%s", provider);
    snprintf(slots_setting, sizeof(slots_setting), "WRING_POOL_SLOTS=%s", slots);
    wring_test_run_ranks(&job);
}

static void four_slots(void)
{
    run_any_order("shm", "4", true);
    run_any_order("tcp", "4", true);
}

static void one_slot(void)
{
    run_any_order("shm", "1", true);
}

static void enough_slots(void)
{
    run_any_order("shm", "4096", false);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"four_slots", four_slots},
        {"one_slot", one_slot},
        {"enough_slots", enough_slots},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
