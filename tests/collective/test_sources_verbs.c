/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Slots that encoders write into, and pieces are sent from, over verbs: no peer can write there,
 * and nothing stays registered of those of earlier commits. Ranks are threads, their devices made
 * up.
 */
#include "base/clock.h"
#include "runtime/bucket.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/provider/mock/mock.h"
#include "transport/slot_pool.h"

#define RANKS 2
#define ELEMS 40000
#define COMMITS 6
#define WAIT_NS (60 * WRING_NS_PER_S)

static struct {
    const char *codec;
    uint64_t alive[COMMITS]; /* registrations of all ranks after each commit, as rank 0 saw it */
    uint64_t begun_with, of_all; /* of those made: without remote access */
    unsigned wrong;              /* slots that lie in what peers can write into */
} the;

static bool lies_in(const struct wring_block *block, const void *at)
{
    uintptr_t base = (uintptr_t)block->memory.base;
    return (uintptr_t)at >= base && (uintptr_t)at - base < block->memory.bytes;
}

/** The send slots of a bucket and of the immediate calls. */
static void look_at_slots(const struct wring_session *session, const struct wring_bucket *bucket)
{
    const struct wring_group *world = session->world;
    const uint8_t *own = bucket->collective.slots_base;
    the.wrong +=
        own != NULL && (lies_in(&session->slots, own) || !lies_in(&session->sources, own) ||
                        !session->sources.memory.source_only);
    the.wrong += lies_in(&session->engine->pool->slots.block, world->collective.slots_base) ||
                 !lies_in(&world->sources, world->collective.slots_base) ||
                 !world->sources.memory.source_only;
}

/** A bucket, a step of it, and away with it. */
static enum wring_status commit_once(struct wring_session *session, unsigned i)
{
    struct wring_bucket_params params = {.name = "b", .elems = ELEMS, .codec = the.codec};
    struct wring_bucket *bucket;
    struct mock_counts counts;
    enum wring_status status = wring_buffer_alloc(session, ELEMS * sizeof(float), &params.data);
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    if (status != WRING_OK)
        return status;
    if (wring_session_rank(session) == 0) {
        look_at_slots(session, bucket);
        mock_get_counts(&counts);
        the.alive[i] = counts.mrs;
        the.of_all = counts.local_registrations;
    }
    status = wring_barrier(wring_session_world(session), NULL, NULL);
    if (status == WRING_OK)
        status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WAIT_NS, NULL);
    if (status == WRING_OK)
        status = wring_bucket_drop(bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session); /* of nothing: it is gone now */
    wring_buffer_free(session, params.data);
    return status == WRING_OK ? wring_barrier(wring_session_world(session), NULL, NULL) : status;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local float data[ELEMS]; /* what calls need is there after the first */
    const struct wring_call how = {.struct_bytes = sizeof(how), .codec = "bf16"};
    enum wring_status status = wring_allreduce(wring_session_world(session), data, data, ELEMS,
                                               WRING_F32, WRING_SUM, &how, NULL);
    (void)arg;
    for (unsigned i = 0; i < COMMITS && status == WRING_OK; i++)
        status = commit_once(session, i);
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
}

static void run(const char *codec)
{
    static const char *const settings[] = {"WRING_PROVIDER=verbs", "WRING_BYPASS=never", NULL};
    struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = run_rank};
    struct mock_counts counts;
    mock_get_counts(&counts);
    the.begun_with = counts.local_registrations;
    the.codec = codec;
    the.wrong = 0;
    wring_test_run_ranks(&job);
    CHECK(the.wrong == 0, "%u send slots are where peers can write", the.wrong);
    for (unsigned i = 1; i < COMMITS; i++)
        CHECK(the.alive[i] == the.alive[0], "commit %u: %llu registrations, first there were %llu",
              i, (unsigned long long)the.alive[i], (unsigned long long)the.alive[0]);
    mock_get_counts(&counts);
    CHECK(counts.mrs == 0, "%llu registrations are left", (unsigned long long)counts.mrs);
}

/** With a codec each commit makes slots of its own, beside those of immediate calls. */
static void encoded_pieces_leave_from_sources(void)
{
    run("onebit:block=128");
    CHECK(the.of_all - the.begun_with >= RANKS * (1 + COMMITS) - 1, "%llu of %llu without access",
          (unsigned long long)(the.of_all - the.begun_with), (unsigned long long)the.of_all);
}

static void raw_buckets_need_none(void)
{
    run("none");
    CHECK(the.of_all - the.begun_with >= RANKS, "none for immediate calls");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"encoded_pieces_leave_from_sources", encoded_pieces_leave_from_sources},
        {"raw_buckets_need_none", raw_buckets_need_none},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
