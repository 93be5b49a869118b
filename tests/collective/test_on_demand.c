/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks are connected to those that they exchange with, and to no others. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 24
#define WAIT_NS (60ull * 1000000000)

static pthread_barrier_t together; /* not by messages: these connect */

static uint32_t connections_of(struct wring_session *session)
{
    uint32_t n = 0;
    wring_progress_lock(session->progress);
    for (uint32_t i = 0; i < session->size; i++)
        n += i != session->rank && session->fabric->peers[i].state != WRING_PEER_NONE;
    wring_progress_unlock(session->progress);
    return n;
}

static void expect(struct wring_session *session, const char *when, uint32_t wanted)
{
    pthread_barrier_wait(&together);
    uint32_t n = connections_of(session);
    CHECK(n == wanted, "%s: rank %u has %u connections, not %u", when, session->rank, n, wanted);
    pthread_barrier_wait(&together);
}

/** A bucket of a group of two neighbours. */
static void run_pair(struct wring_session *session, uint32_t rank)
{
    const uint32_t pair[] = {rank / 2 * 2, rank / 2 * 2 + 1};
    struct wring_group *group = NULL;
    struct wring_bucket *bucket = NULL;
    static float sums[RANKS][1000];
    char name[32];
    snprintf(name, sizeof(name), "pair %u", rank / 2);
    for (int i = 0; i < 1000; i++)
        sums[rank][i] = (float)(rank + 1);
    enum wring_status status =
        wring_group_create(wring_session_world(session), pair, 2, 0, WAIT_NS, &group);
    CHECK(status == WRING_OK, "group: %s", wring_status_text(status));
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    params.name = name;
    params.data = sums[rank];
    params.elems = 1000;
    params.group = group;
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    CHECK(status == WRING_OK, "register: %s", wring_status_text(status));
    status = wring_session_commit(session);
    if (status == WRING_OK)
        status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WAIT_NS, NULL);
    float want = (float)(pair[0] + pair[1] + 2);
    CHECK(status == WRING_OK && sums[rank][0] == want && sums[rank][999] == want, "%s: %g, not %g",
          wring_status_text(status), sums[rank][999], want);
}

/** In the binomial tree of rank 0: the one that passes on to it, and those that it passes on to. A
 *  pair's other rank is one of them. */
static uint32_t tree_neighbours(uint32_t rank)
{
    uint32_t n = rank != 0;
    for (uint32_t bit = 1; rank + bit < RANKS && (rank & bit) == 0; bit *= 2)
        n++;
    return n;
}

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    (void)arg;
    char text[5000];
    struct wring_group *world = wring_session_world(session);
    expect(session, "opened", 0);
    run_pair(session, rank);
    expect(session, "in pairs", 1);
    memset(text, rank == 0 ? 'x' : 0, sizeof(text));
    enum wring_status status = wring_broadcast(world, text, sizeof(text), 0, NULL, NULL);
    CHECK(status == WRING_OK && text[0] == 'x' && text[sizeof(text) - 1] == 'x', "broadcast: %s",
          wring_status_text(status));
    expect(session, "after a broadcast", tree_neighbours(rank));
    status = wring_barrier(world, NULL, NULL);
    CHECK(status == WRING_OK, "barrier: %s", wring_status_text(status));
}

static void over(const char *progress)
{
    const char *const settings[] = {"WRING_PROVIDER=tcp", progress, NULL};
    struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = run};
    pthread_barrier_init(&together, NULL, RANKS);
    wring_test_run_ranks(&job);
    pthread_barrier_destroy(&together);
}

static void threads_connect_whom_they_talk_to(void)
{
    over("WRING_PROGRESS=thread");
}

static void callers_do(void)
{
    over("WRING_PROGRESS=caller");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"threads_connect_whom_they_talk_to", threads_connect_whom_they_talk_to},
        {"callers_do", callers_do},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
