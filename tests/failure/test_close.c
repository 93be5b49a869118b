/* SPDX-License-Identifier: Apache-2.0 */
/* A session that is closed while other threads are inside it. Ranks are threads of this process. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

#define RANKS_MAX 4
#define WAITERS 8
#define ELEMS 3000
#define LONG_ELEMS (1u << 18)
#define LIMIT_NS (5 * WRING_NS_PER_S)   /* half a heartbeat: who sleeps is woken, on any machine */
#define LOOKS_NS (20 * WRING_NS_PER_MS) /* of a core: far more than a call needs to begin */
#define HANG_NS (60 * WRING_NS_PER_S)

/** How the job is run. */
struct setting {
    const char *name;
    uint32_t ranks;
    const char *settings[5];
};

static const struct setting settings[] = {
    {"2 ranks, shm, thread", 2, {"WRING_PROVIDER=shm", "WRING_PROGRESS=thread"}},
    {"3 ranks, shm, caller", 3, {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller"}},
    {"2 ranks, tcp, thread", 2, {"WRING_PROVIDER=tcp", "WRING_PROGRESS=thread"}},
    {"4 ranks, tcp, caller", 4, {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller"}},
    {"2 ranks, tcp, pool", 2, {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=pool:1"}},
    {"2 ranks, shm, pool, caller",
     2,
     {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool:1", "WRING_PROGRESS=caller"}},
};

#define TURNS 3
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

struct rank {
    uint32_t index;
    const struct setting *setting;
    struct wring_bootstrap *bootstrap;
    struct wring_session *session;
    struct wring_bucket *buckets[WAITERS];
    struct wring_group *group;
    float *data;  /* [WAITERS][elems] of the application's own memory */
    size_t elems; /* of large buckets */
    const char *codec;
    pthread_t thread;
};

/** A job of which rank 0 is the one that is closed; the others never come to anything. */
static struct rank ranks[RANKS_MAX];

static void *open_rank(void *arg)
{
    struct rank *rank = arg;
    const char *all[8] = {"WRING_BYPASS=never", "WRING_HEARTBEAT=10s"};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    uint32_t everybody[RANKS_MAX] = {0, 1, 2, 3};

    for (size_t i = 0; rank->setting->settings[i] != NULL; i++)
        all[2 + i] = rank->setting->settings[i];
    params.bootstrap = rank->bootstrap;
    params.settings = all;
    enum wring_status status = wring_session_open(&params, &rank->session);
    rank->data = calloc(WAITERS * rank->elems, sizeof(*rank->data));
    for (size_t i = 0; i < WAITERS && status == WRING_OK; i++) {
        struct wring_bucket_params bucket = WRING_BUCKET_PARAMS_INIT;
        char name[16];
        snprintf(name, sizeof(name), "b%zu", i);
        bucket.name = name;
        bucket.elems = i % 2 == 0 ? 8 : rank->elems; /* small ones go past the engine */
        bucket.data = rank->data + i * rank->elems;
        bucket.codec = i % 4 == 3 ? rank->codec : NULL;
        status = wring_bucket_register(rank->session, &bucket, &rank->buckets[i]);
    }
    if (status == WRING_OK)
        status = wring_session_commit(rank->session);
    if (status == WRING_OK)
        status = wring_group_create(wring_session_world(rank->session), everybody,
                                    rank->setting->ranks, 0, WRING_FOREVER, &rank->group);
    CHECK(status == WRING_OK, "%s, rank %u: %s", rank->setting->name, rank->index,
          wring_status_text(status));
    return NULL;
}

/** @return false: it could not be opened */
static bool open_job(const struct setting *setting, const char *codec, size_t elems)
{
    struct wring_bootstrap *ends[RANKS_MAX];
    unsigned failures = wring_test_failures();

    memset(ranks, 0, sizeof(ranks));
    CHECK(wring_bootstrap_local_create(setting->ranks, ends) == WRING_OK, "bootstrap");
    for (uint32_t i = 0; i < setting->ranks; i++) {
        ranks[i] = (struct rank){
            .index = i, .setting = setting, .bootstrap = ends[i], .codec = codec, .elems = elems};
        pthread_create(&ranks[i].thread, NULL, open_rank, &ranks[i]);
    }
    for (uint32_t i = 0; i < setting->ranks; i++)
        pthread_join(ranks[i].thread, NULL);
    return wring_test_failures() == failures;
}

/** Rank 0 is closed already, where all went well. */
static void close_job(const struct setting *setting)
{
    for (uint32_t i = 0; i < setting->ranks; i++)
        wring_session_close(ranks[i].session);
    for (uint32_t i = 0; i < setting->ranks; i++) {
        ranks[i].bootstrap->ops->close(ranks[i].bootstrap);
        free(ranks[i].data);
    }
}

/* ---- what threads are in while it is closed ---- */

struct waiter {
    size_t index;
    enum wring_status (*wait)(struct waiter *waiter);
    atomic_int id; /* of the thread; 0: not there yet */
    enum wring_status status;
    uint64_t ended_ns;
    pthread_t thread;
    float call[64];                /* memory of an immediate call */
    struct wring_request *request; /* that it waits for */
};

static enum wring_status wait_for_bucket(struct waiter *waiter)
{
    return wring_bucket_wait(ranks[0].buckets[waiter->index], WRING_FOREVER, NULL);
}

static enum wring_status wait_for_any(struct waiter *waiter)
{
    const struct wring_waitable any[] = {{.bucket = NULL},
                                         {.bucket = ranks[0].buckets[waiter->index]}};
    size_t index;
    return wring_wait_any(any, 2, WRING_FOREVER, &index, NULL);
}

static enum wring_status wait_for_request(struct waiter *waiter)
{
    return wring_request_wait(waiter->request, WRING_FOREVER, NULL);
}

static enum wring_status meet(struct waiter *waiter)
{
    (void)waiter;
    return wring_barrier(wring_session_world(ranks[0].session), NULL, NULL);
}

static enum wring_status call_at_once(struct waiter *waiter)
{
    return wring_allreduce(ranks[0].group, waiter->call, waiter->call, 8, WRING_F32, WRING_SUM,
                           NULL, NULL);
}

static enum wring_status make_group(struct waiter *waiter)
{
    struct wring_group *group;
    static const uint32_t both[] = {0, 1}; /* rank 1 does not come */
    (void)waiter;
    return wring_group_create(wring_session_world(ranks[0].session), both, 2, 0, WRING_FOREVER,
                              &group);
}

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;
    atomic_store(&waiter->id, (int)syscall(SYS_gettid));
    waiter->status = waiter->wait(waiter);
    waiter->ended_ns = wring_now_ns();
    return NULL;
}

static void start(struct waiter *waiter, size_t index,
                  enum wring_status (*wait)(struct waiter *waiter))
{
    waiter->index = index;
    waiter->wait = wait;
    pthread_create(&waiter->thread, NULL, waiter_main, waiter);
    while (atomic_load(&waiter->id) == 0)
        sched_yield();
}

/**
 * Close it, and see that the waiters are out before that returns.
 * @param least_ns  in and out: the shortest time in which all were out, as a machine that is busy
 *                  with other things has threads wait
 */
static void close_beside(const char *name, struct waiter *waiters, size_t n, uint64_t *least_ns)
{
    uint64_t began_ns = wring_now_ns(), last_ns = began_ns;
    wring_session_close(ranks[0].session);
    uint64_t closed_ns = wring_now_ns();

    ranks[0].session = NULL;
    for (size_t i = 0; i < n; i++) {
        pthread_join(waiters[i].thread, NULL);
        CHECK(waiters[i].status == WRING_ERR_CLOSED, "%s: waiter %zu: %s", name, i,
              wring_status_text(waiters[i].status));
        last_ns = waiters[i].ended_ns > last_ns ? waiters[i].ended_ns : last_ns;
    }
    /* a peer that listens to nobody is given a while to hear the good-bye */
    uint64_t close_ns = closed_ns - began_ns, wait_ns = last_ns - began_ns;
    bool hears = strstr(name, "caller") == NULL;
    uint64_t all_ns = hears && close_ns > wait_ns ? close_ns : wait_ns;
    CHECK(close_ns < HANG_NS, "%s: %.1f ms", name, (double)close_ns / 1e6);
    *least_ns = all_ns < *least_ns ? all_ns : *least_ns;
}

static void check_limit(const char *name, uint64_t least_ns)
{
    CHECK(least_ns <= LIMIT_NS, "%s: %.1f ms at best", name, (double)least_ns / 1e6);
}

static char state_of(const struct waiter *waiter)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&waiter->id));
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return '?';
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(file);
    return state;
}

/** Has its thread had a core for so long? Time alone says nothing of a thread that has none. */
static bool has_computed(const struct waiter *waiter)
{
    struct timespec used = {0, 0};
    clockid_t clock;
    return pthread_getcpuclockid(waiter->thread, &clock) != 0 || clock_gettime(clock, &used) != 0 ||
           (uint64_t)used.tv_sec * WRING_NS_PER_S + (uint64_t)used.tv_nsec > LOOKS_NS;
}

/** Nobody knows that a call has begun but from its thread's sleep. One that computes or looks
 *  without end has begun after a while. */
static void await_begin(struct waiter *waiters, size_t n)
{
    const struct timespec pause = {0, 100000};
    uint64_t limit_ns = wring_deadline_in(HANG_NS);
    for (size_t i = 0; i < n; i++)
        while (state_of(&waiters[i]) != 'S' && !has_computed(&waiters[i]) &&
               wring_now_ns() < limit_ns)
            nanosleep(&pause, NULL);
}

/** At once, or when all have slept for long. */
static void pause_before(struct waiter *waiters, size_t n, unsigned turn)
{
    const struct timespec pauses[TURNS] = {{0, 0}, {0, 3000000}, {0, 30000000}};
    await_begin(waiters, n);
    nanosleep(&pauses[turn], NULL);
}

/** Requests are queued behind each other: one runs, the others wait. */
static void start_requests(struct waiter *waiters, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum wring_status status =
            wring_allreduce(ranks[0].group, waiters[i].call, waiters[i].call, 64, WRING_F32,
                            WRING_SUM, NULL, &waiters[i].request);
        REQUIRE(status == WRING_OK, "request %zu: %s", i, wring_status_text(status));
    }
}

static void post_all(void)
{
    for (size_t i = 0; i < WAITERS; i++)
        CHECK(wring_bucket_post(ranks[0].buckets[i]) == WRING_OK, "post");
}

/** Eight threads wait, for a request that runs, two behind it, and buckets. */
static void buckets_and_requests_in(const struct setting *setting)
{
    uint64_t least_ns = UINT64_MAX;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct waiter waiters[WAITERS] = {0};

        if (!open_job(setting, "int8", ELEMS))
            return;
        post_all();
        start_requests(waiters, 3);
        start(&waiters[0], 0, wait_for_request);
        start(&waiters[1], 1, wait_for_request);
        start(&waiters[2], 2, wait_for_request);
        start(&waiters[3], 3, wait_for_bucket);
        start(&waiters[4], 4, wait_for_bucket);
        start(&waiters[5], 5, wait_for_any);
        start(&waiters[6], 6, wait_for_any);
        start(&waiters[7], 7, wait_for_bucket);
        pause_before(waiters, WAITERS, turn);
        close_beside(setting->name, waiters, WAITERS, &least_ns);
        close_job(setting);
    }
    check_limit(setting->name, least_ns);
}

static void buckets_and_requests(void)
{
    for (size_t i = 0; i < SETTINGS; i++)
        buckets_and_requests_in(&settings[i]);
}

/** Calls that wait by themselves, and one that the whole session takes part in. */
static void calls_that_wait_in(const struct setting *setting)
{
    uint64_t least_ns = UINT64_MAX;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct waiter waiters[3] = {0};

        if (!open_job(setting, NULL, ELEMS))
            return;
        start(&waiters[0], 0, meet);
        start(&waiters[1], 1, call_at_once);
        start(&waiters[2], 2, make_group);
        pause_before(waiters, 3, turn);
        close_beside(setting->name, waiters, 3, &least_ns);
        close_job(setting);
    }
    check_limit(setting->name, least_ns);
}

static void calls_that_wait(void)
{
    for (size_t i = 0; i < SETTINGS; i++)
        calls_that_wait_in(&settings[i]);
}

static enum wring_status commit(struct waiter *waiter)
{
    (void)waiter;
    return wring_session_commit(ranks[0].session);
}

static void commits_in(const struct setting *setting)
{
    uint64_t least_ns = UINT64_MAX;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct waiter waiters[1] = {0};

        if (!open_job(setting, "int8", ELEMS))
            return;
        start(&waiters[0], 0, commit);
        pause_before(waiters, 1, turn);
        close_beside(setting->name, waiters, 1, &least_ns);
        close_job(setting);
    }
    check_limit(setting->name, least_ns);
}

