/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots return to their senders, whichever channels a bucket or one of its legs has, and whatever
 * was committed, tried out or taken back before: steps enough to use each slot many times end, with
 * the right sums.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ELEMS 50000 /* pieces enough for more than a window of each leg, in pieces of 4 KiB */
#define PERIOD 8    /* of its values */
#define STEPS 6
#define COMMITS 3
#define RANKS 4

enum memory {
    ALLOCATED,
    FOREIGN,
    REGISTERED,
    MEMORIES
};

static const char *const memory_names[] = {"allocated", "foreign", "registered"};

struct plan {
    const char *provider, *codec;
    enum wring_scheme scheme;
    enum memory memory;
    bool group_before; /* one is made and destroyed before the commit: channels had other ids */
};

static void *make_memory(struct wring_session *session, enum memory memory)
{
    size_t bytes = ELEMS * sizeof(float);
    void *data = NULL;

    if (memory == ALLOCATED)
        wring_buffer_alloc(session, bytes, &data);
    else
        data = malloc(bytes);
    if (memory == REGISTERED)
        CHECK(wring_buffer_register(session, data, bytes) == WRING_OK, "buffer_register");
    return data;
}

static void free_memory(struct wring_session *session, enum memory memory, void *data)
{
    if (memory == REGISTERED)
        wring_buffer_free(session, data);
    if (memory == ALLOCATED)
        wring_buffer_free(session, data);
    else
        free(data);
}

/** Small whole numbers: no codec that keeps bf16's bits changes their sum. All but the first are
 *  copies in long calls, of which a race detector sees all bytes at once. */
static void fill(float *data, uint32_t rank, unsigned step)
{
    for (uint32_t i = 0; i < PERIOD; i++)
        data[i] = (float)((rank + i + step) % PERIOD);
    for (uint32_t done = PERIOD, more; done < ELEMS; done += more) {
        more = ELEMS - done < done ? ELEMS - done : done;
        memcpy(data + done, data, more * sizeof(*data));
    }
}

static void check_sums(const struct plan *plan, const float *data, unsigned step)
{
    const size_t rest = (ELEMS - PERIOD) * sizeof(*data);
    bool same = memcmp(data, data + PERIOD, rest) == 0;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < (same ? PERIOD : ELEMS); i++) {
        float want = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            want += (float)((rank + i + step) % PERIOD);
        wrong += data[i] != want;
    }
    CHECK(wrong == 0, "%s, %s, %s: %u of %u are wrong in step %u", plan->provider, plan->codec,
          memory_names[plan->memory], wrong, ELEMS, step);
}

static void run_steps(const struct plan *plan, struct wring_bucket *bucket, float *data,
                      uint32_t rank, unsigned commit)
{
    for (unsigned step = 0; step < STEPS; step++) {
        fill(data, rank, step);
        REQUIRE(wring_bucket_post(bucket) == WRING_OK, "post");
        REQUIRE(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "%s, %s, %s, scheme %d%s: commit %u, step %u does not end", plan->provider,
                plan->codec, memory_names[plan->memory], plan->scheme,
                plan->group_before ? ", a group before" : "", commit, step);
        check_sums(plan, data, step);
    }
}

static void make_and_destroy_group(struct wring_session *session)
{
    static const uint32_t all[RANKS] = {0, 1, 2, 3};
    struct wring_group *group = NULL;

    REQUIRE(wring_group_create(wring_session_world(session), all, RANKS, 0, WRING_FOREVER,
                               &group) == WRING_OK,
            "group");
    CHECK(wring_barrier(group, NULL, NULL) == WRING_OK, "barrier");
    wring_group_destroy(group);
}

static void run_plan(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    struct wring_bucket *bucket = NULL;
    float *data = make_memory(session, plan->memory);
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    params.name = "weights";
    params.data = data;
    params.elems = ELEMS;
    params.codec = plan->codec;
    params.scheme = plan->scheme;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    unsigned failures = wring_test_failures();
    for (unsigned commit = 0; commit < COMMITS && wring_test_failures() == failures; commit++) {
        if (plan->group_before)
            make_and_destroy_group(session);
        CHECK(wring_session_commit(session) == WRING_OK, "commit %u", commit);
        run_steps(plan, bucket, data, rank, commit);
    }
    if (wring_test_failures() > failures)
        return; /* its memory may be under way */
    CHECK(wring_bucket_drop(bucket) == WRING_OK && wring_session_commit(session) == WRING_OK,
          "drop");
    free_memory(session, plan->memory, data);
}

static void run_with(struct plan *plan)
{
    bool nodes = plan->scheme >= WRING_SCHEME_HIERARCHICAL;
    char provider[64];
    const char *settings[] = {provider, "WRING_BYPASS=auto", "WRING_CHUNK_BYTES=4096", NULL};

    snprintf(provider, sizeof(provider), "WRING_PROVIDER=%s", plan->provider);
    wring_test_run_ranks(&(struct wring_test_job){.ranks = RANKS,
                                                  .ranks_per_node = nodes ? RANKS / 2 : 0,
                                                  .settings = settings,
                                                  .arg = plan,
                                                  .run = run_plan});
}

static void of_each_memory(const char *provider, const char *codec, enum wring_scheme scheme)
{
    for (int memory = 0; memory < MEMORIES; memory++)
        for (int group = 0; group < 2; group++)
            run_with(&(struct plan){provider, codec, scheme, (enum memory)memory, group == 1});
}

static void legs_over_shared_memory(void)
{
    of_each_memory("auto", "none", WRING_SCHEME_HIERARCHICAL);
    of_each_memory("auto", "bf16", WRING_SCHEME_HIERARCHICAL);
    of_each_memory("auto", "lossless", WRING_SCHEME_HIERARCHICAL_INDIVISIBLE);
}

static void legs_over_tcp(void)
{
    of_each_memory("tcp", "none", WRING_SCHEME_HIERARCHICAL_INDIVISIBLE);
    of_each_memory("tcp", "bf16", WRING_SCHEME_HIERARCHICAL);
    of_each_memory("tcp", "lossless", WRING_SCHEME_HIERARCHICAL_DIVISIBLE);
}

static void of_one_channel_or_two(void)
{
    of_each_memory("tcp", "bf16", WRING_SCHEME_INDIVISIBLE); /* gather alone */
    of_each_memory("shm", "lossless", WRING_SCHEME_DIVISIBLE);
    of_each_memory("tcp", "none", WRING_SCHEME_AUTO); /* some of them placed */
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"legs_over_shared_memory", legs_over_shared_memory},
        {"legs_over_tcp", legs_over_tcp},
        {"of_one_channel_or_two", of_one_channel_or_two},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
