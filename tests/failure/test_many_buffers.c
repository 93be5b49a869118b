/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer for each parameter of a large model, under a small limit on open files. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define RANKS 4
#define BUFFERS 2000
#define FILES 256 /* that may be open */
#define FEW 120   /* that shall be */
#define DEADLINE_S 400
#define LARGE_ELEMS (3u << 19) /* 6 MiB */

static struct procs_job job;

/** What is logged of buckets, and of what goes wrong. */
struct heard {
    struct procs_rank *rank;
    atomic_uint mapped, others;
};

static void hear(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct heard *heard = arg;
    (void)module;
    if (strstr(text, "elements, codec none") != NULL) {
        bool mapped = strstr(text, "eager-") != NULL || strstr(text, "-direct") != NULL;
        atomic_fetch_add(mapped ? &heard->mapped : &heard->others, 1);
    } else if (level <= WRING_LOG_WARN) {
        procs_say(heard->rank, "log %s", text);
    }
}

/** From one element to some pages, and now and then a large one. */
static uint64_t elems_of(uint32_t i)
{
    return i % 500 == 7 ? LARGE_ELEMS : 1 + (i * 2654435761u >> 8) % 9000;
}

struct all {
    float *data[BUFFERS];
    struct wring_bucket *buckets[BUFFERS];
};

static bool is_zero(const float *data, uint64_t elems)
{
    for (uint64_t i = 0; i < elems; i++)
        if (data[i] != 0)
            return false;
    return true;
}

static bool make(struct procs_rank *rank, struct wring_session *session, struct all *all,
                 uint32_t i)
{
    uint64_t elems = elems_of(i);
    char name[16];
    if (wring_buffer_alloc(session, elems * sizeof(float), (void **)&all->data[i]) != WRING_OK) {
        procs_say(rank, "no buffer %u", i);
        return false;
    }

    if ((uintptr_t)all->data[i] % 4096 != 0 || !is_zero(all->data[i], elems)) {
        procs_say(rank, "buffer %u at %p is not aligned or not zero", i, (void *)all->data[i]);
        return false;
    }
    snprintf(name, sizeof(name), "p%u", i);
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    params.name = name;
    params.data = all->data[i];
    params.elems = elems;
    return wring_bucket_register(session, &params, &all->buckets[i]) == WRING_OK;
}

static float value(uint32_t i, uint64_t k, uint32_t rank)
{
    return (float)((i * 31 + k * 7) % 97 + rank);
}

/** Sums of small whole numbers are exact; what is beside a buffer must not be touched. */
static bool step(struct procs_rank *rank, struct all *all)
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        for (uint64_t k = 0; k < elems_of(i); k++)
            all->data[i][k] = value(i, k, rank->rank);
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (wring_bucket_post(all->buckets[i]) != WRING_OK) {
            procs_say(rank, "post %u", i);
            return false;
        }
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (wring_bucket_wait(all->buckets[i], DEADLINE_S * 1000000000ull, NULL) != WRING_OK) {
            procs_say(rank, "wait %u", i);
            return false;
        }
    for (uint32_t i = 0; i < BUFFERS; i++)
        for (uint64_t k = 0; k < elems_of(i); k++) {
            float want = RANKS * value(i, k, 0) + RANKS * (RANKS - 1) / 2;
            if (all->data[i][k] != want) {
                procs_say(rank, "buffer %u element %llu: %g, not %g", i, (unsigned long long)k,
                          (double)all->data[i][k], (double)want);
                return false;
            }
        }
    return true;
}

/** Two of three, others in between stay; then all of them again. */
static bool make_anew(struct procs_rank *rank, struct wring_session *session, struct all *all)
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (i % 3 != 1) {
            if (wring_bucket_drop(all->buckets[i]) != WRING_OK)
                return false;
            wring_buffer_free(session, all->data[i]);
        }
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (i % 3 != 1 && !make(rank, session, all, i))
            return false;
    return true;
}

/** Calls at once of what lies in a buffer, found among all of them. */
static bool call(struct wring_session *session, struct all *all)
{
    for (uint32_t i = 0; i < BUFFERS; i += 97) {
        all->data[i][0] = 1;
        if (wring_allreduce(wring_session_world(session), all->data[i], all->data[i], 1, WRING_F32,
                            WRING_SUM, NULL, NULL) != WRING_OK ||
            all->data[i][0] != RANKS)
            return false;
    }
    return true;
}

static bool commit(struct procs_rank *rank, struct wring_session *session, struct heard *heard)
{
    atomic_store(&heard->mapped, 0);
    atomic_store(&heard->others, 0);
    if (wring_session_commit(session) != WRING_OK) {
        procs_say(rank, "no commit");
        return false;
    }
    unsigned files = wring_test_descriptors();
    if (files > FEW || heard->mapped != BUFFERS || heard->others != 0) {
        procs_say(rank, "%u files are open; %u buckets in place, %u not", files, heard->mapped,
                  heard->others);
        return false;
    }
    return true;
}

static int run_many(struct procs_rank *rank, void *arg)
{
    struct rlimit limit = {FILES, FILES};
    static struct heard heard; /* of this process */
    struct wring_session *session;
    struct all *all = calloc(1, sizeof(*all));

    (void)arg;
    heard.rank = rank;
    rank->params.log = hear;
    rank->params.log_arg = &heard;
    if (all == NULL || setrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    if (wring_barrier(wring_session_world(session), NULL, NULL) != WRING_OK)
        return 2; /* what calls are received into comes with the first one */
    unsigned before = wring_test_descriptors();
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (!make(rank, session, all, i))
            return 3;
    for (int turn = 0; turn < 3; turn++) {
        if (!commit(rank, session, &heard) || !step(rank, all) || !call(session, all))
            return 4 + turn;
        if (turn < 2 && !make_anew(rank, session, all))
            return 8;
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        if (wring_bucket_drop(all->buckets[i]) != WRING_OK)
            return 9;
        wring_buffer_free(session, all->data[i]);
    }
    /* slots of a commit have one of their own */
    if (wring_session_commit(session) != WRING_OK || wring_test_descriptors() > before + 1) {
        procs_say(rank, "%u files are open, %u were before", wring_test_descriptors(), before);
        return 10;
    }
    wring_session_close(session);
    free(all);
    return 0;
}

static void thousands_take_few_descriptors(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_LOG=debug", NULL};
    memset(&job, 0, sizeof(job));
    job.ranks = RANKS;
    job.settings = settings;
    job.run = run_many;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

/** With no descriptor left the reason and the remedy are told. */
static int run_out(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    struct rlimit limit;
    void *data;

    (void)arg;
    if (wring_session_open(&rank->params, &session) != WRING_OK ||
        getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    limit.rlim_cur = 3;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 3;
    enum wring_status status = wring_buffer_alloc(session, 5000, &data);
    wring_session_close(session);
    return status == WRING_ERR_SYSTEM ? 0 : 4;
}

static void the_limit_is_named(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", NULL};
    memset(&job, 0, sizeof(job));
    job.ranks = 2;
    job.settings = settings;
    job.run = run_out;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        CHECK(job.codes[i] == 0 &&
                  strstr(job.texts[i], "raise the limit of descriptors (ulimit -n)") != NULL,
              "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"thousands_take_few_descriptors", thousands_take_few_descriptors},
        {"the_limit_is_named", the_limit_is_named},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
