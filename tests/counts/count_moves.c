/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts from one end of a connection to the other, and an allreduce of two ranks. One thread is both
 * sides, so nobody waits: what runs is the work, and the looks that find it. What the kernel does
 * is not counted.
 */
#include "tests/counts/counts.h"

#include <pthread.h>
#include <string.h>

#include "tests/provider/ends.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

#define PUTS 32
#define STEPS 32
#define LOOKS_MAX 10000000 /* then it hangs */

/** Puts of one size. */
struct puts {
    struct end from, to;
    size_t bytes;
    unsigned arrived, done; /* since the beginning */
};

static const struct wring_provider_ops *chosen;

static enum wring_status open_chosen(const struct wring_provider_params *params,
                                     struct wring_provider **out)
{
    return chosen->open(params, out);
}

static void look(struct wring_provider *provider, struct puts *puts)
{
    struct wring_event events[16];
    size_t n = provider->ops->poll(provider, events, 16);
    for (size_t i = 0; i < n; i++) {
        puts->arrived += events[i].kind == WRING_EVENT_ARRIVED;
        puts->done += events[i].kind == WRING_EVENT_PUT_DONE;
    }
}

/** One after the other, each until both sides know of it. */
static void put_all(void *arg)
{
    struct puts *puts = arg;
    for (unsigned i = 0; i < PUTS; i++) {
        unsigned arrived = puts->arrived + 1, done = puts->done + 1;
        enum wring_status status = end_put(&puts->from, puts->from.base, 0, puts->bytes, 0, 0);
        REQUIRE(status == WRING_OK, "put: %s", wring_status_text(status));
        uint64_t looks = 0;
        while ((puts->arrived < arrived || puts->done < done) && looks++ < LOOKS_MAX) {
            look(puts->from.provider, puts);
            look(puts->to.provider, puts);
        }
        REQUIRE(puts->arrived == arrived && puts->done == done, "put %u did not come", i);
    }
}

static void count_puts(const char *provider, size_t bytes)
{
    struct puts puts = {.bytes = bytes};
    char name[64];
    const char *unit = bytes < 4096 ? "put" : "byte";
    double amount = bytes < 4096 ? PUTS : (double)(PUTS * bytes);

    snprintf(name, sizeof(name), "put of %zu, %s", bytes, provider);
    REQUIRE(ends_open(&puts.to, &puts.from, 2 << 20, 16), "%s: no pair", provider);
    for (int i = 0; i < COUNTS_TURNS; i++) {
        counted(put_all, &puts);
        counts_say(amount, unit, name);
    }
    ends_close(&puts.to, &puts.from);
}

/** A rank, whose setup is collective and so takes a thread of its own. */
struct rank {
    pthread_t thread;
    struct wring_bootstrap *bootstrap;
    struct wring_session *session;
    struct wring_bucket *bucket;
    uint64_t bytes;
};

static void *set_up(void *arg)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller",
                                           "WRING_CPU=avx2", "WRING_STATS_EVERY=0", NULL};
    struct rank *rank = arg;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_bucket_params bucket = WRING_BUCKET_PARAMS_INIT;

    params.bootstrap = rank->bootstrap;
    params.settings = settings;
    bucket.name = "counted";
    bucket.elems = rank->bytes / sizeof(float);
    enum wring_status status = wring_session_open(&params, &rank->session);
    if (status == WRING_OK)
        status = wring_buffer_alloc(rank->session, rank->bytes, &bucket.data);
    if (status == WRING_OK)
        status = wring_bucket_register(rank->session, &bucket, &rank->bucket);
    if (status == WRING_OK)
        status = wring_session_commit(rank->session);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    return NULL;
}

static void step_all(void *arg)
{
    struct rank *ranks = arg;
    for (unsigned i = 0; i < STEPS; i++) {
        enum wring_status first = wring_bucket_post(ranks[0].bucket);
        enum wring_status second = wring_bucket_post(ranks[1].bucket);
        REQUIRE(first == WRING_OK && second == WRING_OK, "post");
        uint64_t looks = 0;
        do {
            first = wring_bucket_test(ranks[0].bucket, NULL);
            second = wring_bucket_test(ranks[1].bucket, NULL);
        } while ((first == WRING_ERR_AGAIN || second == WRING_ERR_AGAIN) && looks++ < LOOKS_MAX);
        REQUIRE(first == WRING_OK && second == WRING_OK, "step %u did not end", i);
    }
}

static void count_allreduce(uint64_t bytes)
{
    struct wring_bootstrap *bootstraps[2];
    struct rank ranks[2] = {{.bytes = bytes}, {.bytes = bytes}};
    char name[64];

    snprintf(name, sizeof(name), "allreduce of %u, two ranks, shm", (unsigned)bytes);
    REQUIRE(wring_bootstrap_local_create(2, bootstraps) == WRING_OK, "bootstrap");
    for (int i = 0; i < 2; i++) {
        ranks[i].bootstrap = bootstraps[i];
        pthread_create(&ranks[i].thread, NULL, set_up, &ranks[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < COUNTS_TURNS && wring_test_failures() == 0; i++) {
        counted(step_all, ranks);
        counts_say(STEPS, "step", name);
    }
    for (int i = 0; i < 2; i++) {
        wring_session_close(ranks[i].session);
        bootstraps[i]->ops->close(bootstraps[i]);
    }
}

void counts_moves(void)
{
    static const char *const providers[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        chosen = wring_provider_find(providers[i]);
        const struct wring_provider_driver driver = {providers[i], open_chosen};
        ends_use(&driver);
        count_puts(providers[i], 64);
        count_puts(providers[i], 65536);
    }
    count_allreduce(8);
    count_allreduce(4096);
}