static void commits(void)
{
    for (size_t i = 0; i < SETTINGS; i++)
        commits_in(&settings[i]);
}

/* ---- what the other rank hears ---- */

static bool register_late(const struct rank *rank)
{
    struct wring_bucket_params late = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket;

    late.name = "late";
    late.data = rank->data;
    late.elems = rank->elems;
    late.codec = "onebit+ef";
    return wring_bucket_register(rank->session, &late, &bucket) == WRING_OK;
}

static void *commit_along(void *arg)
{
    const struct rank *rank = arg;
    enum wring_status status = wring_session_commit(rank->session);

    CHECK(status == WRING_OK || status == WRING_ERR_PEER, "peer: %s", wring_status_text(status));
    return NULL;
}

/** Nobody is blamed but for closing. */
static void check_blame(const char *name, struct wring_session *session)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    enum wring_status status = wring_session_error(session, &detail);

    if (status != WRING_OK)
        CHECK(detail.rank == 0 && strstr(detail.text, "closed its session") != NULL,
              "%s: rank 1 blames %d: %s", name, (int)detail.rank, detail.text);
}

#define TRIAL_TURNS 8

/** A commit that times a codec is turned out in the middle of that. */
static void commits_with_trials(void)
{
    static const struct setting with_trials[] = {
        {"trials, tcp", 2, {"WRING_PROVIDER=tcp", "WRING_BYPASS=auto"}},
        {"trials, shm", 2, {"WRING_PROVIDER=shm", "WRING_BYPASS=auto"}},
    };
    for (unsigned turn = 0; turn < 2 * TRIAL_TURNS; turn++) {
        const struct setting *setting = &with_trials[turn % 2];
        const struct timespec pause = {0, (long)(turn / 2) * 4 * (long)WRING_NS_PER_MS};
        struct waiter waiter = {0};
        pthread_t other;

        if (!open_job(setting, NULL, LONG_ELEMS))
            return;
        REQUIRE(register_late(&ranks[0]) && register_late(&ranks[1]), "register");
        pthread_create(&other, NULL, commit_along, &ranks[1]);
        start(&waiter, 0, commit);
        await_begin(&waiter, 1);
        nanosleep(&pause, NULL);
        wring_session_close(ranks[0].session);
        ranks[0].session = NULL;
        pthread_join(waiter.thread, NULL);
        CHECK(waiter.status == WRING_ERR_CLOSED || waiter.status == WRING_OK, "%s: %s",
              setting->name, wring_status_text(waiter.status));
        pthread_join(other, NULL);
        check_blame(setting->name, ranks[1].session);
        close_job(setting);
    }
}

/* ---- while work is under way ---- */

struct peer_step {
    struct rank *rank;
    size_t index;
    pthread_t thread;
};

/** A peer's part: it may learn that rank 0 left. */
static void *step_along(void *arg)
{
    const struct peer_step *step = arg;
    struct wring_bucket *bucket = step->rank->buckets[step->index];
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, HANG_NS, NULL);
    CHECK(status == WRING_OK || status == WRING_ERR_PEER, "peer: %s", wring_status_text(status));
    return NULL;
}

static void start_peers(struct peer_step steps[][WAITERS], uint32_t n)
{
    for (uint32_t r = 1; r < n; r++)
        for (size_t i = 0; i < WAITERS; i++) {
            steps[r - 1][i] = (struct peer_step){&ranks[r], i, 0};
            pthread_create(&steps[r - 1][i].thread, NULL, step_along, &steps[r - 1][i]);
        }
}

/** Codec jobs run just as the session is closed; steps may have ended before that. */
static void jobs_under_way_in(const struct setting *setting)
{
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct waiter waiters[WAITERS] = {0};
        struct peer_step steps[RANKS_MAX - 1][WAITERS];

        if (!open_job(setting, "topk:ratio=0.1+ef", LONG_ELEMS))
            return;
        start_peers(steps, setting->ranks);
        post_all();
        for (size_t i = 0; i < WAITERS; i++)
            start(&waiters[i], i, wait_for_bucket);
        pause_before(waiters, WAITERS, turn);
        wring_session_close(ranks[0].session);
        ranks[0].session = NULL;
        for (size_t i = 0; i < WAITERS; i++) {
            pthread_join(waiters[i].thread, NULL);
            CHECK(waiters[i].status == WRING_ERR_CLOSED || waiters[i].status == WRING_OK, "%s: %s",
                  setting->name, wring_status_text(waiters[i].status));
        }
        for (uint32_t r = 1; r < setting->ranks; r++)
            for (size_t i = 0; i < WAITERS; i++)
                pthread_join(steps[r - 1][i].thread, NULL);
        close_job(setting);
    }
}

static void jobs_under_way(void)
{
    for (size_t i = 0; i < SETTINGS; i++)
        jobs_under_way_in(&settings[i]);
}

static const struct wring_test_case cases[] = {
    {"buckets_and_requests", buckets_and_requests},
    {"calls_that_wait", calls_that_wait},
    {"commits", commits},
    {"commits_with_trials", commits_with_trials},
    {"jobs_under_way", jobs_under_way},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
